"""`fencepost convert`: a corpus from one format to another."""

from __future__ import annotations

import json as json_module
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self, TextIO

import typer

from fencepost.cli.frame import Json, Quiet, command, progress_of, say, write_json
from fencepost.cli.options import FormatName, SkipInvalid, reads_corpora
from fencepost.errors import UsageError

if TYPE_CHECKING:
    from fencepost.corpus import Reader, ReadOptions, Rejected, Written
    from fencepost.entity import Sentence

_PANEL = "What to write"

Input = Annotated[str, typer.Argument(metavar="IN", help="A file, a folder (BRAT), - or sample:train.")]
Output = Annotated[
    str, typer.Argument(metavar="OUT", help="The new file (BRAT: folder), or - for standard output.")
]
To = Annotated[
    str | None,
    typer.Option("--to", help="The format to write; by default OUT's ending tells.", rich_help_panel=_PANEL),
]
ToScheme = Annotated[
    Literal["iob2", "iob1", "bioes", "bmes"],
    typer.Option("--to-scheme", help="conll: the scheme of the tags.", rich_help_panel=_PANEL),
]
KeepOverlaps = Annotated[
    Literal["refuse", "outermost", "innermost", "best"],
    typer.Option(
        "--overlaps",
        help="What to keep of overlapping entities where the format cannot hold them.",
        rich_help_panel=_PANEL,
    ),
]
Rename = Annotated[
    list[str] | None,
    typer.Option(
        "--rename",
        metavar="OLD=NEW",
        help="Rename a type; * in OLD stands for anything. May be repeated; the first that fits counts.",
        rich_help_panel=_PANEL,
    ),
]
Types = Annotated[
    str | None,
    typer.Option("--types", help="Keep only these types (after renaming), as A,B,C.", rich_help_panel=_PANEL),
]
RejectedFile = Annotated[
    Path | None,
    typer.Option(
        "--rejected",
        help="Where --skip-invalid puts what it skips; by default OUT.rejected.jsonl.",
        rich_help_panel=_PANEL,
    ),
]


@command("convert")
@reads_corpora
def convert(
    source: Input,
    target: Output,
    options: ReadOptions,
    format: FormatName = None,  # noqa: A002
    skip_invalid: SkipInvalid = False,
    to: To = None,
    to_scheme: ToScheme = "iob2",
    overlaps: KeepOverlaps = "refuse",
    rename: Rename = None,
    types: Types = None,
    rejected: RejectedFile = None,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Convert a corpus; what the new format cannot hold is refused and counted, never dropped silently."""
    from fencepost.corpus import Reader, WriteOptions, write
    from fencepost.corpus.transform import with_types

    if rejected is not None and not skip_invalid:
        raise UsageError("--rejected needs --skip-invalid: without it, the first invalid sentence stops")
    if target == "-" and json is not None and str(json) == "-":
        raise UsageError("the corpus and --json cannot both go to standard output; name a file for one")
    beside = rejected or (Path(f"{target.rstrip('/')}.rejected.jsonl") if target != "-" else None)
    kept_types = types.split(",") if types else None
    with Reader(source, format, options) as reader, _Rejections(beside, reader) as rejections:
        if skip_invalid:
            reader.on_invalid = rejections.invalid
        result = write(
            with_types(_watched(reader, quiet=quiet), rename or [], kept_types),
            target,
            to,
            WriteOptions(scheme=to_scheme),
            prefer=None if overlaps == "refuse" else overlaps,
            on_refused=rejections.refused if skip_invalid else None,
        )
    for note in reader.notes:
        say(str(note), quiet=quiet)
    for line in _account(reader, result, target, beside):
        say(line, quiet=quiet)
    if json is not None:
        account = {"input": source, "input_format": reader.format.name, "output": target}
        figures = {**vars(result), "parts_lost": dict(result.parts_lost), "invalid": reader.invalid}
        write_json({**account, **figures}, json)


def _watched(reader: Reader, *, quiet: bool) -> Iterator[Sentence]:
    with progress_of(reader, quiet=quiet) as advance:
        for sentence in reader:
            advance()
            yield sentence


class _Rejections:
    """Takes what is skipped, into a file that is made with its first line (None: nowhere)."""

    def __init__(self, path: Path | None, reader: Reader) -> None:
        self.path = path
        self.reader = reader
        self.stream: TextIO | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.stream is not None:
            self.stream.close()

    def invalid(self, rejected: Rejected) -> None:
        self._keep(rejected.line, rejected.reason, rejected.raw)

    def refused(self, sentence: Sentence, reason: str) -> None:
        self._keep(self.reader.line, reason, sentence.text)

    def _keep(self, line: int, reason: str, raw: str) -> None:
        if self.path is None:
            return
        if self.stream is None:
            self.stream = self.path.open("w", encoding="utf-8")
        entry = {"source": self.reader.source.name, "line": line, "reason": reason, "raw": raw}
        self.stream.write(json_module.dumps(entry) + "\n")


def _account(reader: Reader, result: Written, target: str, beside: Path | None) -> Iterator[str]:
    yield (
        f"{result.sentences:,} sentence{'s' * (result.sentences != 1)} "
        f"with {result.entities:,} entit{'y' if result.entities == 1 else 'ies'}: "
        f"{reader.source.name} ({reader.format.name}) -> {target} ({result.format})"
    )
    skipped = reader.invalid + result.left_out
    if skipped:
        where = f"; see {beside}" if beside else ""
        yield f"skipped: {reader.invalid:,} invalid and {result.left_out:,} that do not fit{where}"
    if result.entities_dropped:
        yield f"{result.entities_dropped:,} overlapping entities were dropped"
    if result.parts_lost:
        parts = ", ".join(f"{part} ({count:,})" for part, count in result.parts_lost.most_common())
        yield f"{result.format} has no place for these parts, so they are not in the output: {parts}"
