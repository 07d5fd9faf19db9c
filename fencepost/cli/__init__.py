"""The `fencepost` command: one module per subcommand.

Nothing heavy is imported before a subcommand runs, so that `fencepost --help` answers at once.
"""

import io
import sys

from fencepost.cli import (
    analyze,
    compare,
    convert,
    evaluate,
    export,
    inspect,
    predict,
    recipes,
    report,
    sweep,
    train,
)
from fencepost.cli.frame import app

__all__ = [
    "analyze",
    "compare",
    "convert",
    "evaluate",
    "export",
    "inspect",
    "main",
    "predict",
    "recipes",
    "report",
    "sweep",
    "train",
]


def main() -> None:
    """Runs the command line; ends the process with 0 done, 1 the work failed, 2 usage or bad input."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that has not all letters gets the others
    app()
