"""`fencepost convert`: a corpus from one format to another."""

from __future__ import annotations

import json as json_module
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Literal

from fencepost.cli.corpora import losses
from fencepost.cli.frame import Json, check_json_target, command, write_json
from fencepost.cli.groups import argument, option
from fencepost.cli.options import ReadingOptions
from fencepost.cli.progress import watch_reader
from fencepost.errors import UsageError

if TYPE_CHECKING:
    from fencepost.data import Reader, Rejected, WriteResult
    from fencepost.data.entity import Sentence
    from fencepost.data.transform import TypeChanges

_PANEL = "What to write"


@command("convert")
def convert(
    source: Annotated[str, argument("IN", "A file, a folder (BRAT), - or sample:train.")],
    target: Annotated[str, argument("OUT", "The new file (BRAT: folder), or - for standard output.")],
    reading: ReadingOptions,
    to: Annotated[
        str | None, option("--to", "The format to write; by default OUT's ending decides.", _PANEL)
    ] = None,
    to_scheme: Annotated[
        Literal["iob2", "iob1", "bioes", "bmes"],
        option("--to-scheme", "conll: the scheme of the tags.", _PANEL),
    ] = "iob2",
    overlaps: Annotated[
        Literal["refuse", "outermost", "innermost", "best"],
        option("--overlaps", "Overlapping entities to keep where the format cannot hold them.", _PANEL),
    ] = "refuse",
    rename: Annotated[
        list[str] | None,
        option(
            "--rename",
            "Rename a type; * in OLD stands for anything. Repeatable; the first that fits counts.",
            _PANEL,
            metavar="OLD=NEW",
        ),
    ] = None,
    types: Annotated[
        str | None, option("--types", "Keep only these types (after renaming), as A,B,C.", _PANEL)
    ] = None,
    rejected: Annotated[
        Path | None,
        option(
            "--rejected", "Where --skip-invalid puts what it skips; by default OUT.rejected.jsonl.", _PANEL
        ),
    ] = None,
    json: Json = None,
) -> None:
    """Convert a corpus; what the new format cannot hold is refused and counted, never dropped silently.

    Example: fencepost convert train.conll train.jsonl
    """
    from fencepost.data import Reader, WriteOptions, write
    from fencepost.data.transform import TypeChanges

    skip_invalid = reading.skip_invalid
    beside = _check(source, target, skip_invalid=skip_invalid, rejected=rejected, json=json)
    changes = TypeChanges(rename or [], _names(types))
    with (
        Reader(source, reading.format, reading.read_options()) as reader,
        _Rejections(beside, reader) as rejections,
    ):
        if skip_invalid:
            reader.on_invalid = rejections.invalid
        result = write(
            changes.apply(watch_reader(reader, quiet=reading.quiet)),
            target,
            to,
            WriteOptions(scheme=to_scheme),
            prefer=None if overlaps == "refuse" else overlaps,
            on_refused=rejections.refused if skip_invalid else None,
        )
    if beside and rejected is None and not rejections.count:
        beside.unlink(missing_ok=True)  # it would be of an earlier run
    for note in reader.notes:
        reading.say(str(note))
    for line in (*_account(reader, result, target, beside), *_changes(changes)):
        reading.say(line)
    if json is not None:
        figures = {**vars(result), "parts_lost": dict(result.parts_lost), "invalid": reader.invalid}
        figures |= {"entities_of_other_types": changes.removed, "entities_merged": changes.merged}
        account = {"input": source, "input_format": reader.format.name, "output": target}
        write_json({**account, **figures, "notes": [asdict(note) for note in reader.notes]}, json)


def _check(
    source: str, target: str, *, skip_invalid: bool, rejected: Path | None, json: Path | None
) -> Path | None:
    """Refuse what contradicts itself; return the file for what is skipped, if there is one."""
    from fencepost.data.writer import check_no_loop

    check_json_target(json)
    if rejected is not None and not skip_invalid:
        raise UsageError("--rejected needs --skip-invalid: without it, the first invalid sentence stops")
    if target == "-" and json is not None and str(json) == "-":
        raise UsageError("the corpus and --json cannot both go to standard output; name a file for one")
    if not skip_invalid:
        return None
    beside = rejected or (Path(f"{target.rstrip('/')}.rejected.jsonl") if target != "-" else None)
    if beside:
        check_no_loop(beside)
        if os.path.realpath(beside) in map(os.path.realpath, (source, target)):
            raise UsageError(f"{beside}: what is skipped cannot go into the corpus itself; see --rejected")
    return beside


def _names(types: str | None) -> list[str] | None:
    if types is None:
        return None
    names = [name.strip() for name in types.split(",")]
    if not all(names):
        raise UsageError(f"--types takes names with commas between them, not {types!r}")
    return names


class _Rejections(ExitStack):
    """Writes what is skipped into a file, which is made with its first line (None: nowhere)."""

    def __init__(self, path: Path | None, reader: Reader) -> None:
        super().__init__()
        self.path = path
        self.reader = reader
        self.count = 0
        self._stream: BinaryIO | None = None

    def invalid(self, rejected: Rejected) -> None:
        self._keep(rejected.file, rejected.line, rejected.reason, rejected.raw)

    def refused(self, sentence: Sentence, reason: str) -> None:
        from fencepost.data.formats.json_tokens import to_json

        self._keep(self.reader.file, self.reader.line, reason, to_json(sentence))

    def _keep(self, file: str | None, line: int, reason: str, raw: str) -> None:
        from fencepost.data.output import whole_file

        self.count += 1
        if self.path is None:
            return
        if self._stream is None:
            self._stream = self.enter_context(whole_file(self.path))
        entry = {"source": file or self.reader.source.name, "line": line, "reason": reason, "raw": raw}
        self._stream.write((json_module.dumps(entry) + "\n").encode())


def _changes(changes: TypeChanges) -> Iterator[str]:
    if changes.removed:
        yield f"{changes.removed:,} entities of other types were left out"
    if changes.merged:
        yield f"{changes.merged:,} entities were the same as another one after renaming"
    if changes.find_unused():
        yield f"no entity had anything to do with: {', '.join(changes.find_unused())}"


def _account(reader: Reader, result: WriteResult, target: str, beside: Path | None) -> Iterator[str]:
    yield (
        f"{result.sentences:,} sentence{'s' * (result.sentences != 1)} "
        f"with {result.entities:,} entit{'y' if result.entities == 1 else 'ies'}: "
        f"{reader.source.name} ({reader.format.name}) -> {target} ({result.format})"
    )
    skipped = reader.invalid + result.left_out
    if skipped:
        where = f"; see {beside}" if beside else ""
        yield f"skipped: {reader.invalid:,} invalid and {result.left_out:,} that do not fit{where}"
    yield from losses(result)
