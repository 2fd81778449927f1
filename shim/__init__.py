"""taskshim: a translating reverse proxy for the two MCP Tasks APIs."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("taskshim")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0.0.0"
