"""One target under libFuzzer, in a process of its own: `python -m fuzz.guided NAME CPU_SECONDS ARGUMENTS...`.

Everything in `shim` is instrumented, so an input that takes a new way through it is kept and built upon.
"""

import os
import resource
import signal
import sys
import time

import atheris

_LOOK_EVERY = 256
_ENDLESS_S = 60


def main(name: str, cpu_seconds: float, arguments: list[str]) -> None:
    """Run until so much of the CPU is used, 0 being without end; never comes back."""
    with atheris.instrument_imports(include=["shim"], enable_loader_override=False):
        from fuzz.targets import target  # noqa: PLC0415 - what is imported here is what is instrumented

        check = target(name).check
    if cpu_seconds:  # an input that never ends; libFuzzer's own alarm ends runs that only wait for the CPU
        resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_seconds) + _ENDLESS_S, resource.RLIM_INFINITY))
    runs = 0

    def one(data: bytes) -> None:
        nonlocal runs
        runs += 1
        if cpu_seconds and runs % _LOOK_EVERY == 0 and time.process_time() > cpu_seconds:
            os.kill(os.getpid(), signal.SIGUSR1)  # libFuzzer ends in an orderly way
        check(data)

    atheris.Setup([sys.argv[0], *arguments], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), sys.argv[3:])
