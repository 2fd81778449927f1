"""The names of all keys: dotted, as environment variables, and which one was meant."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from shim.config.model import Config

ENV_PREFIX = "TASKSHIM_"

Path = tuple[str, ...]


def section_of(field: FieldInfo) -> type[BaseModel] | None:
    """Give the section a field holds, once or as a list; None for a plain value."""
    for kind in (field.annotation, *get_args(field.annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None


def leaves(model: type[BaseModel] = Config, at: Path = ()) -> Iterator[tuple[Path, FieldInfo]]:
    """Give the path of every plain value."""
    for name, field in model.model_fields.items():
        inner = section_of(field)
        if inner is None:
            yield (*at, name), field
        else:
            yield from leaves(inner, (*at, name))


def env_names() -> dict[str, Path]:
    """Give the environment variable of every key."""
    return {ENV_PREFIX + "_".join(path).upper(): path for path, _ in leaves()}


def list_keys() -> frozenset[Path]:
    """Give the keys that hold a list."""
    return frozenset(path for path, field in leaves() if get_origin(field.annotation) is tuple)


def meant(path: tuple[Any, ...]) -> str | None:
    """Guess which key was meant: one spelt alike beside it, else the same name in another section."""
    names = [part for part in path if isinstance(part, str)]
    model: type[BaseModel] = Config
    for name in names[:-1]:
        field = model.model_fields.get(name)
        inner = section_of(field) if field is not None else None
        if inner is None:
            return None
        model = inner
    close = get_close_matches(names[-1].lower().replace("-", "_"), model.model_fields, 1)
    if close:
        return ".".join((*names[:-1], close[0]))
    return next((".".join(leaf) for leaf, _ in leaves() if leaf[-1] == names[-1]), None)
