"""`fencepost tune`: search for the settings with the best development F1."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from fencepost.cli.frame import check_json_target, command, explain_resume, format_count, output_result
from fencepost.cli.groups import option
from fencepost.cli.progress import format_duration
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
    """Options of a search."""

    title = "Search"

    out: Path | None = option(None, "Folder for all trials; a search in it is continued.", metavar="FOLDER")
    space: Path | None = option(
        None, "Search space as YAML. Default: that of the method.", metavar="FILE.yaml"
    )
    search: list[str] | None = option(
        None,
        "Setting to search: KEY=LOW..HIGH, KEY=LOW..HIGH:log, KEY=LOW..HIGH:STEP or KEY=A,B,C; repeatable.",
        metavar="KEY=...",
    )
    show_space: bool = option(False, "Print the search space as YAML and exit.")
    trials: int = option(20, "Total number of trials, including existing ones.", min=1)
    minutes: float | None = option(None, "Start no more trials after this number of minutes.", min=0)
    pruner: Literal["median", "none"] = option(
        "median",
        "median: stop trials whose F1 is below the median of the others at the same epoch; none: stop none.",
    )
    startup_trials: int = option(
        5, "Number of first trials with random values; no trial is stopped before they are complete.", min=1
    )
    grace_epochs: int | None = option(
        None, "Number of epochs at the start in which no trial is stopped. Default: a quarter of them.", min=0
    )
    keep_models: bool = option(
        False,
        "Whether to keep the models of all trials, or only that of the best one.",
        "--keep-models/--no-keep-models",
    )

    def parse_search_space(self, config: Config) -> Space:
        """Return the space of `--space` and `--search`, which takes precedence; without both, the default."""
        with require_extra("train"):
            from fencepost.experiments.tuning_space import (
                make_default_space,
                parse_searches,
                parse_space,
                read_space,
            )
        fixed = {change.partition("=")[0]: "--set" for change in self.changes or ()}
        fixed |= dict.fromkeys(self.option_keys, "an option")
        if self.space is None and not self.search:
            default = make_default_space(config)
            return parse_space({key: domain for key, domain in default.items() if key not in fixed}, config)
        of_options = parse_searches(self.search or ())
        of_file = read_space(self.space) if self.space is not None else {}
        for key in (*of_options, *of_file):
            if key in fixed:
                raise UsageError(f"{key} is searched and also given with {fixed[key]}; leave out one of them")
        rest = {key: domain for key, domain in of_file.items() if key not in of_options}
        return {
            **(parse_space(rest, config, f"{self.space}: ") if rest else {}),
            **(parse_space(of_options, config, "--search: ") if of_options else {}),
        }


@command("tune")
def tune(options: TuneOptions) -> None:
    """Search for the settings with the best development F1, and write them as a config for `train`.

    To continue after an interruption, or with more trials, run the same command again.

    Example: fencepost tune --train train.conll --dev dev.conll --out tuned --trials 20
    """
    check_json_target(options.json)
    config = options.settings()
    space = options.parse_search_space(config)
    if options.show_space:
        from fencepost.experiments.tuning_space import dump_space_yaml

        typer.echo(dump_space_yaml(space), nl=False)
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
    with explain_resume("run the same command again to continue; finished trials are kept", out), tuning:
        for line in _run_trials(tuning, options.trials, options.minutes):
            options.say(line)
        score = tuning.score()
        _save_figures(tuning)
        result = {"tuning": str(out), **tuning.results}
        output_result(result, options.json, lambda: _print(tuning, score, options))


def _run_trials(tuning: Tuning, trials: int, minutes: float | None) -> Iterator[str]:
    """Run the trials; yield the plan, then a message with the score and the remaining time per trial."""
    from fencepost.training import find_idle_settings

    yield _describe_plan(tuning, trials)
    yield from find_idle_settings(tuning.config, tuning.data.train, tuning.data.dev)
    seconds, trained = 0.0, 0
    for trial in tuning.run(trials, minutes):
        number, best = len(tuning.ended_trials), tuning.best
        if trial.same_as is None:
            seconds, trained = seconds + trial.seconds, trained + 1
        line = f"{number:,}/{trials:,} trial {trial.number}: {_describe_result(trial)}"
        if best is not None and best.number != trial.number:
            line += f"; best {_format_f1(best)} (trial {best.number})"
        if number < trials and trained:
            line += f"; about {format_duration((trials - number) * seconds / trained)} left"
        yield line


def _describe_plan(tuning: Tuning, trials: int) -> str:
    config, ended = tuning.config, len(tuning.ended_trials)
    plan = (
        f"{config.method.name} on {config.encoder.name}: {format_count(trials, 'trial')}, "
        f"training.epochs {config.training.epochs}; search space: {', '.join(tuning.space)}"
    )
    plan += f"; {ended:,} already finished" if ended else ""
    return plan + ("; 1 to continue" if len(tuning.trials) > ended else "")


def _describe_result(trial: TrialRecord) -> str:
    time, f1 = format_duration(trial.seconds), f"dev F1 {_format_f1(trial)}"
    if trial.same_as is not None:
        return f"{f1}, same values as trial {trial.same_as}"
    if trial.state == "failed":
        return f"failed after {time}: {trial.failure}"
    if trial.state == "pruned":
        return f"stopped after epoch {len(trial.by_epoch)} with {f1}, {time}"
    return f"{f1}, {time}"


def _format_f1(trial: TrialRecord) -> str:
    return f"{100 * (trial.f1 or 0.0):.2f}"


def _save_figures(tuning: Tuning) -> None:
    from fencepost.analysis.tuning import analyze_history, analyze_importance

    results, source = tuning.results, {"tuning": str(tuning.out)}
    if tuning.ended_trials:
        analyze_history(results["trials"], source).save(tuning.out)
    if results["importance"] is not None:
        analyze_importance(results["importance"], source).save(tuning.out)


def _print(tuning: Tuning, score: Evaluation | None, options: TuneOptions) -> None:
    """Print the trials, the importance of the settings, the test scores and the next step."""
    from fencepost.cli.scores import make_console, print_scores, print_table

    console, results = make_console(), tuning.results
    if tuning.trials:
        _print_trials(console, tuning)
    if results["importance"] is not None:
        shares = [(key, f"{100 * share:.1f}") for key, share in results["importance"].items()]
        print_table(console, "Importance of settings, in percent", ("setting", "share"), shares)
    if score is not None:
        print_scores(console, score, title="Strict scores of the best trial on the test data, in percent")
    for line in _describe_end(tuning, results["no_importance"], options):
        console.print(line, soft_wrap=True, markup=False)


def _print_trials(console: Console, tuning: Tuning) -> None:
    """Print a table with one column per setting, or one for all if the console is too narrow."""
    from fencepost.cli.scores import print_table

    best, names = tuning.best, _shorten_keys(list(tuning.space))
    columns, rows = ["trial", "state", "dev F1", "epochs", "minutes"], list[list[str]]()
    values = [[_format_value(value) for value in trial.values.values()] for trial in tuning.trials]
    for trial in tuning.trials:
        mark = " best" if best is not None and best.number == trial.number else ""
        state = trial.state if trial.same_as is None else f"same as {trial.same_as}"
        f1 = "" if trial.f1 is None else _format_f1(trial)
        rows.append(
            [f"{trial.number}{mark}", state, f1, str(len(trial.by_epoch)), f"{trial.seconds / 60:.1f}"]
        )
    wide = [columns + names, *(row + own for row, own in zip(rows, values, strict=True))]
    if sum(3 + max(map(len, column)) for column in zip(*wide, strict=True)) >= console.width:
        texts = [" ".join(f"{name}={one}" for name, one in zip(names, own, strict=True)) for own in values]
        wide = [[*columns, "settings"], *([*row, text] for row, text in zip(rows, texts, strict=True))]
    print_table(console, "Trials", wide[0], wide[1:])


def _format_value(value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{value:g}" if isinstance(value, float) else dumps(value)


def _shorten_keys(keys: Sequence[str]) -> list[str]:
    """Return each key reduced to the last parts that distinguish it from the others."""
    names = []
    for key in keys:
        parts = key.split(".")
        ends = (".".join(parts[-count:]) for count in range(1, len(parts) + 1))
        names.append(next(end for end in ends if sum(f".{one}".endswith(f".{end}") for one in keys) == 1))
    return names


def _describe_end(tuning: Tuning, no_importance: str | None, options: TuneOptions) -> Iterator[str]:
    """Yield messages about where the results are and how to use them."""
    from fencepost.experiments.tuning import BEST_FILE, TRIALS_FILE

    best, ended = tuning.best, len(tuning.ended_trials)
    if no_importance is not None:
        yield f"importance of settings not computed: {no_importance}"
    if ended < options.trials:
        yield f"{ended:,} of {options.trials:,} trials are finished; run the same command again to continue"
    yield f"table as CSV: {tuning.out / TRIALS_FILE}; figures are in the same folder"
    if best is not None:
        yield (
            f"best trial: {best.number} with dev F1 {_format_f1(best)}; its model is in "
            f"{tuning.get_folder(best.number)}"
        )
        dev = ["--dev", options.dev] if options.dev is not None else ["--dev-share", f"{options.dev_share:g}"]
        data = shlex.join(["--config", str(tuning.out / BEST_FILE), "--train", options.train or "", *dev])
        yield f"to train with its settings: fencepost train {data} --out MODEL"
