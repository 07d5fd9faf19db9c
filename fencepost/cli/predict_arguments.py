"""Checks of the arguments of `fencepost predict`: model, texts, entity types and output."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fencepost.cli.frame import say
from fencepost.errors import UsageError, quote

if TYPE_CHECKING:
    from fencepost.cli.options import FormatOptions
    from fencepost.data.formats.format import Format


_FILE_NAME = re.compile(r"\S+\.(conll|csv|jsonl?|parquet|tsv|txt|xlsx)", re.IGNORECASE)
"""Arguments that are names of files rather than texts."""


def split_arguments(arguments: Sequence[str], *, quiet: bool) -> tuple[Path, Sequence[str]]:
    """Return the model folder (the first argument, or the shipped model) and the texts.

    Unless `quiet`, print a message if the first of several arguments may be meant as a model.
    """
    from fencepost.runtime import loading

    if arguments and _exists((folder := _find_model(arguments[0])) / "config.json"):
        return folder, arguments[1:]
    if arguments:
        _check_no_path(arguments[0])
    if len(arguments) > 1 and arguments[0].split() == [arguments[0]]:
        say(f"{arguments[0]}: no model folder, so it is predicted as a text", quiet=quiet)
    return loading.SHIPPED, arguments


def _check_no_path(argument: str) -> None:
    """Raise `UsageError` for an argument that looks like the path of a model or a file."""
    hint = "; if it is a text, pass it on standard input"
    if _exists(Path(argument)):
        if Path(argument).is_dir():
            raise UsageError.no_model(argument, hint)
        raise UsageError(f"{argument}: a file, not a model folder; give a file of texts with --input{hint}")
    if argument.split() == [argument] and ("/" in argument or os.sep in argument):
        from fencepost.runtime.loading import suggest_model

        raise UsageError(f"{argument}: no such model folder{suggest_model(argument)}{hint}")
    if _FILE_NAME.fullmatch(argument):
        raise UsageError(f"{argument}: no such file; give a file of texts with --input{hint}")


def _find_model(argument: str) -> Path:
    from fencepost.runtime.loading import find_model

    try:
        return find_model(argument)
    except (OSError, ValueError):  # too long for a file name, so it is a text
        return Path()


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # too long for a file name
        return False


def find_source(texts: Sequence[str], path: str | None) -> str | None:
    """Return the path of the input (`-` is standard input); None if the texts are arguments."""
    if texts and path is not None:
        raise UsageError(
            f"give texts or --input, not both (the first text is {texts[0][:40]!r}; a model folder has a "
            "config.json)"
        )
    if texts or path is not None:
        return path
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError(
            'give texts, as in fencepost predict "Ada Lovelace met him.", or a file with --input'
        )
    return "-"


def parse_min_confidence(text: str) -> float | dict[str, float]:
    """Return the minimum confidence of all types, or by type (`person=0.7,place=0.5`)."""
    try:
        if "=" not in text:
            return float(text)
        pairs = (part.rpartition("=") for part in text.split(","))
        return {type_.strip(): float(value) for type_, _, value in pairs}
    except ValueError:
        raise UsageError(
            f"--min-confidence {quote(text)}: give a number from 0 to 1, or one by type, as in "
            "person=0.7,place=0.5"
        ) from None


def parse_types(values: Sequence[str] | None, known: Sequence[str]) -> list[str] | None:
    """Return the entity types in values of `--types`; None for all. A known type may contain commas."""
    if values is None:
        return None
    names = [name for value in values for name in ([value] if value in known else value.split(","))]
    return list(dict.fromkeys(name.strip() for name in names))


def add_select(changes: Sequence[str] | None, flat: bool | None) -> list[str]:
    """Return the changes of `--set` with the one that `--flat` or `--nested` stands for."""
    changes = list(changes or ())
    if flat is None:
        return changes
    if any(change.startswith("predict.select=") for change in changes):
        raise UsageError(
            "--flat and --nested set predict.select, which --set sets too; leave out one of them"
        )
    return [*changes, f"predict.select={'flat' if flat else 'nested'}"]


def check_reading(options: FormatOptions, command: str) -> None:
    """Raise `UsageError` for options about annotations, which a command for texts ignores."""
    if options.keep_rejected:
        raise UsageError(f"--keep-rejected: {command} reads all records, also rejected ones; leave it out")
    if options.columns is not None:
        raise UsageError("--columns is for annotated tables; give the column of the texts with --text-column")


TABLES = ("csv", "xlsx", "parquet", "html")
"""Output formats with one row, or paragraph, per text."""


def check_output(
    source: str | None, output: str | None, to: str | None, *, resume: bool, force: bool
) -> Format | str | None:
    """Return the corpus format of the output, the name of a table format, or None for JSON lines.

    Raises `UsageError` if the output cannot be written.
    """
    if output is None:
        for name, value in (("--to", to), ("--resume", resume), ("--force", force)):
            if value:
                raise UsageError(f"{name} needs --output")
        return None
    check_resume_or_force(resume=resume, force=force)
    from fencepost.data.formats.registry import format_by_name, format_by_suffix
    from fencepost.data.writer import check_no_loop
    from fencepost.runtime.prediction.lines import check_new

    path = Path(output)
    lines = to is None and (output == "-" or path.suffix.lower() == ".jsonl")
    kind = to or path.suffix.lower().removeprefix(".")
    target: Format | str | None = None
    if not lines:
        target = kind if kind in TABLES else format_by_name(to) if to else format_by_suffix(path)
    if resume and (target or output == "-"):
        raise UsageError("--resume works only with JSON lines (--output FILE.jsonl, without --to)")
    if output != "-":
        check_no_loop(path)
        if source is not None and is_same_file(path, Path(source)):
            raise UsageError(f"{output}: the output would overwrite the input; give another name")
        check_new(path, resume=resume, force=force)
    return target


def check_resume_or_force(*, resume: bool, force: bool) -> None:
    if resume and force:
        raise UsageError("--resume continues the output and --force overwrites it; give only one of them")


def is_same_file(path: Path, other: Path) -> bool:
    """Return whether both paths are the same file, also through links."""
    same_name = os.path.realpath(path) == os.path.realpath(other)
    return same_name or (path.exists() and other.exists() and path.samefile(other))
