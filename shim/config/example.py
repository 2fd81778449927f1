"""Writes config.example.toml from the model: `python -m shim.config.example > config.example.toml`."""

import inspect
import sys
import textwrap
from collections.abc import Iterator

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from shim.config.keys import section_of
from shim.config.model import Config
from shim.config.show import toml_value

_WIDTH = 100
_HEAD = """\
# Every key of taskshim's config with its default. What is commented out has no default and is an example.
# All of it may be left out but the upstream's url or command. A key is also set by a variable, as
# TASKSHIM_LISTEN_PORT for listen.port, and that by a flag. Names in capitals, as OWN-ID, are rules of
# docs/translation.md. Durations are milliseconds. Relative paths count from the working directory.
"""


def example() -> str:
    """Give the text of config.example.toml."""
    lines = [_HEAD]
    for name, field in Config.model_fields.items():
        section = section_of(field)
        assert section is not None  # noqa: S101 - every key of the root is a section
        header = f"[[{name}]]" if name == "upstream" else f"[{name}]"
        lines += _table(header, name, section)
    return "\n".join(lines).rstrip() + "\n"


def _table(header: str, name: str, section: type[BaseModel]) -> Iterator[str]:
    yield from _comment(inspect.getdoc(section) or "")
    yield header
    for key, field in section.model_fields.items():
        if section_of(field) is None:
            yield from _comment(field.description or "")
            yield _setting(key, field)
    yield ""
    for key, field in section.model_fields.items():
        if (inner := section_of(field)) is not None:
            yield from _table(f"[{name}.{key}]", f"{name}.{key}", inner)


def _setting(key: str, field: FieldInfo) -> str:
    default = field.get_default(call_default_factory=True, validated_data={})
    if default is None:
        return f"#{key} = {toml_value((field.examples or [''])[0])}"
    if default is PydanticUndefined or (default == "" and field.examples):
        return f"{key} = {toml_value((field.examples or [''])[0])}"
    return f"{key} = {toml_value(default)}"


def _comment(text: str) -> Iterator[str]:
    for line in textwrap.wrap(" ".join(text.split()), _WIDTH, break_on_hyphens=False):
        yield f"# {line}"


if __name__ == "__main__":
    sys.stdout.write(example())
