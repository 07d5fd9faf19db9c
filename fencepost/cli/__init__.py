"""The `fencepost` command: one module per subcommand.

Nothing heavy is imported before a subcommand runs, so that `fencepost --help` answers at once.
"""

import io
import sys

from fencepost.cli import (
    analyze,
    check,
    compare,
    convert,
    evaluate,
    export,
    inspect,
    predict,
    recipes,
    report,
    serve,
    sweep,
    train,
    tune,
)
from fencepost.cli.frame import app

__all__ = [
    "analyze",
    "check",
    "compare",
    "convert",
    "evaluate",
    "export",
    "inspect",
    "main",
    "predict",
    "recipes",
    "report",
    "serve",
    "sweep",
    "train",
    "tune",
]


def main() -> None:
    """Runs the command line; ends the process with 0 done, 1 the work failed, 2 usage or bad input."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that has not all letters gets the others
    app()
