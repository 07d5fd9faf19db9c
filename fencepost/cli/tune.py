"""`fencepost tune`: a search for the settings with the best development F1."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Option

from fencepost.cli.frame import check_json_target, command, output_result, resumable
from fencepost.cli.progress import duration
from fencepost.cli.training_options import TrainingOptions
from fencepost.errors import UsageError, require_extra

if TYPE_CHECKING:
    from rich.console import Console

    from fencepost.config import Config
    from fencepost.evaluation import Evaluation
    from fencepost.experiments.tuning import TrialRecord, Tuning
    from fencepost.experiments.tuning_space import Space


@dataclass(frozen=True, kw_only=True)
class TuneOptions(TrainingOptions):
    """The options of a search."""

    title = "Search"

    out: Annotated[
        Path | None, Option(metavar="FOLDER", help="The folder for all trials; a search in it is continued.")
    ] = None
    space: Annotated[
        Path | None,
        Option(metavar="FILE.yaml", help="The search space as YAML; unless set, that of the method."),
    ] = None
    search: Annotated[
        list[str] | None,
        Option(
            metavar="KEY=...",
            help="A setting to search: KEY=LOW..HIGH, KEY=LOW..HIGH:log, KEY=LOW..HIGH:STEP or KEY=A,B,C; "
            "repeatable.",
        ),
    ] = None
    show_space: Annotated[bool, Option("--show-space", help="Print the search space as YAML, and stop.")] = (
        False
    )
    trials: Annotated[
        int, Option(min=1, help="Number of trials in all, with those that are there already.")
    ] = 20
    minutes: Annotated[float | None, Option(min=0, help="Start no trial after this number of minutes.")] = (
        None
    )
    pruner: Annotated[
        Literal["median", "none"],
        Option(help="Give up trials whose F1 is below the median at the same epoch; or none."),
    ] = "median"
    startup_trials: Annotated[
        int,
        Option(
            min=1,
            help="Number of trials drawn at random at first, which must be complete before any is given up.",
        ),
    ] = 5
    grace_epochs: Annotated[
        int | None, Option(min=0, help="Epochs in which no trial is given up; a quarter of all unless set.")
    ] = None
    keep_models: Annotated[bool, Option(help="Whether all trials keep their models, or only the best.")] = (
        False
    )

    def search_space(self, config: Config) -> Space:
        """Return the space of the file and `--search`, which has priority; without both, the default."""
        with require_extra("train"):
            from fencepost.experiments.tuning_space import default_space, read_space, searched, space_of
        given = {change.partition("=")[0]: "--set" for change in self.changes or ()}
        given |= dict.fromkeys(self.flagged, "an option of its own")
        if self.space is None and not self.search:
            default = default_space(config)
            return space_of({key: domain for key, domain in default.items() if key not in given}, config)
        of_options = searched(self.search or ())
        of_file = read_space(self.space) if self.space is not None else {}
        for key in (*of_options, *of_file):
            if key in given:
                raise UsageError(f"{key} is to be searched, and given with {given[key]} too; leave out one")
        rest = {key: domain for key, domain in of_file.items() if key not in of_options}
        return {
            **(space_of(rest, config, f"{self.space}: ") if rest else {}),
            **(space_of(of_options, config, "--search: ") if of_options else {}),
        }


@command("tune")
def tune(options: TuneOptions) -> None:
    """Search for the settings with the best development F1, and write them as a config for `train`.

    The same command continues where it was interrupted, or with more trials.

    Example: fencepost tune --train train.conll --dev dev.conll --out tuned --trials 20
    """
    check_json_target(options.json)
    config = options.settings()
    space = options.search_space(config)
    if options.show_space:
        from fencepost.experiments.tuning_space import space_yaml

        typer.echo(space_yaml(space), nl=False)
        return
    out = options.check_sources(options.out, "all trials")
    if options.dev is None and options.dev_share is None:
        raise UsageError("give development data with --dev, or a share of the training data with --dev-share")
    with require_extra("train,tune"):
        from fencepost.experiments.tuning import Data, Tuning
    tuning = Tuning(
        out,
        config,
        space,
        Data(*options.read_data(config), device=options.device),
        pruner=options.pruner,
        startup_trials=options.startup_trials,
        grace_epochs=options.grace_epochs,
        keep_models=options.keep_models,
    )
    with resumable("continue with the same command, which keeps what is finished", out), tuning:
        for line in _run(tuning, options.trials, options.minutes):
            options.say(line)
        score = tuning.score()
        _draw(tuning)
        result = {"tuning": str(out), **tuning.results}
        output_result(result, options.json, lambda: _print(tuning, score, options))


def _run(tuning: Tuning, trials: int, minutes: float | None) -> Iterator[str]:
    """Search; yield the plan, and for each trial its score and how long the rest will take."""
    from fencepost.training import find_idle_settings

    yield _plan(tuning, trials)
    yield from find_idle_settings(tuning.config, tuning.data.train, tuning.data.dev)
    seconds, trained = 0.0, 0
    for trial in tuning.go(trials, minutes):
        number, best = len(tuning.ended), tuning.best
        if trial.same_as is None:
            seconds, trained = seconds + trial.seconds, trained + 1
        line = f"{number:,}/{trials:,} trial {trial.number}: {_result(trial)}"
        if best is not None and best.number != trial.number:
            line += f"; best {_percent(best)} (trial {best.number})"
        if number < trials and trained:
            line += f"; about {duration((trials - number) * seconds / trained)} left"
        yield line


def _plan(tuning: Tuning, trials: int) -> str:
    config, ended = tuning.config, len(tuning.ended)
    plan = (
        f"{config.method.name} on {config.encoder.name}: {trials:,} trial{'' if trials == 1 else 's'}, "
        f"training.epochs {config.training.epochs}; searched: {', '.join(tuning.space)}"
    )
    plan += f"; {ended:,} ended already" if ended else ""
    return plan + ("; 1 to continue" if len(tuning.trials) > ended else "")


def _result(trial: TrialRecord) -> str:
    time, f1 = duration(trial.seconds), f"dev F1 {_percent(trial)}"
    if trial.same_as is not None:
        return f"{f1}, as trial {trial.same_as}, which has the same values"
    if trial.state == "failed":
        return f"failed after {time}: {trial.failure}"
    if trial.state == "pruned":
        return f"given up after epoch {len(trial.by_epoch)} with {f1}, {time}"
    return f"{f1}, {time}"


def _percent(trial: TrialRecord) -> str:
    return f"{100 * (trial.f1 or 0.0):.2f}"


def _draw(tuning: Tuning) -> None:
    from fencepost.analysis.tuning import analyze_history, analyze_importance

    results, source = tuning.results, {"tuning": str(tuning.out)}
    if tuning.ended:
        analyze_history(results["trials"], source).save(tuning.out)
    if results["importance"] is not None:
        analyze_importance(results["importance"], source).save(tuning.out)


def _print(tuning: Tuning, score: Evaluation | None, options: TuneOptions) -> None:
    """Print the trials, the importance of the settings, the scores on the test data, and what to do next."""
    from fencepost.cli.scores import print_scores, print_table, wide_console

    console, results = wide_console(), tuning.results
    if tuning.trials:
        _print_trials(console, tuning)
    if results["importance"] is not None:
        shares = [(key, f"{100 * share:.1f}") for key, share in results["importance"].items()]
        print_table(console, "Importance, in percent", ("setting", "share"), shares)
    if score is not None:
        print_scores(console, score, title="Strict scores of the best on the test data, in percent")
    for line in _end(tuning, results["no_importance"], options):
        console.print(line, soft_wrap=True, markup=False)


def _print_trials(console: Console, tuning: Tuning) -> None:
    """Print a column for each setting, or one for all where the console is too narrow."""
    from fencepost.cli.scores import print_table

    best, names = tuning.best, _short(list(tuning.space))
    columns, rows = ["trial", "state", "dev F1", "epochs", "minutes"], list[list[str]]()
    values = [[_value(value) for value in trial.values.values()] for trial in tuning.trials]
    for trial in tuning.trials:
        mark = " best" if best is not None and best.number == trial.number else ""
        state = trial.state if trial.same_as is None else f"as {trial.same_as}"
        f1 = "" if trial.f1 is None else _percent(trial)
        rows.append(
            [f"{trial.number}{mark}", state, f1, str(len(trial.by_epoch)), f"{trial.seconds / 60:.1f}"]
        )
    wide = [columns + names, *(row + own for row, own in zip(rows, values, strict=True))]
    if sum(3 + max(map(len, column)) for column in zip(*wide, strict=True)) >= console.width:
        texts = [" ".join(f"{name}={one}" for name, one in zip(names, own, strict=True)) for own in values]
        wide = [[*columns, "settings"], *([*row, text] for row, text in zip(rows, texts, strict=True))]
    print_table(console, "Trials", wide[0], wide[1:])


def _value(value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{value:g}" if isinstance(value, float) else dumps(value)


def _short(keys: Sequence[str]) -> list[str]:
    """Return each key with as many of its last parts as distinguish it from the others."""
    names = []
    for key in keys:
        parts = key.split(".")
        ends = (".".join(parts[-count:]) for count in range(1, len(parts) + 1))
        names.append(next(end for end in ends if sum(f".{one}".endswith(f".{end}") for one in keys) == 1))
    return names


def _end(tuning: Tuning, no_importance: str | None, options: TuneOptions) -> Iterator[str]:
    """Yield where the results are, and how to use them."""
    from fencepost.experiments.tuning import BEST_FILE, TRIALS_FILE

    best, ended = tuning.best, len(tuning.ended)
    if no_importance is not None:
        yield f"which settings matter cannot be said: {no_importance}"
    if ended < options.trials:
        yield f"{ended:,} of {options.trials:,} trials have ended; the same command continues"
    yield f"the table as CSV is in {tuning.out / TRIALS_FILE}, with figures beside it"
    if best is not None:
        yield f"the best is trial {best.number} with dev F1 {_percent(best)}; its model is in " + str(
            tuning.folder(best.number)
        )
        dev = ["--dev", options.dev] if options.dev is not None else ["--dev-share", f"{options.dev_share:g}"]
        data = shlex.join(["--config", str(tuning.out / BEST_FILE), "--train", options.train or "", *dev])
        yield f"to train with its settings: fencepost train {data} --out MODEL"
