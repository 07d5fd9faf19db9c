"""`fencepost predict`: the entities that a model finds in a corpus."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fencepost.cli.corpora import losses, opened
from fencepost.cli.frame import Quiet, command, say
from fencepost.cli.models import Changes, load_model
from fencepost.cli.options import FormatName, SkipInvalid, reads_corpora
from fencepost.errors import UsageError

if TYPE_CHECKING:
    from fencepost.corpus import ReadOptions
    from fencepost.corpus.format import Format
    from fencepost.entity import Sentence
    from fencepost.model import Model

ModelFolder = Annotated[str, typer.Argument(metavar="MODEL", help="The folder of a trained model.")]
Input = Annotated[
    str,
    typer.Option(
        "--input",
        metavar="FILE",
        help="A corpus: a file, a folder (BRAT), - or sample:test; its own entities are ignored.",
    ),
]
Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        metavar="FILE",
        help="Where to write the sentences with the entities; else they are drawn.",
    ),
]
To = Annotated[str | None, typer.Option("--to", help="The output's format, if its name does not tell it.")]
KeepOverlaps = Annotated[
    Literal["refuse", "outermost", "innermost", "best"],
    typer.Option("--overlaps", help="Which overlapping entities to keep where the format cannot hold all."),
]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Stop after so many sentences.")]


@command("predict")
@reads_corpora
def predict(
    model: ModelFolder,
    input: Input,  # noqa: A002
    options: ReadOptions,
    output: Output = None,
    to: To = None,
    overlaps: KeepOverlaps = "refuse",
    format: FormatName = None,  # noqa: A002
    skip_invalid: SkipInvalid = False,
    limit: Limit = None,
    changes: Changes = None,
    quiet: Quiet = False,
) -> None:
    """Find entities in a corpus and write it with them, in any format, or draw them in the terminal."""
    target = _target(input, output, to)
    recogniser = load_model(model, changes)
    if target and target.overlaps == "none" and overlaps == "refuse" and not skip_invalid:
        _check_flat(recogniser, target)
    with opened(input, format, options, skip_invalid=skip_invalid, quiet=quiet) as reader:
        silent = quiet or output in (None, "-")  # nothing between the lines of the output
        found = _counted(recogniser.predict(islice(reader, limit)), quiet=silent)
        if output is None:
            _draw(found)
            return
        from fencepost.corpus import write

        start = time.perf_counter()
        result = write(
            found,
            output,
            to,
            prefer=None if overlaps == "refuse" else overlaps,
            on_refused=(lambda *_: None) if skip_invalid else None,  # the writer counts them
        )
        seconds = time.perf_counter() - start
    say(
        f"{result.sentences:,} sentences with {result.entities:,} entities -> {output} ({result.format}), "
        f"{result.sentences / seconds:,.0f} sentences a second",
        quiet=quiet,
    )
    if result.left_out:
        say(f"{result.left_out:,} sentences were left out: {result.format} cannot hold them", quiet=quiet)
    for line in losses(result):
        say(line, quiet=quiet)


def _target(source: str, output: str | None, to: str | None) -> Format | None:
    """The format of the output, if there is one; what cannot work is refused before the work begins."""
    if output is None:
        if to is not None:
            raise UsageError("--to is the format of --output, which is missing")
        return None
    if output != "-" and Path(output).resolve() == Path(source).resolve():
        raise UsageError(f"{output}: the output would overwrite the input; give another name")
    from fencepost.corpus.formats import format_by_name, format_by_suffix

    if to is not None:
        return format_by_name(to)
    return None if output == "-" else format_by_suffix(Path(output))


def _check_flat(model: Model, target: Format) -> None:
    if model.settings.predict.select != "flat":
        raise UsageError(
            f"{target.name} cannot hold overlapping entities, and this model finds them: say which to keep "
            "with --overlaps outermost, innermost or best, let it find none with --set predict.select=flat, "
            "leave such sentences out with --skip-invalid, or write jsonl"
        )


def _draw(sentences: Iterable[Sentence]) -> None:
    from rich.console import Console

    from fencepost.cli.draw import Palette, draw

    console = Console(highlight=False)
    palette = Palette()
    for sentence in sentences:
        console.print(draw(sentence, min(console.width, 110), palette), soft_wrap=True)


def _counted(sentences: Iterator[Sentence], *, quiet: bool) -> Iterator[Sentence]:
    """The same sentences, counted in a terminal while they pass."""
    if quiet or not sys.stderr.isatty():
        yield from sentences
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.completed:,.0f} sentences"),
        TextColumn("{task.fields[rate]:,.0f} a second"),
        TimeElapsedColumn(),
    )
    start = time.perf_counter()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None, rate=0.0)
        for count, sentence in enumerate(sentences, start=1):
            if count % 20 == 0:
                progress.update(task, completed=count, rate=count / (time.perf_counter() - start))
            yield sentence
