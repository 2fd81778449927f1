"""`taskshim completion`: what a shell has to know to complete the commands."""

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

_NAME = "taskshim"
_VARIABLE = "_TASKSHIM_COMPLETE"
_SHELLS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command()
@click.argument("shell", type=click.Choice(tuple(_SHELLS)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    bash: eval "$(taskshim completion bash)" in ~/.bashrc (4.4 or newer); zsh: the same with zsh in ~/.zshrc;
    fish: taskshim completion fish > ~/.config/fish/completions/taskshim.fish
    """
    kind = _SHELLS[shell]
    # not the method of BashComplete: that one runs a bash to look at its version
    script = ShellComplete.source(kind(ctx.find_root().command, {}, _NAME, _VARIABLE))
    click.echo(script.strip())
