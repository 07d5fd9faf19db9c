"""`fencepost convert`: convert a corpus from one format to another."""

from __future__ import annotations

import json as json_module
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

from fencepost.cli.corpora import OVERLAPS_HELP, OverlapsName, describe_losses
from fencepost.cli.frame import Json, check_json_target, command, format_count, write_json
from fencepost.cli.groups import argument, option
from fencepost.cli.options import ReadingOptions
from fencepost.cli.progress import watch_reader
from fencepost.errors import UsageError

if TYPE_CHECKING:
    from fencepost.data import Reader, Rejection, WriteResult
    from fencepost.data.entity import Sentence
    from fencepost.data.transform import TypeChanges

_PANEL = "How to write the output"


@command("convert")
def convert(
    *,
    source: str = argument("IN", "Corpus to read: a file, a folder (BRAT), - or sample:train."),
    target: str = argument("OUT", "File to write (BRAT: folder), or - for standard output."),
    reading: ReadingOptions,
    to: str | None = option(None, "Format of the output. Default: from the name of OUT.", panel=_PANEL),
    to_scheme: Literal["iob2", "iob1", "bioes", "bmes"] = option(
        "iob2", "conll: tagging scheme of the output.", panel=_PANEL
    ),
    overlaps: OverlapsName = option("refuse", OVERLAPS_HELP, panel=_PANEL),
    rename: list[str] | None = option(
        None,
        "Rename a type; * in OLD matches anything. Repeatable; the first match applies.",
        panel=_PANEL,
        metavar="OLD=NEW",
    ),
    types: str | None = option(
        None, "Keep only these types (after renaming), separated by commas.", panel=_PANEL
    ),
    rejected: Path | None = option(
        None, "File for the sentences that --skip-invalid skips. Default: OUT.rejected.jsonl.", panel=_PANEL
    ),
    json: Json = None,
) -> None:
    """Convert a corpus; what the new format cannot represent is reported, never dropped silently.

    Example: fencepost convert train.conll train.jsonl
    """
    from fencepost.data import Reader, WriteOptions, write
    from fencepost.data.transform import TypeChanges

    skip_invalid = reading.skip_invalid
    skipped_file = _check_targets(source, target, skip_invalid=skip_invalid, rejected=rejected, json=json)
    changes = TypeChanges(rename or [], _parse_types(types))
    with (
        Reader(source, reading.format, reading.read_options()) as reader,
        _Rejections(skipped_file, reader) as rejections,
    ):
        if skip_invalid:
            reader.on_invalid = rejections.add_invalid
        result = write(
            changes.apply(watch_reader(reader, quiet=reading.quiet)),
            target,
            to,
            WriteOptions(scheme=to_scheme),
            prefer=None if overlaps == "refuse" else overlaps,
            on_refused=rejections.add_refused if skip_invalid else None,
        )
    if skipped_file and rejected is None and not rejections.count:
        skipped_file.unlink(missing_ok=True)  # the file of an earlier run
    for note in reader.notes:
        reading.say(str(note))
    for line in (*_describe_result(reader, result, target, skipped_file), *_describe_changes(changes)):
        reading.say(line)
    if json is not None:
        figures = {**vars(result), "parts_lost": dict(result.parts_lost), "invalid": reader.invalid}
        figures |= {"entities_of_other_types": changes.other_types, "entities_merged": changes.duplicates}
        account = {"input": source, "input_format": reader.format.name, "output": target}
        write_json({**account, **figures, "notes": [asdict(note) for note in reader.notes]}, json)


def _check_targets(
    source: str, target: str, *, skip_invalid: bool, rejected: Path | None, json: Path | None
) -> Path | None:
    """Raise `UsageError` for contradictory options; return the file for skipped sentences, or None."""
    from fencepost.data.writer import check_no_loop

    check_json_target(json)
    if rejected is not None and not skip_invalid:
        raise UsageError("--rejected needs --skip-invalid")
    if target == "-" and json is not None and str(json) == "-":
        raise UsageError("the corpus and --json cannot both use standard output; give a file for one")
    if not skip_invalid:
        return None
    skipped_file = rejected or (Path(f"{target.rstrip('/')}.rejected.jsonl") if target != "-" else None)
    if skipped_file:
        check_no_loop(skipped_file)
        if os.path.realpath(skipped_file) in map(os.path.realpath, (source, target)):
            raise UsageError(
                f"{skipped_file}: skipped sentences cannot go into the corpus itself; give another --rejected"
            )
    return skipped_file


def _parse_types(types: str | None) -> list[str] | None:
    if types is None:
        return None
    names = [name.strip() for name in types.split(",")]
    if not all(names):
        raise UsageError(f"--types: give names separated by commas, not {types!r}")
    return names


class _Rejections(ExitStack):
    """Writer of skipped sentences; it creates the file with the first of them (None: writes no file)."""

    def __init__(self, path: Path | None, reader: Reader) -> None:
        super().__init__()
        self.path = path
        self.reader = reader
        self.count = 0
        self._stream: BinaryIO | None = None

    def add_invalid(self, rejected: Rejection) -> None:
        self._write(rejected.file, rejected.line, rejected.reason, rejected.raw)

    def add_refused(self, sentence: Sentence, reason: str) -> None:
        from fencepost.data.formats.json_tokens import to_json

        self._write(self.reader.file, self.reader.line, reason, to_json(sentence))

    def _write(self, file: str | None, line: int, reason: str, raw: str) -> None:
        from fencepost.data.output import whole_file

        self.count += 1
        if self.path is None:
            return
        if self._stream is None:
            self._stream = self.enter_context(whole_file(self.path))
        entry = {"source": file or self.reader.source.name, "line": line, "reason": reason, "raw": raw}
        self._stream.write((json_module.dumps(entry) + "\n").encode())


def _describe_changes(changes: TypeChanges) -> Iterator[str]:
    if changes.other_types:
        yield f"{changes.other_types:,} entities of other types were removed"
    if changes.duplicates:
        yield f"{changes.duplicates:,} entities became identical to another one by renaming and were merged"
    if changes.find_unused():
        yield f"these options match no entity: {', '.join(changes.find_unused())}"


def _describe_result(
    reader: Reader, result: WriteResult, target: str, skipped_file: Path | None
) -> Iterator[str]:
    sentences = format_count(result.sentences, "sentence")
    yield (
        f"{sentences} with {format_count(result.entities, 'entity', 'entities')}: "
        f"{reader.source.name} ({reader.format.name}) -> {target} ({result.format})"
    )
    skipped = reader.invalid + result.left_out
    if skipped:
        where = f"; see {skipped_file}" if skipped_file else ""
        yield (
            f"skipped: {reader.invalid:,} invalid sentences and {result.left_out:,} that {result.format} "
            f"cannot represent{where}"
        )
    yield from describe_losses(result)
