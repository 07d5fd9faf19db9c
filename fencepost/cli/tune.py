"""`fencepost tune`: a search for the settings with the best development F1."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fencepost.cli.corpora import read_all
from fencepost.cli.frame import Json, Quiet, check_json_target, command, resumable, say, write_json
from fencepost.cli.models import training_installed
from fencepost.cli.options import FormatName, SkipInvalid, reads_corpora
from fencepost.cli.sweep import duration
from fencepost.cli.train import DevShare, Train
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
from fencepost.errors import UsageError, require_extra

if TYPE_CHECKING:
    from rich.console import Console

    from fencepost.config import Config
    from fencepost.data import ReadOptions
    from fencepost.data.entity import Sentence
    from fencepost.experiments.tuning import Data, TrialRecord, Tuning
    from fencepost.experiments.tuning_space import Space

_DATA, _SEARCH = "Data", "Search"

Dev = Annotated[
    str | None,
    option("--dev", "Development data: the best F1 on it is what is searched.", _DATA, metavar="FILE"),
]
Test = Annotated[
    str | None,
    option("--test", "Data to score the best trial's model on, at the end.", _DATA, metavar="FILE"),
]
Out = Annotated[
    Path | None,
    option(
        "--out",
        "The folder for all trials and results; one that is there already goes on.",
        _SEARCH,
        metavar="FOLDER",
    ),
]
SpaceFile = Annotated[
    Path | None,
    option(
        "--space",
        "What is searched, as a YAML file; unless given, a space for the method.",
        _SEARCH,
        metavar="FILE.yaml",
    ),
]
SearchKeys = Annotated[
    list[str] | None,
    option(
        "--search",
        "A setting to search: KEY=LOW..HIGH, KEY=LOW..HIGH:log, KEY=LOW..HIGH:STEP or KEY=A,B,C; repeatable.",
        _SEARCH,
        metavar="KEY=...",
    ),
]
ShowSpace = Annotated[
    bool, option("--show-space", "Print what would be searched as YAML, and stop.", _SEARCH)
]
Trials = Annotated[
    int, option("--trials", "So many trials in all, those included that are there.", _SEARCH, min=1)
]
Minutes = Annotated[
    float | None, option("--minutes", "After so many minutes, no trial is begun any more.", _SEARCH, min=0)
]
Pruner = Annotated[
    Literal["median", "none"],
    option("--pruner", "Give up trials whose F1 is below the median at the same epoch; or none.", _SEARCH),
]
StartupTrials = Annotated[
    int,
    option(
        "--startup-trials",
        "So many at the beginning are drawn at random, and complete before any is given up.",
        _SEARCH,
        min=1,
    ),
]
GraceEpochs = Annotated[
    int | None,
    option(
        "--grace-epochs",
        "In so many epochs no trial is given up; a quarter of all unless set.",
        _SEARCH,
        min=0,
    ),
]
KeepModels = Annotated[
    bool,
    option(
        "--keep-models/--no-keep-models", "Whether all trials keep their models, or only the best.", _SEARCH
    ),
]
Seed = Annotated[
    int | None, option("--seed", "training.seed of all trials, by which values are drawn too.", _SEARCH)
]


@command("tune")
@reads_corpora
def tune(
    options: ReadOptions,
    train: Train = None,
    dev: Dev = None,
    dev_share: DevShare = None,
    test: Test = None,
    out: Out = None,
    space: SpaceFile = None,
    search: SearchKeys = None,
    show_space: ShowSpace = False,
    trials: Trials = 20,
    minutes: Minutes = None,
    pruner: Pruner = "median",
    startup_trials: StartupTrials = 5,
    grace_epochs: GraceEpochs = None,
    keep_models: KeepModels = False,
    seed: Seed = None,
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
    """Search for the settings with the best development F1, and write them as a config for `train`.

    The same command goes on where it was interrupted, or to more trials.
    """
    check_json_target(json)
    flags: dict[str, dict[str, Any]] = {
        "method": {"name": method},
        "encoder": {"name": encoder},
        "training": {"epochs": epochs, "batch_size": batch_size, "seed": seed},
        "text": {"language": options.language},
    }
    settings = settings_of(recipe, config, changes, flags)
    found = _space(settings, space, search or [], _given(flags, changes or []))
    if show_space:
        from fencepost.experiments.tuning_space import space_yaml

        typer.echo(space_yaml(found), nl=False)
        return
    if train is None or out is None:
        raise UsageError("give the training data with --train and the folder for all trials with --out")
    if (dev is None) == (dev_share is None):
        raise UsageError("give development data with --dev, or a share of the training data with --dev-share")
    if [train, dev, test].count("-") > 1:
        raise UsageError("standard input can be read once, but it is named twice")
    with require_extra("train,tune"):
        from fencepost.experiments.tuning import Tuning

    def read(path: str) -> list[Sentence]:
        return read_all(path, format, options, skip_invalid=skip_invalid, quiet=quiet)

    options = options.with_default_language(settings.text.language)
    data = _data(read, train, dev if dev is not None else dev_share, test, settings.training.seed)
    tuning = Tuning(
        out,
        settings,
        found,
        data,
        pruner=pruner,
        startup_trials=startup_trials,
        grace_epochs=grace_epochs,
        keep_models=keep_models,
    )
    held = f"--dev {shlex.quote(dev)}" if dev is not None else f"--dev-share {dev_share:g}"
    with resumable("continue with the same command, which keeps what is finished", out), tuning:
        for line in _told(tuning, trials, minutes):
            say(line, quiet=quiet)
        _report(tuning, trials, json, f"--train {shlex.quote(train)} {held}")


def _data(
    read: Callable[[str], list[Sentence]], train: str, dev: str | float | None, test: str | None, seed: int
) -> Data:
    """All data; `dev` is a file, or a share of the training data."""
    from fencepost.experiments.tuning import Data
    from fencepost.training import held_out

    learnt = read(train)
    if isinstance(dev, float):
        learnt, held = held_out(learnt, dev, seed)
    else:
        held = read(dev or "")
    return Data(learnt, held, read(test) if test is not None else None)


def _given(flags: Mapping[str, Mapping[str, Any]], changes: Sequence[str]) -> dict[str, str]:
    """The settings that the user has set, with the option for it."""
    set_by = {change.partition("=")[0]: "--set" for change in changes}
    by_flag = {
        f"{part}.{key}": "an option of its own"
        for part, values in flags.items()
        for key, value in values.items()
        if value is not None
    }
    return set_by | by_flag


def _space(settings: Config, file: Path | None, search: Sequence[str], given: Mapping[str, str]) -> Space:
    """Of the file and `--search`, of which the latter counts; without both, the usual one."""
    with training_installed():
        from fencepost.experiments.tuning_space import default_space, read_space, searched, space_of
    if file is None and not search:
        usual = default_space(settings)
        return space_of({key: domain for key, domain in usual.items() if key not in given}, settings)
    of_options, of_file = searched(search), read_space(file) if file is not None else {}
    for key in (*of_options, *of_file):
        if key in given:
            raise UsageError(f"{key} is to be searched, and given with {given[key]} too; leave out one")
    rest = {key: domain for key, domain in of_file.items() if key not in of_options}
    return {
        **(space_of(rest, settings, f"{file}: ") if rest else {}),
        **(space_of(of_options, settings, "--search: ") if of_options else {}),
    }


def _told(tuning: Tuning, trials: int, minutes: float | None) -> Iterator[str]:
    """Searches; a line for each trial that has ended, with what it scores and when the rest will be done."""
    from fencepost.training import idle_settings

    yield _plan(tuning, trials)
    yield from idle_settings(tuning.config, tuning.data.train, tuning.data.dev)
    seconds, trained = 0.0, 0
    for trial in tuning.go(trials, minutes):
        number = len(tuning.ended)
        if trial.same_as is None:
            seconds, trained = seconds + trial.seconds, trained + 1
        line = f"{number:,}/{trials:,} trial {trial.number}: {_came_to(trial)}"
        best = tuning.best
        if best is not None and best.number != trial.number:
            line += f"; best {100 * (best.f1 or 0.0):.2f} (trial {best.number})"
        if number < trials and trained:
            line += f"; about {duration((trials - number) * seconds / trained)} left"
        yield line


def _plan(tuning: Tuning, trials: int) -> str:
    settings, several = tuning.config, "" if trials == 1 else "s"
    plan = (
        f"{settings.method.name} on {settings.encoder.name}: {trials:,} trial{several}, "
        f"training.epochs {settings.training.epochs}; searched: {', '.join(tuning.space)}"
    )
    ended = len(tuning.ended)
    if ended:
        plan += f"; {ended:,} ended already"
    if len(tuning.trials) > ended:
        plan += "; 1 to go on with"
    return plan


def _came_to(trial: TrialRecord) -> str:
    time, f1 = duration(trial.seconds), f"dev F1 {100 * (trial.f1 or 0.0):.2f}"
    if trial.same_as is not None:
        return f"{f1}, as trial {trial.same_as}, which has the same values"
    if trial.state == "failed":
        return f"failed after {time}: {trial.failure}"
    if trial.state == "pruned":
        return f"given up after epoch {len(trial.by_epoch)} with {f1}, {time}"
    return f"{f1}, {time}"


def _report(tuning: Tuning, trials: int, json: Path | None, data: str) -> None:
    """The figures, the scores on the test data, and all of it on the terminal; `data` is for the advice."""
    from fencepost.analysis.tuning import history, importance

    score = tuning.score()
    results = tuning.results
    told = {"tuning": str(tuning.out)}
    if tuning.ended:
        history(results["trials"], told).save(tuning.out)
    if results["importance"] is not None:
        importance(results["importance"], told).save(tuning.out)
    if json is not None:
        write_json(told | results, json)
    if json is not None and str(json) == "-":
        return
    from fencepost.cli.scores import print_scores, print_table, wide_console

    console = wide_console()
    if tuning.trials:
        _print_trials(console, tuning)
    if results["importance"] is not None:
        shares = [(key, f"{100 * share:.1f}") for key, share in results["importance"].items()]
        print_table(console, "Importance, in percent", ("setting", "share"), shares)
    if score is not None:
        print_scores(console, score, title="Strict scores of the best on the test data, in percent")
    for line in _end(tuning, trials, results["no_importance"], data):
        console.print(line, soft_wrap=True, markup=False)


def _print_trials(console: Console, tuning: Tuning) -> None:
    """With a column for each setting, or one for all where there is no room for that."""
    from fencepost.cli.scores import print_table

    best, names = tuning.best, _short(list(tuning.space))
    columns, rows = ["trial", "state", "dev F1", "epochs", "minutes"], list[list[str]]()
    values = [[_value(value) for value in trial.values.values()] for trial in tuning.trials]
    for trial in tuning.trials:
        mark = " best" if best is not None and best.number == trial.number else ""
        state = trial.state if trial.same_as is None else f"as {trial.same_as}"
        f1 = "" if trial.f1 is None else f"{100 * trial.f1:.2f}"
        rows.append(
            [f"{trial.number}{mark}", state, f1, str(len(trial.by_epoch)), f"{trial.seconds / 60:.1f}"]
        )
    wide = [columns + names, *(row + own for row, own in zip(rows, values, strict=True))]
    if sum(3 + max(len(row[place]) for row in wide) for place in range(len(wide[0]))) < console.width:
        print_table(console, "Trials", wide[0], wide[1:])
        return
    told = [" ".join(f"{name}={one}" for name, one in zip(names, own, strict=True)) for own in values]
    print_table(
        console, "Trials", [*columns, "settings"], [[*row, one] for row, one in zip(rows, told, strict=True)]
    )


def _value(value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{value:g}" if isinstance(value, float) else dumps(value)


def _short(keys: Sequence[str]) -> list[str]:
    """Each key by as many of its last parts as tell it from the others."""
    names = []
    for key in keys:
        parts = key.split(".")
        ends = (".".join(parts[-count:]) for count in range(1, len(parts) + 1))
        names.append(next(end for end in ends if sum(f".{one}".endswith(f".{end}") for one in keys) == 1))
    return names


def _end(tuning: Tuning, trials: int, no_importance: str | None, data: str) -> Iterator[str]:
    """What there is now, and what to do with it."""
    from fencepost.experiments.tuning import BEST_FILE, TRIALS_FILE

    best, ended = tuning.best, len(tuning.ended)
    if no_importance is not None:
        yield f"which settings matter cannot be said: {no_importance}"
    if ended < trials:
        yield f"{ended:,} of {trials:,} trials have ended; the same command goes on"
    yield f"the table as CSV is in {tuning.out / TRIALS_FILE}, with figures beside it"
    if best is not None:
        config = shlex.quote(str(tuning.out / BEST_FILE))
        yield (
            f"the best is trial {best.number} with dev F1 {100 * (best.f1 or 0.0):.2f}; its model is in "
            f"{tuning.folder(best.number)}"
        )
        yield f"to train with its settings: fencepost train --config {config} {data} --out MODEL"
