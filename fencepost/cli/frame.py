"""What all commands share: registration, exit codes, errors, and where output goes.

Results go to standard output, everything that is said about the work to standard error.
"""

from __future__ import annotations

import functools
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec

import typer
from typer.core import TyperCommand

from fencepost import __version__
from fencepost.errors import DataError, FencepostError, UsageError, describe_error

if TYPE_CHECKING:
    from fencepost.data.reader import Reader

P = ParamSpec("P")

FAILED, WRONG = 1, 2
INTERRUPTED = 130  # as shells have it for Ctrl-C

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]
Json = Annotated[
    Path | None,
    typer.Option(
        "--json",
        metavar="[FILE.json]",
        help="The result as JSON: to a file whose name ends in .json, or else to standard output.",
    ),
]

app = typer.Typer(
    name="fencepost",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fencepost {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and stop.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Named entity recognition that gets entity boundaries right, nested entities included."""


def command_group(name: str, text: str) -> typer.Typer:
    """A subcommand that has commands of its own."""
    group = typer.Typer(name=name, help=text, no_args_is_help=True)
    app.add_typer(group)
    return group


class Command(TyperCommand):
    """A command whose `--json` may stand without a value, and some options with several."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for option in ("--sweep", "--grid", "--search"):
            args = with_repeated(option, args)
        return super().parse_args(ctx, with_json_target(args))


def with_repeated(option: str, args: list[str]) -> list[str]:
    """The arguments with the option before each of several `key=value` that follow it."""
    filled: list[str] = []
    for index, argument in enumerate(args):
        if argument == "--":
            return filled + args[index:]
        follows = filled[-2:-1] == [option] or (filled and filled[-1].startswith(f"{option}="))
        if follows and re.match(r"[\w.]+=", argument):
            filled.append(option)
        filled.append(argument)
    return filled


def with_json_target(args: list[str]) -> list[str]:
    """The arguments with `-` behind each `--json` that no name of a JSON file follows."""
    filled: list[str] = []
    for index, argument in enumerate(args):
        if argument == "--":
            return filled + args[index:]
        filled.append(argument)
        if argument == "--json":
            following = args[index + 1] if index + 1 < len(args) else ""
            if following != "-" and not following.lower().endswith(".json"):
                filled.append("-")
    return filled


def command(name: str, group: typer.Typer = app) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Registers a function as a subcommand; its errors end the process with a message and a code."""

    def register(function: Callable[P, None]) -> Callable[P, None]:
        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> None:
            try:
                function(*args, **kwargs)
            except (UsageError, DataError) as error:
                fail(str(error), WRONG)
            except FencepostError as error:
                fail(str(error), FAILED)
            except KeyboardInterrupt as error:
                fail(f"interrupted{error}", INTERRUPTED)
            except BrokenPipeError:  # the reader of our output has seen enough
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                raise typer.Exit(FAILED) from None
            except OSError as error:  # a full disk, a lost network drive
                fail(describe_error(error), FAILED)

        return group.command(name, cls=Command)(run)

    return register


@contextmanager
def resumable(advice: str, output: Path | None) -> Iterator[None]:
    """Add how to continue to the messages about Ctrl-C and about a file that cannot be written.

    There is nothing to continue without an `output` that exists.
    """
    from fencepost.data.output import WriteError

    try:
        yield
    except KeyboardInterrupt:
        exists = output is not None and output.exists()
        raise KeyboardInterrupt(f"; {advice}" if exists else "") from None
    except WriteError as error:
        if output is None:
            raise
        when = "when it can be written again (on a full disk, free some space)"
        raise WriteError(f"{error}; {when}, {advice}") from error


def fail(message: str, code: int) -> None:
    typer.echo(f"fencepost: {_harmless(message)}", err=True)
    raise typer.Exit(code)


def say(message: str, *, quiet: bool) -> None:
    """A word about the work, on standard error."""
    if not quiet:
        typer.echo(_harmless(message), err=True)


def _harmless(message: str) -> str:
    """The message without what a file may hold to play with a terminal."""
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else repr(letter)[1:-1] for letter in message
    )


def write_json(result: dict[str, Any], target: Path) -> None:
    """The result of a command as JSON, into a file or (`-`) to standard output.

    Only a result is ever overwritten: `--json corpus.json` must not cost anyone a corpus.
    """
    from fencepost.data.output import naming, whole_file

    whole = {"fencepost": __version__, **result}
    if str(target) == "-":
        ascii_only = "utf" not in (sys.stdout.encoding or "").lower()
        with naming("standard output"):
            typer.echo(json.dumps(whole, indent=2, ensure_ascii=ascii_only))
        return
    check_json_target(target)
    text = json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
    with whole_file(target) as stream:
        stream.write(text.encode("utf-8", "backslashreplace"))  # a file's name need not be UTF-8


def check_json_target(target: Path | None) -> None:
    """Refuses a file that `--json` must not overwrite, before any work is done."""
    from fencepost.data.writer import check_no_loop

    if target is not None:
        check_no_loop(target)
    if target is not None and str(target) != "-" and target.exists() and not _is_result(target):
        raise UsageError(f"{target}: is there already and no result of fencepost; give another name")


def _is_result(path: Path) -> bool:
    try:
        with path.open(encoding="utf-8") as stream:
            return stream.read(30).startswith('{\n  "fencepost": ')
    except (OSError, UnicodeDecodeError):
        return False


@contextmanager
def progress_of(reader: Reader, *, quiet: bool) -> Iterator[Callable[[], None]]:
    """A progress bar over the bytes of a file, to be called for each sentence; for terminals only."""
    path = reader.source.path
    if quiet or path is None or not path.is_file() or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TextColumn("{task.fields[sentences]:,} sentences"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(path.name, total=path.stat().st_size, sentences=0)

        def advance() -> None:
            if reader.sentences % 500 == 0:
                progress.update(task, completed=reader.source.bytes_read, sentences=reader.sentences)

        yield advance
