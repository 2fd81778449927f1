# docker build -t taskshim .
# docker run --read-only --tmpfs /tmp -v taskshim:/var/lib/taskshim -p 8765:8765 \
#     -e TASKSHIM_UPSTREAM_URL=http://server:3000/mcp taskshim
#
# A config file: mount it and name it in TASKSHIM_CONFIG, so that the health check reads it too.

FROM python:3.13-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY mappings mappings
COPY shim shim
# wheels only: no compiler is needed, and the image is the same on each machine; Python's own bytecode is made
# here and by its sources' hashes, since on a read-only file system each health check would make it all again
RUN python -m venv /opt/taskshim \
 && /opt/taskshim/bin/pip install --no-cache-dir --no-compile --only-binary=:all: '.[jwt]' \
 && python -m compileall -q --invalidation-mode unchecked-hash /opt/taskshim/lib

FROM python:3.13-slim-bookworm
# the base image comes without
RUN python -m compileall -q --invalidation-mode unchecked-hash /usr/local/lib/python3.13
# the number, not the name, is what Kubernetes can tell from root
RUN groupadd --gid 10001 taskshim \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/taskshim taskshim \
 && install -d -o 10001 -g 10001 -m 0700 /var/lib/taskshim
COPY --from=build /opt/taskshim /opt/taskshim
# in a container of its own nobody reaches the loopback address; the ledger and the keys lie in the working directory
# and large bodies go back to the system at once (docs/how-to/deploy.md, Memory)
ENV PATH=/opt/taskshim/bin:$PATH \
    MALLOC_MMAP_THRESHOLD_=131072 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    TASKSHIM_LISTEN_HOST=0.0.0.0
USER 10001:10001
WORKDIR /var/lib/taskshim
VOLUME /var/lib/taskshim
EXPOSE 8765
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s CMD ["taskshim", "health"]
ENTRYPOINT ["taskshim"]
CMD ["serve"]
