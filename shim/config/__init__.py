"""What may be set, and how it is read: defaults, then the file, then TASKSHIM_ variables, then flags."""

from shim.config.load import ConfigError, load_config
from shim.config.model import Config
from shim.config.secret_files import api_keys, client_secret, digest_of, read_file, service_token
from shim.config.show import changed_keys, digest, show

__all__ = [
    "Config",
    "ConfigError",
    "api_keys",
    "changed_keys",
    "client_secret",
    "digest",
    "digest_of",
    "load_config",
    "read_file",
    "service_token",
    "show",
]
