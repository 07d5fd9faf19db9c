"""Functions that all commands share: registration, exit codes, errors and output.

Results go to standard output, messages about the work to standard error.
"""

from __future__ import annotations

import functools
import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from fencepost import __version__
from fencepost.cli.groups import expand_groups
from fencepost.errors import DataError, FencepostError, LanguageWarning, UsageError, describe_error

FAILED, WRONG = 1, 2
INTERRUPTED = 130  # the exit code that shells use for Ctrl-C

OUTPUT = "Output"
"""Title in `--help` of the options for the output."""

Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print only errors and results.", rich_help_panel=OUTPUT)
]
Json = Annotated[
    Path | None,
    typer.Option(
        "--json",
        help="Write the result as JSON to a file whose name ends in .json, or else to standard output.",
        rich_help_panel=OUTPUT,
        metavar="[FILE.json]",
    ),
]


class _PlainHelp:
    """Mixin for commands whose help shows `--quiet`, not `--quiet <bool>`."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if isinstance(param, TyperOption) and param.is_flag:
                param.metavar = ""
        return params


class Group(_PlainHelp, TyperGroup):
    """Command with subcommands, which the help lists by name, whichever module was imported first."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx))


class Command(_PlainHelp, TyperCommand):
    """Command whose `--json` may have no value and whose `--sweep`, `--grid` and `--search` several."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for name in ("--sweep", "--grid", "--search"):
            args = repeat_option(name, args)
        return super().parse_args(ctx, fill_json_target(args))


app = typer.Typer(
    name="fencepost",
    cls=Group,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"fencepost {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Train and run models for named entity recognition, with nested entities and precise boundaries."""


def command_group(name: str, text: str) -> typer.Typer:
    """Register a command with subcommands."""
    group = typer.Typer(name=name, cls=Group, help=text, no_args_is_help=True)
    app.add_typer(group)
    return group


def repeat_option(option: str, args: list[str]) -> list[str]:
    """Return the arguments with the option repeated before each further `key=value` after it."""
    completed: list[str] = []
    for index, argument in enumerate(args):
        if argument == "--":
            return completed + args[index:]
        follows = completed[-2:-1] == [option] or (completed and completed[-1].startswith(f"{option}="))
        if follows and re.match(r"[\w.]+=", argument):
            completed.append(option)
        completed.append(argument)
    return completed


def fill_json_target(args: list[str]) -> list[str]:
    """Return the arguments with `-` after each `--json` that no file name ending in .json follows."""
    completed: list[str] = []
    for index, (argument, following) in enumerate(zip(args, [*args[1:], ""], strict=False)):
        if argument == "--":
            return completed + args[index:]
        completed.append(argument)
        if argument == "--json" and following != "-" and not following.lower().endswith(".json"):
            completed.append("-")
    return completed


def command(name: str, group: typer.Typer = app) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a command; an error ends the process with a message and an exit code.

    The parameters of the function are arguments, options and groups of options; the last paragraph of its
    docstring is an example.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        expanded = expand_groups(function)

        @functools.wraps(expanded)
        def run(**arguments: Any) -> None:
            try:
                with _print_warnings(quiet=bool(arguments.get("quiet"))):
                    expanded(**arguments)
            except (UsageError, DataError) as error:
                fail(str(error), WRONG)
            except FencepostError as error:
                fail(str(error), FAILED)
            except KeyboardInterrupt as error:
                fail(f"interrupted{error}", INTERRUPTED)
            except BrokenPipeError:  # the program that reads our output has ended
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                raise typer.Exit(FAILED) from None
            except OSError as error:  # a full disk, a lost network drive
                fail(describe_error(error), FAILED)

        return group.command(name, cls=Command)(run)

    return register


@contextmanager
def _print_warnings(*, quiet: bool) -> Iterator[None]:
    """Print warnings of Fencepost as one line each, and those of other libraries as usual."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def show_ours(message: Warning | str, category: type[Warning], *place: Any) -> None:
            if issubclass(category, LanguageWarning):
                say(f"warning: {message}", quiet=quiet)
            else:
                show(message, category, *place)

        warnings.showwarning = show_ours  # type: ignore[assignment]
        warnings.simplefilter("always", LanguageWarning)
        yield


@contextmanager
def explain_resume(advice: str, output: Path | None) -> Iterator[None]:
    """Add advice on how to continue to the messages of Ctrl-C and of files that cannot be written.

    After Ctrl-C, the advice is given only if `output` exists.
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
        when = "when it is writable again (on a full disk, free some space)"
        raise WriteError(f"{error}; {when}, {advice}") from error


def fail(message: str, code: int) -> None:
    typer.echo(f"fencepost: {_escape_controls(message)}", err=True)
    raise typer.Exit(code)


def say(message: str, *, quiet: bool) -> None:
    """Print a message about the work on standard error."""
    if not quiet:
        typer.echo(_escape_controls(message), err=True)


def format_count(count: int, singular: str, plural: str = "") -> str:
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def _escape_controls(message: str) -> str:
    """Return the message with control characters escaped, which could change the terminal."""
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else repr(letter)[1:-1] for letter in message
    )


def write_json(result: dict[str, Any], target: Path) -> None:
    """Write the result of a command as JSON, to a file or (`-`) to standard output.

    Only files with such a result are overwritten: `--json corpus.json` must not destroy a corpus.
    """
    from fencepost.data.output import raise_write_errors, whole_file

    whole = {"fencepost": __version__, **result}
    if str(target) == "-":
        ascii_only = "utf" not in (sys.stdout.encoding or "").lower()
        with raise_write_errors("standard output"):
            typer.echo(json.dumps(whole, indent=2, ensure_ascii=ascii_only))
        return
    check_json_target(target)
    text = json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
    with whole_file(target) as stream:
        stream.write(text.encode("utf-8", "backslashreplace"))  # file names may not be UTF-8


def output_result(result: dict[str, Any], json: Path | None, show: Callable[[], None]) -> None:
    """Write the result as JSON if `--json` is set; call `show` unless the JSON is on standard output."""
    if json is not None:
        write_json(result, json)
    if json is None or str(json) != "-":
        show()


def check_json_target(target: Path | None) -> None:
    """Raise `UsageError` if `--json` names a file that is not a result of Fencepost."""
    from fencepost.analysis.result import is_result
    from fencepost.data.writer import check_no_loop

    if target is not None:
        check_no_loop(target)
    if target is not None and str(target) != "-" and target.exists() and not is_result(target):
        raise UsageError(f"{target}: already exists and is not a result of fencepost; give another name")
