"""What `fencepost predict` can be told, and what its arguments mean."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from fencepost.cli.models import EngineName
from fencepost.cli.options import reading_option
from fencepost.errors import UsageError

Arguments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="MODEL|TEXT",
        help="Texts; before them the folder of a model, unless that which ships with the package is wanted.",
    ),
]
Input = Annotated[
    str | None,
    typer.Option(
        "--input",
        metavar="FILE",
        help="Instead of texts: a file, - (standard input) or sample:test. Plain text is one text a line; so "
        'is JSON with a "text" and no annotation, whose other keys go to the output. Any corpus is predicted '
        "sentence by sentence with its own words; its entities are ignored. CSV, TSV and Parquet have a text "
        "a row, in the column text. With --engine ray also a folder, or a quoted pattern, of such files of "
        "texts, but not of CSV.",
    ),
]
InputFormat = Annotated[
    str | None,
    reading_option(
        "--format",
        "The input's format, instead of finding it out from the content: text (one text a line), csv, or "
        "that of a corpus.",
    ),
]
TextColumn = Annotated[
    str | None,
    reading_option(
        "--text-column", "CSV, TSV and Parquet: the column with the texts; JSON: the key. Unless set, text."
    ),
]
Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        metavar="FILE",
        help="Where to write, else entities are drawn. FILE.jsonl and - get a JSON object a text, with the "
        "entities by character; other names, and --to, a corpus of sentences. With --engine ray a folder.",
    ),
]
To = Annotated[
    str | None,
    typer.Option("--to", help="The corpus format of the output, if its name does not tell it."),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on where the JSON lines of an earlier run of this command end.")
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an output that is there.")]
PredictEngine = Literal["auto", "int8", "onnx", "pytorch", "ray", "ray:int8", "ray:onnx", "ray:pytorch"]
EngineOption = Annotated[
    PredictEngine,
    typer.Option(
        "--engine",
        help="What computes: graphs made by fencepost export (int8, onnx), or pytorch; auto is the first "
        "of these that the model has, int8 only if the export was checked. ray is many processes, or "
        "machines, with auto or another engine in each.",
    ),
]
ENGINES: dict[PredictEngine, EngineName] = {
    "auto": "auto",
    "int8": "int8",
    "onnx": "onnx",
    "pytorch": "pytorch",
    "ray": "auto",
    "ray:int8": "int8",
    "ray:onnx": "onnx",
    "ray:pytorch": "pytorch",
}
"""What computes in a process."""

_RAY = "With --engine ray"
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        help="How many processes predict, with --threads threads each (1 unless set); unless set, as many as "
        "the processors allow.",
        rich_help_panel=_RAY,
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray-address",
        metavar="HOST:PORT",
        help="A Ray cluster to use, or auto on one of its machines; unless set, RAY_ADDRESS, or else a Ray "
        "of its own on this machine.",
        rich_help_panel=_RAY,
    ),
]
Confidence = Annotated[
    float, typer.Option("--min-confidence", help="Leave out entities with a lower score; from 0 to 1.")
]
Types = Annotated[
    list[str] | None,
    typer.Option("--types", metavar="TYPE,TYPE...", help="Only entities of these types; repeatable."),
]
Flat = Annotated[
    bool | None,
    typer.Option(
        "--flat/--nested",
        help="Whether entities may lie inside others; unless set, as in the model's training data.",
        show_default=False,
    ),
]
KeepOverlaps = Annotated[
    Literal["refuse", "outermost", "innermost", "best"],
    typer.Option("--overlaps", help="Which overlapping entities to keep where the format cannot hold all."),
]
Limit = Annotated[
    int | None, typer.Option("--limit", min=1, help="Stop after so many texts (of a corpus, sentences).")
]


def model_and_texts(arguments: Sequence[str]) -> tuple[Path | None, Sequence[str]]:
    """The folder of the model, if the first argument is one, and the texts."""
    if arguments and _is_there(Path(arguments[0]) / "config.json"):
        return Path(arguments[0]), arguments[1:]
    if arguments:
        _check_no_path(arguments[0])
    return None, arguments


def shipped_model(texts: Sequence[str]) -> Path:
    """The model that comes with the package."""
    from fencepost.runtime import loading

    if not _is_there(loading.SHIPPED / "config.json"):
        told = f" ({texts[0][:40]!r} is no folder, so it is a text)" if texts else ""
        raise UsageError(
            f"no model came with this installation{told}: give the folder of one first, "
            "as fencepost predict MODEL TEXT"
        )
    return loading.SHIPPED


def _check_no_path(argument: str) -> None:
    """Refuses as a text what was meant as a model."""
    instead = "; if it is a text, give it on standard input"
    if _is_there(Path(argument)):
        if Path(argument).is_dir():
            raise UsageError(
                f"{argument}: there is no model here (a model is a folder with a config.json){instead}"
            )
        raise UsageError(f"{argument}: is a file, not a model; name a file of texts with --input{instead}")
    if argument.split() == [argument] and ("/" in argument or os.sep in argument):
        raise UsageError(f"{argument}: there is no such folder, so no model in it{instead}")


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # too long for a name
        return False


def source_of(texts: Sequence[str], named: str | None) -> str | None:
    """What is to be read; None where the texts stand in the command."""
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
    """The types that are wanted; None is all. A name may have a comma of its own."""
    if values is None:
        return None
    listed = [name for value in values for name in ([value] if value in known else value.split(","))]
    return list(dict.fromkeys(name.strip() for name in listed))


def with_select(changes: Sequence[str] | None, flat: bool | None) -> list[str]:
    """The changes of settings, with what `--flat` and `--nested` stand for."""
    changes = list(changes or ())
    if flat is None:
        return changes
    if any(change.startswith("predict.select=") for change in changes):
        raise UsageError("--flat and --nested set predict.select, which --set does already")
    return [*changes, f"predict.select={'flat' if flat else 'nested'}"]
