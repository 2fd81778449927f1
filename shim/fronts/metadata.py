"""Where clients learn who gives out tokens for the server (RFC 9728), as they know its address (ERRORS)."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Protocol
from urllib.parse import urlsplit

from aiohttp import hdrs, web

from shim.config import Config
from shim.config.clients import PINNED_PATHS
from shim.fronts.reply import Reply
from shim.hub import rawjson
from shim.hub.rawjson import RawJsonError
from shim.upstreams.authority import Authority
from shim.upstreams.http import Link
from shim.wire.errors import UpstreamFault, no_such_endpoint, not_allowed
from shim.wire.http import JSON_TYPE

WELL_KNOWN = "/.well-known/oauth-protected-resource"

_ALLOW = "GET, OPTIONS"
_OK, _SERVER_ERROR = 200, 500
_SIGNED = "signed_metadata"
"""Says the server's own address again, signed; it would count more than the members beside it."""


class Described(Protocol):
    """An upstream that may describe itself."""

    link: Link
    judged: bool
    """Whether it sees the callers' own credentials; only then its word counts for them."""

    @property
    def authority(self) -> Authority:
        """Whose credential goes there."""

    @property
    def over_http(self) -> bool:
        """Whether it has addresses beside its own."""


class ResourceMetadata:
    """Serves the metadata of each endpoint: the config's, or that of the upstream new callers are sent to."""

    def __init__(self, config: Config, upstreams: Mapping[str, Described]) -> None:
        self._config = config
        self._upstreams = upstreams
        public = config.listen.public_urls()
        endpoints = {path: public.get(path) for path in (config.listen.path, *PINNED_PATHS)}
        self._resources = {
            WELL_KNOWN + urlsplit(url or path).path.rstrip("/"): url for path, url in endpoints.items()
        }
        self._resources[WELL_KNOWN] = endpoints[config.listen.path]
        self._urls = {path: metadata_url(url) for path, url in public.items()}

    def url(self, endpoint: str) -> str | None:
        """Give the public address of an endpoint's metadata, where `listen.public_url` tells it."""
        return self._urls.get(endpoint)

    def served_at(self, path: str) -> bool:
        """Tell whether a path is one of metadata."""
        return path in self._resources

    async def answer(self, http: web.BaseRequest, reply: Reply) -> web.StreamResponse:
        """Give the document. Raises ClientFault where there is none, UpstreamFault."""
        if http.method != hdrs.METH_GET:
            raise not_allowed(_ALLOW)
        resource = self._resources[http.path]
        document = self._own(resource) or await self._upstreams_own(http.path)
        if resource is not None:
            document = {**document, "resource": rawjson.encode(resource)}
            document.pop(_SIGNED, None)
        return reply.raw(_OK, rawjson.join(document), JSON_TYPE)

    def _own(self, resource: str | None) -> dict[str, bytes] | None:
        """Give what the config says, where it does."""
        identity = self._config.identity
        if resource is None or not identity.authorization_servers:
            return None
        document: dict[str, object] = {
            "resource": resource,
            "authorization_servers": identity.authorization_servers,
            "bearer_methods_supported": ["header"],
        }
        if identity.scopes:
            document["scopes_supported"] = identity.scopes
        return {name: rawjson.encode(value) for name, value in document.items()}

    async def _upstreams_own(self, path: str) -> dict[str, bytes]:
        """Ask the upstream where clients would, beside its own path first. Raises what `answer` does."""
        upstream = self._upstreams[self._config.cutover.default_of(self._upstreams)]
        if not upstream.judged or not upstream.over_http:
            raise no_such_endpoint(path)
        for place in _places(upstream.link.url):
            headers = [(hdrs.ACCEPT, JSON_TYPE), *upstream.authority.own()]
            link = upstream.link
            async with (
                link.in_time(patient=False),
                await link.send(hdrs.METH_GET, headers, at=place) as response,
            ):
                body = await link.read(response)
                if response.status == _OK:
                    return _document(body)
                if response.status >= _SERVER_ERROR:
                    raise UpstreamFault(f"the upstream has no metadata: HTTP {response.status}")
        raise no_such_endpoint(path)


def described_at(config: Config) -> str | None:
    """Give the URL that a 401 of the shim's own names to clients that look for a token."""
    if config.identity.resource_metadata is not None or config.listen.public_url is None:
        return config.identity.resource_metadata
    return metadata_url(config.listen.public_url)


def metadata_url(resource: str) -> str:
    """Give the address at which a resource describes itself (RFC 9728, section 3.1)."""
    parts = urlsplit(resource)
    return f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{parts.path.rstrip('/')}"


def _places(url: str) -> Iterator[str]:
    if own := urlsplit(url).path.rstrip("/"):
        yield WELL_KNOWN + own
    yield WELL_KNOWN


def _document(body: bytes) -> dict[str, bytes]:
    with suppress(RawJsonError):
        return dict(rawjson.members(body))
    raise UpstreamFault("the upstream's metadata is no JSON object")
