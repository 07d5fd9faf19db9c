"""Scores as tables."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from fencepost.evaluation import Evaluation, Score

Tables = dict[str, dict[str, dict[str, "Score"]]]
"""By report, by title, the rows by name."""


def print_scores(console: Console, result: Evaluation, title: str = "Strict scores, in percent") -> None:
    """Over all, by type, by length, and how far the confidences can be trusted."""
    overall = _score_table(title)
    _add(overall, "all", result.overall)
    overall.add_section()
    for name, score in sorted(result.by_type.items(), key=lambda item: (-item[1].support, item[0])):
        _add(overall, name, score)
    console.print(overall)
    lengths = _score_table("By number of words")
    for length, score in result.by_length.items():
        _add(lengths, str(length), score)
    console.print(lengths)
    console.print(f"macro F1 {100 * result.macro_f1:.1f} over {len(result.by_type)} types", soft_wrap=True)
    if result.calibration and result.calibration.ece is not None:
        console.print(f"expected calibration error {result.calibration.ece:.3f} (10 bins)")
    elif not result.overall.predicted:
        console.print("no predictions, so no calibration error")
    else:
        console.print("no confidences in the predictions, so no calibration error")


def print_reports(console: Console, reports: Tables) -> None:
    """What a method tells about itself: the tables of each report."""
    for name, tables in reports.items():
        for title, rows in tables.items():
            table = _score_table(f"{name.replace('-', ' ').capitalize()}: {title}")
            for row, score in rows.items():
                _add(table, row, score)
            console.print(table)


def report_json(reports: Tables) -> dict[str, Any]:
    """The same for JSON: `--by-offset` as `by_offset`."""
    return {
        name.replace("-", "_"): {
            title: {row: asdict(score) for row, score in rows.items()} for title, rows in tables.items()
        }
        for name, tables in reports.items()
    }


def print_epochs(console: Console, epochs: list[dict[str, Any]], kept: float) -> None:
    """The development scores of a training run, epoch by epoch."""
    table = _table(
        "Development scores by epoch, in percent", "epoch", "loss", "precision", "recall", "F1", ""
    )
    for record in epochs:
        ratios = (f"{100 * record[f'dev_{name}']:.1f}" for name in ("precision", "recall", "f1"))
        mark = "kept" if record["epoch"] == kept else ""
        table.add_row(f"{record['epoch']:.0f}", f"{record['dev_loss']:.3f}", *ratios, mark)
    console.print(table)


def _score_table(title: str) -> Table:
    return _table(title, "", "precision", "recall", "F1", "correct", "predicted", "gold")


def _table(title: str, first: str, *names: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold")
    table.add_column(first)
    for name in names:
        table.add_column(name, justify="right")
    return table


def _add(table: Table, name: str, score: Score) -> None:
    from rich.markup import escape

    ratios = (f"{100 * value:.1f}" for value in (score.precision, score.recall, score.f1))
    counts = (f"{count:,}" for count in (score.true_positives, score.predicted, score.support))
    table.add_row(escape(name), *ratios, *counts)
