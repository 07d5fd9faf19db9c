"""`fencepost sweep`: train each cell of a grid with several seeds and average the scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from fencepost.cli.frame import check_json_target, command, explain_resume, format_count, output_result
from fencepost.cli.groups import option
from fencepost.cli.progress import format_duration
from fencepost.cli.training_options import TrainingOptions
from fencepost.errors import FencepostError, UsageError, require_extra

if TYPE_CHECKING:
    from fencepost.config import Config
    from fencepost.experiments.cells import GridCell
    from fencepost.experiments.sweep import Sweep
    from fencepost.experiments.trials import Trial

WITH_TEST = {
    "dev_f1": "dev F1",
    "test_precision": "test precision",
    "test_recall": "recall",
    "test_f1": "F1",
    "test_ece_raw": "ECE, raw",
    "test_ece": "ECE",
}
WITHOUT_TEST = {"dev_f1": "dev F1", "dev_ece_raw": "ECE, raw", "dev_ece": "ECE"}
"""Columns of the table, by measure."""


@dataclass(frozen=True, kw_only=True)
class SweepOptions(TrainingOptions):
    """Options of a sweep."""

    title = "Sweep"

    out: Path | None = option(None, "Folder for all runs; a sweep in it is continued.", metavar="FOLDER")
    grid: list[str] | None = option(
        None,
        "Values of a setting, for example method.epsilon=0,0.1; several settings are combined.",
        metavar="KEY=V,V...",
    )
    also: list[str] | None = option(
        None,
        "Additional cells outside the grid, for example method.max_offset=0,1; settings to combine "
        "are separated by spaces, in quotes. Repeatable.",
        metavar="'KEY=V,V...'",
    )
    seeds: int = option(1, "Number of runs per cell; their seeds start at training.seed.", min=1)
    share: str | None = option(
        None, "Shares of the training data, for example 0.125,0.25,0.5,1.", metavar="S,S..."
    )
    boundary_noise: str | None = option(
        None,
        "Probabilities that a boundary of a training entity is off by one word, for example 0,0.1.",
        metavar="P,P...",
    )
    workers: int = option(1, "Number of runs trained at once, in processes that share the cores.", min=1)
    keep_models: bool = option(
        True,
        "Whether to keep the models of complete runs, or only their scores.",
        "--keep-models/--no-keep-models",
    )

    def parse_cells(self) -> list[GridCell]:
        """Return the cells of `--grid` and `--also`."""
        with require_extra("train"):
            from fencepost.experiments.cells import make_cells, split_unquoted
        shares, noises = (
            _parse_numbers("--share", self.share),
            _parse_numbers("--boundary-noise", self.boundary_noise),
        )
        cells = make_cells(self.grid or [], shares, noises)
        for one in self.also or []:
            axes = [axis for axis in split_unquoted(one, " ") if axis]
            cells += make_cells(axes, shares, noises, option="--also")
        return list(dict.fromkeys(cells))

    def compose_settings(self, cell: GridCell) -> Config:
        """Return the settings of a cell, whose changes are applied last; errors name the cell."""
        for key in cell.settings.keys() & self.option_keys:
            raise UsageError(f"{key} is in the grid and given as an option; leave out one of them")
        try:
            return self.settings(cell.changes)
        except UsageError as error:
            if not cell.changes:
                raise
            raise UsageError(f"in the cell {cell.label}: {error}") from None


@command("sweep")
def sweep(options: SweepOptions) -> None:
    """Train each cell of a grid with several seeds; compute mean and standard deviation of the scores.

    To continue after an interruption, run the same command again; complete runs are not trained again.

    Example: fencepost sweep --train train.conll --dev dev.conll --out sweep --grid method.epsilon=0,0.1
    """
    check_json_target(options.json)
    out = options.check_sources(options.out, "all runs")
    settings = {cell: options.compose_settings(cell) for cell in options.parse_cells()}
    from fencepost.experiments.sweep import Data, Sweep

    data = Data(*options.read_data(next(iter(settings.values()))), device=options.device)
    sweep = Sweep(out, settings, options.seeds, data, keep_models=options.keep_models)
    with explain_resume("run the same command again to continue; complete runs are kept", out):
        for line in _train_runs(sweep, options.seeds, options.workers):
            options.say(line)
    output_result({"sweep": str(out), **sweep.results}, options.json, lambda: _print(sweep))
    if sweep.failed:
        names = "".join(f"\n  {run.label}: {failure.message}" for run, failure in sweep.failed.items())
        raise FencepostError(
            f"{len(sweep.failed):,} of {format_count(len(sweep.runs), 'run')} failed; correct the cause and "
            f"run the same command again:{names}"
        )


def _parse_numbers(name: str, text: str | None) -> list[float]:
    try:
        return [] if text is None else [float(number) for number in text.split(",")]
    except ValueError:
        raise UsageError(f"{name} {text}: give numbers separated by commas, for example 0.25,0.5") from None


def _count_sentences(run: Trial, sentences: int) -> float:
    """Return the number of sentences that a run processes in all epochs."""
    of_run = round(sentences * (run.cell.share or 1.0))
    return of_run * run.config.training.count_epochs(of_run)


def _train_runs(sweep: Sweep, seeds: int, workers: int) -> Iterator[str]:
    """Train the runs; yield the plan, then a message with the scores and the remaining time per run."""
    complete, interrupted = len(sweep.find_runs("complete")), len(sweep.find_runs("running"))
    plan = f"{format_count(len(sweep.cells), 'cell')} x {format_count(seeds, 'seed')} = "
    plan += format_count(len(sweep.runs), "run")
    plan += f"; {complete:,} already complete" if complete else ""
    yield plan + (f"; {interrupted:,} to continue" if interrupted else "")
    yield from _describe_idle_settings(sweep)
    costs = {run: _count_sentences(run, len(sweep.data.train)) for run in sweep.runs}
    rest = {run: costs[run] for run in sweep.find_runs("planned", "running")}
    workers = min(workers, max(1, len(rest)))
    numbers, seconds, cost = count(complete + 1), 0.0, 0.0
    for result in sweep.run(workers):
        run, time = result.task, format_duration(result.seconds)
        del rest[run]
        line = f"{next(numbers):,}/{len(sweep.runs):,} {run.label}: "
        if result.failure is None:
            seconds, cost = seconds + result.seconds, cost + costs[run]
            f1 = {part: sweep.scores[run][f"{part}_f1"] for part in ("dev", "test")}
            line += "".join(f"{part} F1 {100 * one:.2f}, " for part, one in f1.items() if one is not None)
            line += time
        else:
            line += f"failed after {time}: {result.failure.message}"
        if rest and cost:
            line += f"; about {format_duration(sum(rest.values()) * seconds / cost / workers)} left"
        yield line


def _describe_idle_settings(sweep: Sweep) -> Iterator[str]:
    """Yield messages about settings without effect, with the cells that they concern."""
    from fencepost.training import find_idle_settings

    cells: dict[str, list[str]] = {}
    for cell, run in {run.cell: run for run in sweep.runs}.items():
        for note in find_idle_settings(run.config, sweep.data.train, sweep.data.dev):
            cells.setdefault(note, []).append(cell.label)
    for note, labels in cells.items():
        yield note if len(labels) == len(sweep.cells) else f"{note} (in {'; '.join(labels)})"


def _print(sweep: Sweep) -> None:
    """Print the table of scores and the path of the CSV file."""
    from fencepost.cli.scores import escape_text, make_console, make_table
    from fencepost.experiments.sweep_results import CELLS_FILE

    console, rows = make_console(), sweep.results["cells"]
    columns = WITH_TEST if any(row["test_f1"]["mean"] is not None for row in rows) else WITHOUT_TEST
    names = [name for name in columns if any(row[name]["mean"] is not None for row in rows)]
    title = "Mean and standard deviation over seeds, scores in percent"
    table = make_table(title, "", "seeds", *(columns[name] for name in names))
    for row in rows:
        numbers = (_format_score(row[name], percent="ece" not in name) for name in names)
        table.add_row(escape_text(row["cell"]), str(row["seeds"]), *numbers)
    console.print(table)
    console.print(f"table as CSV: {sweep.out / CELLS_FILE}", soft_wrap=True, markup=False)


def _format_score(score: Mapping[str, float | None], *, percent: bool) -> str:
    factor, digits = (100, 2) if percent else (1, 3)
    numbers = [f"{factor * one:.{digits}f}" for one in (score["mean"], score["std"]) if one is not None]
    return " ± ".join(numbers)
