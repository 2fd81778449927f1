"""Faults planted into the shim's readers: a line of one is written differently for as long as a test runs."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType, ModuleType
from typing import Any


@contextmanager
def planted(module: ModuleType, before: str, after: str) -> Iterator[None]:
    """Run with every occurrence of a text in a module's functions and statements replaced.

    Functions change for whoever has imported them, statements (strings of the module) for the module itself.
    """
    source = inspect.getsource(module)
    assert before in source, f"{module.__name__} no longer has {before!r}"
    names: dict[str, Any] = {"__name__": module.__name__}
    exec(compile(source.replace(before, after), module.__file__ or "", "exec"), names)  # noqa: S102
    changed = [
        (ours, theirs)
        for ours, theirs in _pairs(vars(module), names, module.__name__)
        if ours.__code__ != theirs.__code__
    ]
    texts = {
        name: text for name, text in vars(module).items()
        if isinstance(text, str) and not name.startswith("__") and names.get(name) != text
    }  # fmt: skip
    assert changed or texts, f"{after!r} changes nothing"
    kept: list[tuple[FunctionType, CodeType]] = [(ours, ours.__code__) for ours, _ in changed]
    try:
        for ours, theirs in changed:
            ours.__code__ = theirs.__code__
        for name in texts:
            setattr(module, name, names[name])
        yield
    finally:
        for name, text in texts.items():
            setattr(module, name, text)
        for ours, code in kept:
            ours.__code__ = code


def _pairs(ours: Any, theirs: Any, module: str) -> Iterator[tuple[FunctionType, FunctionType]]:
    for name, one in list(ours.items()):
        other = theirs.get(name)
        if isinstance(one, type) and isinstance(other, type) and one.__module__ == module:
            yield from _pairs(vars(one), vars(other), module)
        elif isinstance(one, FunctionType) and isinstance(other, FunctionType) and one.__module__ == module:
            yield one, other
