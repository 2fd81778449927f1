"""What all sections of the config share."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    """A table of the config: immutable, no key that is not in it, every key described by its docstring."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, hide_input_in_errors=True
    )


Ms = Annotated[int, Field(ge=0)]
"""A duration in milliseconds, 0 allowed."""
SomeMs = Annotated[int, Field(gt=0)]
"""A duration in milliseconds that must pass."""
Count = Annotated[int, Field(gt=0)]
Bytes = Annotated[int, Field(gt=0)]
Port = Annotated[int, Field(ge=0, le=65_535)]
