"""The `fencepost` command: one module per subcommand.

Nothing heavy is imported before a subcommand runs, and a subcommand imports no other, so that both
`fencepost --help` and `fencepost predict` answer soon.
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
    "analyze",
    "audit",
    "check",
    "compare",
    "convert",
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
"""The commands; each registers itself when the module of its name is imported."""


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _load_app(COMMANDS)


def main() -> None:
    """Run the command line; end the process with 0 done, 1 the work failed, 2 usage or bad input."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # for a terminal without some letters
    command = sys.argv[1:2]
    _load_app(command if command and command[0] in COMMANDS else COMMANDS)()


def _load_app(commands: Iterable[str]) -> Typer:
    """Return the command line with these commands."""
    for command in commands:
        import_module(f"fencepost.cli.{command}")
    from fencepost.cli.frame import app

    return app
