"""A config that can change while the shim runs (SIGHUP)."""

from typing import cast

from shim.config.model import Config


class Live:
    """Stands where a `Config` does and gives the sections of the one in force at that moment.

    What is read once, when a part is made, keeps its value; what is read at each use follows a reload.
    """

    def __init__(self, config: Config) -> None:
        self.renew(config)

    def renew(self, config: Config) -> None:
        """Put a config in force."""
        self.in_force = config
        vars(self).update({section: getattr(config, section) for section in type(config).model_fields})

    def as_config(self) -> Config:
        """Give it to who asks for a config."""
        return cast("Config", self)
