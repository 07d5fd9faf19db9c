"""The `fencepost` command: one module per subcommand.

Nothing heavy is imported before a subcommand runs, so that `fencepost --help` answers at once.
"""

import io
import sys

from fencepost.cli import (  # noqa: F401 - each registers its command
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

__all__ = ["app", "main"]


def main() -> None:
    """Run the command line; end the process with 0 done, 1 the work failed, 2 usage or bad input."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # for a terminal without some letters
    app()
