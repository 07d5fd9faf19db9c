"""The `fencepost` command: one module per subcommand.

No heavy library is imported before a subcommand runs, and only the module of that subcommand is loaded, so
that `fencepost --help` and `fencepost predict` start quickly.
"""

from __future__ import annotations

import io
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typer import Typer

    from fencepost.cli.frame import app

__all__ = ["app", "main"]

COMMANDS = (
    "adapt",
    "analyze",
    "audit",
    "check",
    "combine",
    "compare",
    "convert",
    "distil",
    "evaluate",
    "export",
    "inspect",
    "predict",
    "recipes",
    "report",
    "serve",
    "suggest",
    "sweep",
    "train",
    "tune",
)
"""Names of the commands; importing the module of the same name registers the command."""


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _load_app(COMMANDS)


def main() -> None:
    """Run the command line; exit with 0 on success, 1 on failure, 2 on wrong usage or bad input."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # the terminal's encoding may lack some characters
    command = sys.argv[1:2]
    _load_app(command if command and command[0] in COMMANDS else COMMANDS)()


def _load_app(commands: Iterable[str]) -> Typer:
    """Return the command line with these commands."""
    for command in commands:
        import_module(f"fencepost.cli.{command}")
    from fencepost.cli.frame import app

    return app
