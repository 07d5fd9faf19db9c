"""`fencepost sweep`: a model for each cell of a grid and each seed, and what they score on average."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fencepost.cli.corpora import read_all
from fencepost.cli.frame import Json, Quiet, check_json_target, command, resumable, say, write_json
from fencepost.cli.models import training_installed
from fencepost.cli.options import FormatName, SkipInvalid, reads_corpora
from fencepost.cli.train import Dev, DevShare, Test, Train
from fencepost.cli.training_options import (
    BatchSize,
    ConfigFile,
    EncoderName,
    Epochs,
    MethodName,
    RecipeName,
    Set,
    option,
    settings_of,
)
from fencepost.errors import FencepostError, UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from fencepost.config import Config
    from fencepost.data import ReadOptions
    from fencepost.data.entity import Sentence
    from fencepost.experiments.cells import Cell
    from fencepost.experiments.sweep import Sweep, Trial
    from fencepost.experiments.workers import Ended

_SWEEP = "Sweep"
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

Flags = dict[str, dict[str, Any]]

Out = Annotated[
    Path | None,
    option(
        "--out",
        "The folder for all runs and results; one that is there already goes on.",
        _SWEEP,
        metavar="FOLDER",
    ),
]
Grid = Annotated[
    list[str] | None,
    option(
        "--grid",
        "The values of a setting, as method.epsilon=0,0.1; of several settings, all combinations.",
        _SWEEP,
        metavar="KEY=V,V...",
    ),
]
Also = Annotated[
    list[str] | None,
    option(
        "--also",
        "More cells beside the grid, as method.max_offset=0,1; settings that change together are "
        "separated by spaces, in quotes. Repeatable.",
        _SWEEP,
        metavar="'KEY=V,V...'",
    ),
]
Seeds = Annotated[
    int, option("--seeds", "Runs in each cell: training.seed, and the numbers after it.", _SWEEP, min=1)
]
Share = Annotated[
    str | None,
    option("--share", "Shares of the training data, as 0.125,0.25,0.5,1.", _SWEEP, metavar="S,S..."),
]
BoundaryNoise = Annotated[
    str | None,
    option(
        "--boundary-noise",
        "Probabilities, as 0,0.1, with which an entity in the training data is off by a word.",
        _SWEEP,
        metavar="P,P...",
    ),
]
Workers = Annotated[
    int, option("--workers", "So many runs at once, each in a process; they share the cores.", _SWEEP, min=1)
]
KeepModels = Annotated[
    bool,
    option(
        "--keep-models/--no-keep-models", "Whether finished runs keep their models, or scores only.", _SWEEP
    ),
]


@command("sweep")
@reads_corpora
def sweep(
    options: ReadOptions,
    train: Train = None,
    dev: Dev = None,
    dev_share: DevShare = None,
    test: Test = None,
    out: Out = None,
    grid: Grid = None,
    also: Also = None,
    seeds: Seeds = 1,
    share: Share = None,
    boundary_noise: BoundaryNoise = None,
    workers: Workers = 1,
    keep_models: KeepModels = True,
    method: MethodName = None,
    recipe: RecipeName = None,
    config: ConfigFile = None,
    changes: Set = None,
    encoder: EncoderName = None,
    epochs: Epochs = None,
    batch_size: BatchSize = None,
    format: FormatName = None,  # noqa: A002
    skip_invalid: SkipInvalid = False,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Train each cell of a grid with several seeds: mean and standard deviation of the scores.

    The same command goes on where it was interrupted; what is finished is not trained again.
    """
    check_json_target(json)
    if train is None or out is None:
        raise UsageError("give the training data with --train and the folder for all runs with --out")
    if dev is not None and dev_share is not None:
        raise UsageError("--dev and --dev-share contradict each other; give one of them")
    if [train, dev, test].count("-") > 1:
        raise UsageError("standard input can be read once, but it is named twice")
    flags: Flags = {
        "method": {"name": method},
        "encoder": {"name": encoder},
        "training": {"epochs": epochs, "batch_size": batch_size},
        "text": {"language": options.language},
    }
    cells = _cells(
        grid or [], also or [], _numbers("--share", share), _numbers("--boundary-noise", boundary_noise)
    )
    settings = {cell: _settings(cell, recipe, config, changes or [], flags) for cell in cells}

    options = options.with_default_language(settings[cells[0]].text.language)

    def read(path: str | None) -> list[Sentence] | None:
        if path is None:
            return None
        return read_all(path, format, options, skip_invalid=skip_invalid, quiet=quiet)

    from fencepost.experiments.sweep import Data, Sweep
    from fencepost.training import held_out

    learnt, held, tested = read(train) or [], read(dev), read(test)
    if dev_share is not None:
        learnt, held = held_out(learnt, dev_share, settings[cells[0]].training.seed)
    whole = Sweep(out, settings, seeds, Data(learnt, held, tested), keep_models=keep_models)
    for line in (_plan(whole, seeds), *_idle(whole)):
        say(line, quiet=quiet)
    with resumable("continue with the same command, which keeps what is finished", out):
        for line in _told(whole, workers):
            say(line, quiet=quiet)
    _report(whole, json)


def _numbers(name: str, listed: str | None) -> list[float]:
    if listed is None:
        return []
    try:
        return [float(number) for number in listed.split(",")]
    except ValueError:
        raise UsageError(
            f"{name} {listed}: write numbers, separated by commas, for example 0.25,0.5"
        ) from None


