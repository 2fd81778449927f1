"""A config that can change while the shim runs (SIGHUP)."""

from typing import Any, cast

from shim.config.model import Config


class Live:
    """Stands where a `Config` does and gives the sections of the one in force at that moment.

    What is read once, when a part is made, keeps its value; what is read at each use follows a reload.
    """

    def __init__(self, config: Config) -> None:
        self.in_force = config

    def as_config(self) -> Config:
        """Give it to who asks for a config."""
        return cast("Config", self)

    def __getattr__(self, section: str) -> Any:
        return getattr(self.in_force, section)
