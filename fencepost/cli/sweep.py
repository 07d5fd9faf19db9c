"""`fencepost sweep`: a model for each cell of a grid and each seed, and their mean scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from fencepost.cli.frame import check_json_target, command, output_result, resumable
from fencepost.cli.progress import duration
from fencepost.cli.training_options import TrainingOptions
from fencepost.errors import FencepostError, UsageError, require_extra

if TYPE_CHECKING:
    from fencepost.config import Config
    from fencepost.experiments.cells import Cell
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
"""The columns of the table, by measure."""


@dataclass(frozen=True, kw_only=True)
class SweepOptions(TrainingOptions):
    """The options of a sweep."""

    title = "Sweep"

    out: Annotated[
        Path | None, Option(metavar="FOLDER", help="The folder for all runs; a sweep in it is continued.")
    ] = None
    grid: Annotated[
        list[str] | None,
        Option(
            metavar="KEY=V,V...",
            help="Values of a setting, as method.epsilon=0,0.1; of several, all combinations.",
        ),
    ] = None
    also: Annotated[
        list[str] | None,
        Option(
            metavar="'KEY=V,V...'",
            help="More cells beside the grid, as method.max_offset=0,1; settings that change together are "
            "separated by spaces, in quotes. Repeatable.",
        ),
    ] = None
    seeds: Annotated[
        int, Option(min=1, help="Runs in each cell: training.seed, and the numbers after it.")
    ] = 1
    share: Annotated[
        str | None, Option(metavar="S,S...", help="Shares of the training data, as 0.125,0.25,0.5,1.")
    ] = None
    boundary_noise: Annotated[
        str | None,
        Option(
            metavar="P,P...", help="Probabilities, as 0,0.1, that an entity to learn from is off by a word."
        ),
    ] = None
    workers: Annotated[
        int, Option(min=1, help="Number of runs at once, in processes that share the cores.")
    ] = 1
    keep_models: Annotated[bool, Option(help="Whether complete runs keep their models, or scores only.")] = (
        True
    )

    def cells(self) -> list[Cell]:
        """Return the cells of the grid, and those beside it."""
        with require_extra("train"):
            from fencepost.experiments.cells import cells_of, split
        shares, noises = _numbers("--share", self.share), _numbers("--boundary-noise", self.boundary_noise)
        cells = cells_of(self.grid or [], shares, noises)
        for one in self.also or []:
            axes = [axis for axis in split(one, " ") if axis]
            cells += cells_of(axes, shares, noises, option="--also")
        return list(dict.fromkeys(cells))

    def settings_of(self, cell: Cell) -> Config:
        """Return the settings of a cell, whose changes come after all others; errors name the cell."""
        for key in cell.settings.keys() & self.flagged:
            raise UsageError(f"{key} is in the grid, and given as an option too; leave out one of them")
        try:
            return self.settings(cell.changes)
        except UsageError as error:
            if not cell.changes:
                raise
            raise UsageError(f"in the cell {cell.label}: {error}") from None


@command("sweep")
def sweep(options: SweepOptions) -> None:
    """Train each cell of a grid with several seeds: mean and standard deviation of the scores.

    The same command continues where it was interrupted; complete runs are not trained again.

    Example: fencepost sweep --train train.conll --dev dev.conll --out sweep --grid method.epsilon=0,0.1
    """
    check_json_target(options.json)
    out = options.check_sources(options.out, "all runs")
    settings = {cell: options.settings_of(cell) for cell in options.cells()}
    from fencepost.experiments.sweep import Data, Sweep

    data = Data(*options.read_data(next(iter(settings.values()))), device=options.device)
    sweep = Sweep(out, settings, options.seeds, data, keep_models=options.keep_models)
    with resumable("continue with the same command, which keeps what is finished", out):
        for line in _run(sweep, options.seeds, options.workers):
            options.say(line)
    output_result({"sweep": str(out), **sweep.results}, options.json, lambda: _print(sweep))
    if sweep.failed:
        names = "".join(f"\n  {run.label}: {failure.message}" for run, failure in sweep.failed.items())
        raise FencepostError(
            f"{len(sweep.failed):,} of {_number(len(sweep.runs), 'run')} failed; when that is corrected, the "
            f"same command tries them again:{names}"
        )


def _numbers(name: str, text: str | None) -> list[float]:
    try:
        return [] if text is None else [float(number) for number in text.split(",")]
    except ValueError:
        raise UsageError(f"{name} {text}: write numbers, separated by commas, for example 0.25,0.5") from None


def _count_sentences(run: Trial, sentences: int) -> float:
    """Return the number of sentences that a run reads, in all of its epochs."""
    of_run = round(sentences * (run.cell.share or 1.0))
    return of_run * run.config.training.count_epochs(of_run)


def _run(sweep: Sweep, seeds: int, workers: int) -> Iterator[str]:
    """Train; yield the plan, and for each run its scores and how long the rest will take."""
    complete, interrupted = len(sweep.of_state("complete")), len(sweep.of_state("running"))
    plan = (
        f"{_number(len(sweep.cells), 'cell')} x {_number(seeds, 'seed')} = {_number(len(sweep.runs), 'run')}"
    )
    plan += f"; {complete:,} finished already" if complete else ""
    yield plan + (f"; {interrupted:,} to continue" if interrupted else "")
    yield from _idle(sweep)
    costs = {run: _count_sentences(run, len(sweep.data.train)) for run in sweep.runs}
    rest = {run: costs[run] for run in sweep.of_state("planned", "running")}
    workers = min(workers, max(1, len(rest)))
    numbers, seconds, cost = count(complete + 1), 0.0, 0.0
    for ended in sweep.go(workers):
        run, time = ended.task, duration(ended.seconds)
        del rest[run]
        line = f"{next(numbers):,}/{len(sweep.runs):,} {run.label}: "
        if ended.failure is None:
            seconds, cost = seconds + ended.seconds, cost + costs[run]
            f1 = {part: sweep.scores[run][f"{part}_f1"] for part in ("dev", "test")}
            line += "".join(f"{part} F1 {100 * one:.2f}, " for part, one in f1.items() if one is not None)
            line += time
        else:
            line += f"failed after {time}: {ended.failure.message}"
        if rest and cost:
            line += f"; about {duration(sum(rest.values()) * seconds / cost / workers)} left"
        yield line


def _idle(sweep: Sweep) -> Iterator[str]:
    """Yield the settings without an effect, each with the cells where that is so."""
    from fencepost.training import find_idle_settings

    cells: dict[str, list[str]] = {}
    for cell, run in {run.cell: run for run in sweep.runs}.items():
        for note in find_idle_settings(run.config, sweep.data.train, sweep.data.dev):
            cells.setdefault(note, []).append(cell.label)
    for note, labels in cells.items():
        yield note if len(labels) == len(sweep.cells) else f"{note} (in {'; '.join(labels)})"


def _number(count: int, of: str) -> str:
    return f"{count:,} {of}{'' if count == 1 else 's'}"


def _print(sweep: Sweep) -> None:
    """Print the table, and where its numbers are as CSV."""
    from fencepost.cli.scores import make_table, safe_text, wide_console
    from fencepost.experiments.sweep_results import CELLS_FILE

    console, rows = wide_console(), sweep.results["cells"]
    columns = WITH_TEST if any(row["test_f1"]["mean"] is not None for row in rows) else WITHOUT_TEST
    shown = [name for name in columns if any(row[name]["mean"] is not None for row in rows)]
    title = "Mean and standard deviation over seeds, scores in percent"
    table = make_table(title, "", "seeds", *(columns[name] for name in shown))
    for row in rows:
        numbers = (_with_deviation(row[name], percent="ece" not in name) for name in shown)
        table.add_row(safe_text(row["cell"]), str(row["seeds"]), *numbers)
    console.print(table)
    console.print(f"the same as CSV is in {sweep.out / CELLS_FILE}", soft_wrap=True, markup=False)


def _with_deviation(score: Mapping[str, float | None], *, percent: bool) -> str:
    factor, digits = (100, 2) if percent else (1, 3)
    numbers = [f"{factor * one:.{digits}f}" for one in (score["mean"], score["std"]) if one is not None]
    return " ± ".join(numbers)
