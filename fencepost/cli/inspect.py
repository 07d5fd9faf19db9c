"""`fencepost inspect`: print statistics of corpora."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.cli.frame import Json, check_json_target, command, output_result
from fencepost.cli.groups import argument, option
from fencepost.cli.options import ReadingOptions
from fencepost.cli.progress import watch_reader
from fencepost.cli.scores import escape_text, make_table
from fencepost.errors import UsageError

if TYPE_CHECKING:
    from rich.table import Table

    from fencepost.data import Reader, Statistics
    from fencepost.data.entity import Sentence


@command("inspect")
def inspect(
    *,
    files: list[str] = argument(
        "FILE", "Corpora: files, folders (BRAT), - or sample:train, sample:dev, sample:test."
    ),
    reading: ReadingOptions,
    examples: int = option(0, "Number of sentences per file to draw with their entities.", min=0),
    json: Json = None,
) -> None:
    """Print the statistics of annotated corpora: sizes, types, nesting, lengths.

    Example: fencepost inspect train.conll dev.conll --examples 3
    """
    check_json_target(json)
    if files.count("-") > 1:
        raise UsageError("standard input can be read only once, but - is given twice")
    corpora = []
    for file in files:
        with reading.open(file) as reader:
            figures, first = _read(reader, examples, quiet=reading.quiet)
        corpora.append((file, reader, figures, first))
    result = [
        {
            "file": file,
            "format": reader.format.name,
            "invalid": reader.invalid,
            "notes": [asdict(note) for note in reader.notes],
            **figures.to_dict(),
        }
        for file, reader, figures, _ in corpora
    ]
    output_result({"corpora": result}, json, lambda: _print(corpora))


def _read(reader: Reader, examples: int, *, quiet: bool) -> tuple[Statistics, list[Sentence]]:
    """Return the statistics of a corpus and its first `examples` sentences with entities."""
    from fencepost.data import Statistics

    figures = Statistics()
    first: list[Sentence] = []
    for sentence in watch_reader(reader, quiet=quiet):
        figures.add(sentence)
        if len(first) < examples and sentence.entities:
            first.append(sentence)
    return figures, first


def _print(corpora: list[tuple[str, Reader, Statistics, list[Sentence]]]) -> None:
    from rich.console import Console
    from rich.rule import Rule

    from fencepost.cli.draw import Palette, draw

    console = Console(highlight=False)
    names = [escape_text(name) for name in _shorten_names([file for file, _, _, _ in corpora])]
    readers = [reader for _, reader, _, _ in corpora]
    figures = [figure for _, _, figure, _ in corpora]
    console.print(_make_overview(names, readers, figures))
    console.print(_make_type_table(names, figures))
    console.print(_make_length_table(names, figures))
    palette = Palette()
    for file, _, _, sentences in corpora:
        if sentences:
            console.print(Rule(escape_text(file), align="left"))
        for sentence in sentences:
            console.print(draw(sentence, min(console.width, 110), palette), soft_wrap=True)


def _shorten_names(files: list[str]) -> list[str]:
    """Return the file names without folders, if they are all different."""
    names = [Path(file).name for file in files]
    return names if len(set(names)) == len(names) else files


def _make_overview(names: list[str], readers: list[Reader], figures: list[Statistics]) -> Table:
    table = make_table("Corpus", "", *names)
    table.add_row("format", *(reader.format.name for reader in readers))
    if any(reader.invalid for reader in readers):
        table.add_row("invalid, skipped", *(f"{reader.invalid:,}" for reader in readers))
    rows: list[tuple[str, Any]] = [
        ("documents", lambda f: f"{f.documents:,}" if f.documents else "–"),
        ("sentences", lambda f: f"{f.sentences:,}"),
        ("  without entities", lambda f: _format_share(f.sentences_without_entities, f.sentences)),
        ("words", lambda f: f"{f.tokens:,}"),
        ("  per sentence, mean / max", lambda f: f"{f.mean_sentence_length:.1f} / {f.longest_sentence:,}"),
        ("entities", lambda f: f"{f.entities:,}"),
        ("  words, mean / max", lambda f: f"{f.mean_entity_length:.1f} / {f.longest_entity:,}"),
        ("  inside another", lambda f: _format_share(f.nested, f.entities)),
        ("  inside one of the same type", lambda f: _format_share(f.nested_same_type, f.entities)),
        ("  depth of nesting", lambda f: f"{f.depth}"),
        ("  crossing another", lambda f: f"{f.crossing:,}"),
        ("  duplicates", lambda f: f"{f.duplicates:,}"),
        ("spans with several types", lambda f: f"{f.same_span_conflicts:,}"),
    ]
    for label, cell in rows:
        table.add_row(label, *(cell(figure) for figure in figures))
    return table


def _make_type_table(names: list[str], figures: list[Statistics]) -> Table:
    table = make_table("Entities by type", "", *names)
    total = sum((figure.by_type for figure in figures), start=type(figures[0].by_type)())
    for type_, _ in sorted(total.items(), key=lambda item: (-item[1], item[0])):
        table.add_row(
            escape_text(type_), *(_format_share(figure.by_type[type_], figure.entities) for figure in figures)
        )
    return table


BINS = (*((length, length) for length in range(1, 11)), (11, 15), (16, 20), (21, 50), (51, 10**9))


def _make_length_table(names: list[str], figures: list[Statistics]) -> Table:
    """Return a table of entities by number of words, with bars if there is one corpus."""
    table = make_table("Entities by number of words", "", *names)
    if len(figures) == 1:
        table.add_column("", width=40)
    counts = [
        [sum(n for length, n in figure.by_length.items() if low <= length <= high) for low, high in BINS]
        for figure in figures
    ]
    largest = max(map(max, counts))
    for index, (low, high) in enumerate(BINS):
        row = [count[index] for count in counts]
        if not any(row):
            continue
        label = str(low) if low == high else f"{low} or more" if high == BINS[-1][1] else f"{low} to {high}"
        bar = ["━" * max(1, round(40 * row[0] / largest))] if len(row) == 1 else []
        table.add_row(label, *(_format_share(n, f.entities) for n, f in zip(row, figures, strict=True)), *bar)
    return table


def _format_share(part: int, whole: int) -> str:
    return f"{part:,} ({part / whole:6.1%})" if whole else "0"
