"""The command line: one file a command. Errors of the operator are one line; exit codes are 0, 1, 2."""

import click

from shim import __version__
from shim.cli.audit import audit
from shim.cli.check import check
from shim.cli.completion import completion
from shim.cli.cutover import cutover
from shim.cli.demo import demo
from shim.cli.health import health
from shim.cli.mappings import mappings
from shim.cli.probe import probe_command
from shim.cli.serve import serve
from shim.cli.stdio import stdio
from shim.cli.tasks import tasks


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="taskshim")
def cli() -> None:
    """Serve the old and the new MCP Tasks API at once, in front of the server you have."""


COMMANDS = (
    serve, stdio, demo, check, health, probe_command, tasks, mappings, audit, cutover, completion,
)  # fmt: skip

for command in COMMANDS:
    cli.add_command(command)

if __name__ == "__main__":
    cli()
