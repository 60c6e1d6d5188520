"""The commands in one place, and what happens to errors and Ctrl-C."""

from __future__ import annotations

import inspect
import re
import sys
from importlib import import_module

import typer

from banister.errors import BanisterError

app = typer.Typer(
    help="Bandits with a handrail: improve many related decisions at once, never earning less than a set "
    "share of what the policy in place earns.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)

_INTERRUPTED = 130  # what a shell expects after Ctrl-C

# Each module adds its commands to `app` when imported; heavy imports stay inside the commands.
_MODULES: tuple[str, ...] = (
    "banister.cli.plan",
    "banister.cli.study",
    "banister.cli.promises",
    "banister.cli.data",
    "banister.cli.online",
    "banister.cli.serve",
)


def main() -> None:
    """Run the command line; a known error is one line on stderr and exit code 2."""
    for name in _MODULES:
        import_module(name)
    _let_help_flow(app)
    try:
        app()
    except BanisterError as error:
        typer.secho(f"banister: {_with_options(str(error))}", fg="red", err=True)
        sys.exit(2)
    except OSError as error:  # a file where a folder should be, no room, no permission
        where = f"{error.filename}: " if error.filename else ""
        typer.secho(f"banister: {where}{error.strerror or error}.", fg="red", err=True)
        sys.exit(2)
    except SystemExit as left:
        if left.code == _INTERRUPTED:  # typer ends without a word
            typer.secho("banister: interrupted.", err=True)
        raise


def _let_help_flow(typer_app: typer.Typer) -> None:
    """Break lines of help where the terminal ends, not where the source does."""
    for command in typer_app.registered_commands:
        if command.callback is not None:
            paragraphs = (inspect.getdoc(command.callback) or "").split("\n\n")
            command.help = "\n\n".join(" ".join(text.split()) for text in paragraphs)
    for group in typer_app.registered_groups:
        if group.typer_instance is not None:
            _let_help_flow(group.typer_instance)


def _with_options(text: str) -> str:
    """What errors call `task=...` is `--task` in a shell.

    Examples:
        >>> _with_options("Name it with baseline_reward=...")
        'Name it with --baseline-reward'
    """
    return re.sub(r"\b([a-z_]+)=\.\.\.", lambda found: f"--{found[1].replace('_', '-')}", text)


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Show the version and exit.")) -> None:
    if version:
        from banister import __version__

        typer.echo(__version__)
        raise typer.Exit()
