"""The model, the texts, the entity types and the output that the arguments of `fencepost predict` name."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fencepost.errors import UsageError

if TYPE_CHECKING:
    from fencepost.data.formats.format import Format, ReadOptions


def model_and_texts(arguments: Sequence[str]) -> tuple[Path, Sequence[str]]:
    """Return the folder of the model, which is the first argument or the one that ships, and the texts."""
    if arguments and _exists(Path(arguments[0]) / "config.json"):
        return Path(arguments[0]), arguments[1:]
    if arguments:
        _check_no_path(arguments[0])
    from fencepost.runtime import loading

    if not _exists(loading.SHIPPED / "config.json"):
        reason = f" ({arguments[0][:40]!r} is no folder, so it is a text)" if arguments else ""
        raise UsageError(
            f"no model came with this installation{reason}: give the folder of one first, "
            "as fencepost predict MODEL TEXT"
        )
    return loading.SHIPPED, arguments


def _check_no_path(argument: str) -> None:
    """Refuse as a text what was meant as a model."""
    instead = "; if it is a text, give it on standard input"
    if _exists(Path(argument)):
        if Path(argument).is_dir():
            raise UsageError(
                f"{argument}: there is no model here (a model is a folder with a config.json){instead}"
            )
        raise UsageError(f"{argument}: is a file, not a model; name a file of texts with --input{instead}")
    if argument.split() == [argument] and ("/" in argument or os.sep in argument):
        raise UsageError(f"{argument}: there is no such folder, so no model in it{instead}")


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # too long for a name
        return False


def source_of(texts: Sequence[str], named: str | None) -> str | None:
    """Return the name of the input; None if the texts are in the command."""
    if texts and named is not None:
        raise UsageError(
            f"give texts or --input, not both (the first text is {texts[0][:40]!r}; a model is a folder with "
            "a config.json)"
        )
    if texts or named is not None:
        return named
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError('give texts, as fencepost predict "Ada Lovelace met him.", or a file with --input')
    return "-"


def types_of(values: Sequence[str] | None, known: Sequence[str]) -> list[str] | None:
    """Return the types to predict; None is all. A name may have a comma of its own."""
    if values is None:
        return None
    listed = [name for value in values for name in ([value] if value in known else value.split(","))]
    return list(dict.fromkeys(name.strip() for name in listed))


def with_select(changes: Sequence[str] | None, flat: bool | None) -> list[str]:
    """Return the changes of settings, with the one for `--flat` and `--nested`."""
    changes = list(changes or ())
    if flat is None:
        return changes
    if any(change.startswith("predict.select=") for change in changes):
        raise UsageError("--flat and --nested set predict.select, which --set does already")
    return [*changes, f"predict.select={'flat' if flat else 'nested'}"]


def check_reading(options: ReadOptions, command: str) -> None:
    """Refuse options that are about annotations, for a command that reads texts."""
    if options.keep_rejected:
        raise UsageError(f"--keep-rejected: {command} reads all records, whatever their answer; leave it out")
    if options.columns is not None:
        raise UsageError("--columns is for annotated tables; name the column of texts with --text-column")


TABLES = ("csv", "xlsx", "parquet", "html")
"""Kinds of output with a row, or a paragraph, for each text."""


def check_output(
    source: str | None, output: str | None, to: str | None, *, resume: bool, force: bool
) -> Format | str | None:
    """Return the corpus format of the output, the kind of a table, or None for JSON lines.

    Refuse an output that cannot be written.
    """
    if output is None:
        for name, given in (("--to", to), ("--resume", resume), ("--force", force)):
            if given:
                raise UsageError(f"{name} is about --output, which is missing")
        return None
    check_one_of(resume=resume, force=force)
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
        raise UsageError("--resume continues a file of JSON lines (--output FILE.jsonl, without --to)")
    if output != "-":
        check_no_loop(path)
        if source is not None and is_same(path, Path(source)):
            raise UsageError(f"{output}: the output would overwrite the input; give another name")
        check_new(path, resume=resume, force=force)
    return target


def check_one_of(*, resume: bool, force: bool) -> None:
    if resume and force:
        raise UsageError("--resume continues the output, and --force overwrites it: choose one of them")


def is_same(path: Path, other: Path) -> bool:
    """Return whether both are one file, through whatever links."""
    same_name = os.path.realpath(path) == os.path.realpath(other)
    return same_name or (path.exists() and other.exists() and path.samefile(other))