def _cells(
    grid: Sequence[str], also: Sequence[str], shares: Sequence[float], noises: Sequence[float]
) -> list[Cell]:
    with training_installed():
        from fencepost.experiments.cells import cells_of, split
    found = cells_of(grid, shares, noises)
    for one in also:
        axes = [axis for axis in split(one, " ") if axis]
        found += cells_of(axes, shares, noises, option="--also")
    return list(dict.fromkeys(found))


def _settings(
    cell: Cell, recipe: str | None, config: Path | None, changes: Sequence[str], flags: Flags
) -> Config:
    """Of a cell, whose changes come after all others; whatever is wrong is told with it."""
    for part, values in flags.items():
        for key, value in values.items():
            if value is not None and f"{part}.{key}" in cell.settings:
                raise UsageError(
                    f"{part}.{key} is in the grid, and given as an option too; leave out one of them"
                )
    try:
        return settings_of(recipe, config, [*changes, *cell.changes], flags)
    except UsageError as error:
        if not cell.changes:
            raise
        raise UsageError(f"in the cell {cell.label}: {error}") from None


def _plan(sweep: Sweep, seeds: int) -> str:
    cells, finished, begun = len(sweep.cells), len(sweep.of_state("complete")), len(sweep.of_state("running"))
    plan = f"{_several(cells, 'cell')} x {_several(seeds, 'seed')} = {_several(len(sweep.runs), 'run')}"
    if finished:
        plan += f"; {finished:,} finished already"
    if begun:
        plan += f"; {begun:,} to go on with"
    return plan


def _idle(sweep: Sweep) -> Iterator[str]:
    """Settings without an effect, each with the cells where that is so."""
    from fencepost.training import idle_settings

    cells: dict[str, list[str]] = {}
    for cell, run in {run.cell: run for run in sweep.runs}.items():
        for note in idle_settings(run.config, sweep.data.train, sweep.data.dev):
            cells.setdefault(note, []).append(cell.label)
    for note, labels in cells.items():
        yield note if len(labels) == len(sweep.cells) else f"{note} (in {'; '.join(labels)})"


def _told(sweep: Sweep, workers: int) -> Iterator[str]:
    """Trains; a line for each run that has ended, with what it scores and when the rest will be done."""
    todo = {run: _cost(run) for run in sweep.of_state("planned", "running")}
    workers = min(workers, max(1, len(todo)))
    numbers, seconds, cost = count(len(sweep.of_state("complete")) + 1), 0.0, 0.0
    for ended in sweep.go(workers):
        own = todo.pop(ended.task)
        if ended.failure is None:
            seconds, cost = seconds + ended.seconds, cost + own
        line = f"{next(numbers):,}/{len(sweep.runs):,} {_came_to(sweep, ended)}"
        if todo and cost:
            line += f"; about {duration(sum(todo.values()) * seconds / cost / workers)} left"
        yield line


def _cost(run: Trial) -> float:
    """What the time of a run is about proportional to."""
    return run.config.training.epochs * (1.0 if run.cell.share is None else run.cell.share)


def _came_to(sweep: Sweep, ended: Ended[Trial]) -> str:
    name, time = ended.task.label, duration(ended.seconds)
    if ended.failure is not None:
        return f"{name}: failed after {time}: {ended.failure.message}"
    scores = sweep.scores[ended.task]
    f1 = {"dev F1": scores["dev_f1"], "test F1": scores["test_f1"]}
    told = [f"{part} {100 * value:.2f}" for part, value in f1.items() if value is not None]
    return f"{name}: {', '.join([*told, time])}"


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min" if hours else f"{minutes} min {rest} s"


def _several(number: int, of: str) -> str:
    return f"{number:,} {of}{'' if number == 1 else 's'}"


def _report(sweep: Sweep, json: Path | None) -> None:
    """The table, and where its numbers are as CSV; an error in the end if there is something missing."""
    from fencepost.cli.scores import wide_console
    from fencepost.experiments.sweep_results import CELLS_FILE

    if json is not None:
        write_json({"sweep": str(sweep.out), **sweep.results}, json)
    if json is None or str(json) != "-":
        console = wide_console()
        _print_cells(console, sweep)
        console.print(f"the same as CSV is in {sweep.out / CELLS_FILE}", soft_wrap=True, markup=False)
    if sweep.failed:
        names = "".join(f"\n  {run.label}: {failure.message}" for run, failure in sweep.failed.items())
        raise FencepostError(
            f"{len(sweep.failed):,} of {_several(len(sweep.runs), 'run')} failed; when that is mended, the "
            f"same command tries them again:{names}"
        )


def _print_cells(console: Console, sweep: Sweep) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    rows = sweep.results["cells"]
    columns = WITH_TEST if any(row["test_f1"]["mean"] is not None for row in rows) else WITHOUT_TEST
    shown = [name for name in columns if any(row[name]["mean"] is not None for row in rows)]
    title = "Mean and standard deviation over seeds, scores in percent"
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold")
    table.add_column("")
    for name in ("seeds", *(columns[name] for name in shown)):
        table.add_column(name, justify="right")
    for row in rows:
        numbers = (_with_deviation(row[name], percent="ece" not in name) for name in shown)
        table.add_row(Text(row["cell"]), str(row["seeds"]), *numbers)
    console.print(table)


def _with_deviation(found: Mapping[str, float | None], *, percent: bool) -> str:
    mean, deviation = found["mean"], found["std"]
    if mean is None:
        return ""
    factor, digits = (100, 2) if percent else (1, 3)
    told = f"{factor * mean:.{digits}f}"
    return told if deviation is None else f"{told} ± {factor * deviation:.{digits}f}"
