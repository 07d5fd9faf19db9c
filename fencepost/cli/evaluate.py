"""`fencepost evaluate`: strict scores of predictions against gold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.cli.frame import Json, Quiet, check_json_target, command, say, write_json
from fencepost.cli.options import FormatName, reads_corpora
from fencepost.errors import UsageError

if TYPE_CHECKING:
    from rich.table import Table

    from fencepost.corpus import ReadOptions
    from fencepost.evaluation import Evaluation, Score

Gold = Annotated[str, typer.Option("--gold", metavar="FILE", help="The corpus with the true entities.")]
Predicted = Annotated[
    str,
    typer.Option("--predicted", metavar="FILE", help="The same sentences with the entities of any program."),
]
PredictedFormat = Annotated[
    str | None, typer.Option("--predicted-format", help="The predictions' format, if --format is the gold's.")
]


@command("evaluate")
@reads_corpora
def evaluate(
    gold: Gold,
    predicted: Predicted,
    options: ReadOptions,
    format: FormatName = None,  # noqa: A002
    predicted_format: PredictedFormat = None,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Score one file against another: an entity counts if its start, end and type are all right."""
    from fencepost import evaluation
    from fencepost.corpus import Reader

    check_json_target(json)
    if gold == predicted == "-":
        raise UsageError("standard input can be read once, but it is named twice")
    with Reader(gold, format, options) as true, Reader(predicted, predicted_format, options) as guessed:
        result = evaluation.evaluate(true, guessed)
    for note in (*true.notes, *guessed.notes):
        say(str(note), quiet=quiet)
    if json is not None:
        write_json({"gold": gold, "predicted_file": predicted, **result.to_dict()}, json)
    if json is None or str(json) != "-":
        _print(result)


def _print(result: Evaluation) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    overall = _table("Strict scores, in percent")
    _add(overall, "all", result.overall)
    overall.add_section()
    for name, score in sorted(result.by_type.items(), key=lambda item: (-item[1].support, item[0])):
        _add(overall, name, score)
    console.print(overall)
    lengths = _table("By number of words")
    for length, score in result.by_length.items():
        _add(lengths, str(length), score)
    console.print(lengths)
    console.print(f"macro F1 {100 * result.macro_f1:.1f} over {len(result.by_type)} types", soft_wrap=True)
    if result.calibration and result.calibration.ece is not None:
        console.print(f"expected calibration error {result.calibration.ece:.3f} (10 bins)")
    else:
        console.print("no confidences in the predictions, so no calibration error")


def _table(title: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold")
    table.add_column("")
    for name in ("precision", "recall", "F1", "correct", "predicted", "gold"):
        table.add_column(name, justify="right")
    return table


def _add(table: Table, name: str, score: Score) -> None:
    from rich.markup import escape

    ratios = (f"{100 * value:.1f}" for value in (score.precision, score.recall, score.f1))
    counts = (f"{count:,}" for count in (score.true_positives, score.predicted, score.support))
    table.add_row(escape(name), *ratios, *counts)
