"""Tables of scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from fencepost.evaluation import Evaluation, Score
    from fencepost.methods.decoder import Row


@dataclass(frozen=True, slots=True)
class Lengths:
    """Scores by groups of entity lengths, as in Table 3 of Shen et al. (ACL 2021).

    If training enumerates spans of some lengths only, these are marked, and `longer` is the score of longer
    entities.
    """

    groups: dict[str, Score]
    enumerated: Sequence[int] | None
    longer: Score | None

    @classmethod
    def from_evaluation(cls, result: Evaluation, enumerated: Sequence[int] | None = None) -> Lengths:
        longer = None
        if enumerated is not None:
            [longer] = result.by_length_group([max(enumerated) + 1]).values()
        return cls(result.by_length_group([1, 5, 10]), enumerated, longer)

    def to_dict(self, by_length: dict[str, Any]) -> dict[str, Any]:
        """Return the additions to the JSON of an evaluation; `by_length` is its part of that name."""
        groups = {"by_length_group": {name: asdict(score) for name, score in self.groups.items()}}
        if self.enumerated is None or self.longer is None:
            return groups
        marked = {
            name: {**row, "enumerated": int(name) in self.enumerated} for name, row in by_length.items()
        }
        return {**groups, "by_length": marked, "longer_than_enumerated": asdict(self.longer)}


def print_scores(
    console: Console,
    result: Evaluation,
    lengths: Lengths | None = None,
    title: str = "Strict scores, in percent",
) -> None:
    """Print the overall scores, those by type and by length, and the calibration error."""
    overall = _make_score_table(title)
    _add_score(overall, "all", result.overall)
    overall.add_section()
    for name, score in sorted(result.by_type.items(), key=lambda item: (-item[1].support, item[0])):
        _add_score(overall, name, score)
    console.print(overall)
    _print_lengths(console, result, lengths)
    console.print(f"macro F1 {100 * result.macro_f1:.1f} over {len(result.by_type)} types", soft_wrap=True)
    if result.calibration and result.calibration.ece is not None:
        console.print(f"expected calibration error {result.calibration.ece:.3f} (10 bins)")
    elif not result.overall.predicted:
        console.print("no predictions, so no calibration error")
    else:
        console.print("no confidences in the predictions, so no calibration error")


def _print_lengths(console: Console, result: Evaluation, lengths: Lengths | None) -> None:
    table = _make_score_table("By number of words")
    marked = lengths.enumerated or () if lengths is not None else ()
    for length, score in result.by_length.items():
        _add_score(table, f"{length} *" if length in marked else str(length), score)
    if lengths is not None:
        table.add_section()
        for name, score in lengths.groups.items():
            _add_score(table, name, score)
        if lengths.longer is not None:
            table.add_section()
            _add_score(table, f"over {max(marked)}", lengths.longer)
    console.print(table)
    if marked:
        console.print("* training enumerates all spans of this length")


def print_reports(console: Console, name: str, tables: Mapping[str, Mapping[str, Row]]) -> None:
    """Print the tables of a method's report by title, with `name` before each title."""
    for title, rows in tables.items():
        console.print(_make_report_table(escape_text(f"{name}: {title}"), rows))


def _make_report_table(title: str, rows: Mapping[str, Row]) -> Table:
    numbers = {name: row for name, row in rows.items() if isinstance(row, Mapping)}
    table = make_table(title, "", *next(iter(numbers.values()))) if numbers else _make_score_table(title)
    for name, row in rows.items():
        if isinstance(row, Mapping):
            table.add_row(name, *(f"{n:,}" if isinstance(n, int) else f"{n:,.3f}" for n in row.values()))
        else:
            _add_score(table, name, row)
    return table


def print_epochs(console: Console, epochs: list[dict[str, Any]], best: float) -> None:
    """Print the development scores of a training run, epoch by epoch."""
    table = make_table(
        "Development scores by epoch, in percent", "epoch", "loss", "precision", "recall", "F1", ""
    )
    for record in epochs:
        ratios = (f"{100 * record[f'dev_{name}']:.1f}" for name in ("precision", "recall", "f1"))
        mark = "kept" if record["epoch"] == best else ""
        table.add_row(f"{record['epoch']:.0f}", f"{record['dev_loss']:.3f}", *ratios, mark)
    console.print(table)


def make_console() -> Console:
    """Return a console that wraps lines in a terminal, but not in a file."""
    from rich.console import Console

    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=500)


def print_table(console: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table with texts aligned left and numbers aligned right."""
    table = make_table(title, *map(escape_text, columns))
    table.columns[0].overflow = "fold"  # do not truncate names with the same beginning
    for number, column in enumerate(table.columns):
        if number and any(isinstance(row[number], str) and not _is_number(row[number]) for row in rows):
            column.justify = "left"
    for row in rows:
        table.add_row(*(escape_text(_format_cell(value)) for value in row))
    console.print(table)


def _format_cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3f}" if not value.is_integer() or abs(value) < 1 else f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _is_number(text: str) -> bool:
    return not text or text.lstrip("+-").replace(".", "", 1).isdecimal()


def _make_score_table(title: str) -> Table:
    return make_table(title, "", "precision", "recall", "F1", "correct", "predicted", "gold")


def make_table(title: str, first: str, *names: str) -> Table:
    """Return an empty table; all columns but the first are aligned right."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold")
    table.add_column(first)
    for name in names:
        table.add_column(name, justify="right", overflow="fold")
    return table


def _add_score(table: Table, name: str, score: Score) -> None:
    ratios = (f"{100 * value:.1f}" for value in (score.precision, score.recall, score.f1))
    counts = (f"{count:,}" for count in (score.true_positives, score.predicted, score.support))
    table.add_row(escape_text(name), *ratios, *counts)


def escape_text(text: str) -> str:
    """Return the text without control characters and with markup of Rich escaped."""
    from rich.markup import escape

    from fencepost.cli.draw import replace_controls

    return escape(replace_controls(text))
