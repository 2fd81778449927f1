"""What all sections of the config share."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr


class Section(BaseModel):
    """A table of the config: immutable, no key that is not in it, every key described by its docstring."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, hide_input_in_errors=True
    )


_CENTURY_MS = 3_155_760_000_000
"""The longest duration: with the time of day it still is a date, and an integer that SQLite takes."""
_MOST = 2**53 - 1
"""The largest number that every JSON reader takes for what it is."""

Ms = Annotated[int, Field(ge=0, le=_CENTURY_MS)]
"""A duration in milliseconds, 0 allowed."""
SomeMs = Annotated[int, Field(gt=0, le=_CENTURY_MS)]
"""A duration in milliseconds that must pass."""
Count = Annotated[int, Field(gt=0, le=_MOST)]
Bytes = Annotated[int, Field(gt=0, le=_MOST)]
Port = Annotated[int, Field(ge=0, le=65_535)]


def _one_line(value: SecretStr) -> SecretStr:
    if any(char in value.get_secret_value() for char in "\r\n\0"):
        raise ValueError("must be one line")
    return value


_TOKEN = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"  # noqa: S105 - the token of RFC 9110, no secret
HeaderName = Annotated[str, Field(pattern=_TOKEN)]
SecretLine = Annotated[SecretStr, Field(min_length=1), AfterValidator(_one_line)]
"""A secret that can stand in a header."""
