"""`fencepost train`: a model from an annotated corpus."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.cli.frame import Json, check_json_target, command, output_result, resumable
from fencepost.cli.options import ReadingOptions
from fencepost.cli.report import write_report
from fencepost.cli.scores import print_epochs, print_scores
from fencepost.cli.training_options import (
    SETTINGS,
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
from fencepost.errors import UsageError

if TYPE_CHECKING:
    from fencepost.config import Config
    from fencepost.data.entity import Sentence
    from fencepost.training import Outcome

_DATA = "Data"


Train = Annotated[str | None, option("--train", "The corpus to learn from.", _DATA, metavar="FILE")]
Dev = Annotated[
    str | None,
    option(
        "--dev", "Development data: its F1 after each epoch decides which one is kept.", _DATA, metavar="FILE"
    ),
]
DevShare = Annotated[
    float | None,
    option("--dev-share", "Instead: hold out this share of the training data, by document.", _DATA),
]
Test = Annotated[
    str | None, option("--test", "Data to score the model on at the end.", _DATA, metavar="FILE")
]
Out = Annotated[
    Path | None, option("--out", "The folder for the model; new or empty.", _DATA, metavar="FOLDER")
]
Resume = Annotated[
    bool, option("--resume", "Continue a run in --out that was interrupted, with the same data.", _DATA)
]
ShowConfig = Annotated[
    bool, option("--show-config", "Print all settings as YAML, as they would be used, and stop.", SETTINGS)
]
Seed = Annotated[int | None, option("--seed", "training.seed", SETTINGS)]
Report = Annotated[
    bool, option("--report/--no-report", "Whether to write a report, report.html, at the end.", _DATA)
]


@command("train")
def train(
    reading: ReadingOptions,
    train: Train = None,
    dev: Dev = None,
    dev_share: DevShare = None,
    test: Test = None,
    out: Out = None,
    resume: Resume = False,
    report: Report = True,
    method: MethodName = None,
    recipe: RecipeName = None,
    config: ConfigFile = None,
    changes: Set = None,
    show_config: ShowConfig = False,
    encoder: EncoderName = None,
    epochs: Epochs = None,
    batch_size: BatchSize = None,
    seed: Seed = None,
    json: Json = None,
) -> None:
    """Train a recogniser on an annotated corpus; the best epoch by development F1 is kept.

    Example: fencepost train --train train.conll --dev dev.conll --out my-model
    """
    check_json_target(json)
    if os.environ.get("RANK", "0") != "0":  # of several processes, only the first prints messages
        reading = replace(reading, quiet=True)
    flags: dict[str, dict[str, Any]] = {
        "method": {"name": method},
        "encoder": {"name": encoder},
        "training": {"epochs": epochs, "batch_size": batch_size, "seed": seed},
        "text": {"language": reading.language},
    }
    settings = settings_of(recipe, config, changes, flags, out if resume else None)
    if show_config:
        typer.echo(settings.to_yaml(), nl=False)
        return
    if train is None or out is None:
        raise UsageError("give the training data with --train and the folder for the model with --out")
    _check_sources(train, dev, dev_share, test)

    def read(path: str) -> list[Sentence]:
        return reading.read(path, settings.text.language)

    from fencepost import training
    from fencepost.training.learning import unknown_types

    training.check_folder(out, resume=resume)
    learnt = read(train)
    held: list[Sentence] | None = read(dev) if dev is not None else None
    if dev_share is not None:
        learnt, held = training.held_out(learnt, dev_share, settings.training.seed)
    tested = read(test) if test is not None else None
    reading.say(_plan(settings, learnt, held))
    for note in (*training.idle_settings(settings, learnt, held), *unknown_types(learnt, held, tested)):
        reading.say(note)

    def at_end(outcome: Outcome) -> None:
        _report(outcome, out, json)
        if report:
            write_report(outcome, out, learnt, held, tested, quiet=reading.quiet)

    with resumable("continue with the same command and --resume", out):
        training.train(settings, learnt, out, held, tested, resume=resume, quiet=reading.quiet, at_end=at_end)


def _check_sources(train: str, dev: str | None, dev_share: float | None, test: str | None) -> None:
    if dev is not None and dev_share is not None:
        raise UsageError("--dev and --dev-share contradict each other; give one of them")
    if [train, dev, test].count("-") > 1:
        raise UsageError("standard input can be read once, but it is named twice")
    if "-" in (train, dev, test) and os.environ.get("WORLD_SIZE", "1") != "1":
        raise UsageError("standard input can be read once, but each process reads the data; give files")


def _plan(settings: Config, learnt: list[Sentence], held: list[Sentence] | None) -> str:
    held_text = (
        f"{len(held):,} sentences decide which epoch is kept"
        if held is not None
        else "without development data (--dev, --dev-share) the last epoch is kept"
    )
    return (
        f"{settings.method.name} on {settings.encoder.name}: {settings.training.epochs} epochs over "
        f"{len(learnt):,} sentences; {held_text}"
    )


def _report(outcome: Outcome, out: Path, json: Path | None) -> None:
    """Output the results of the run, as tables and as JSON."""
    scores = {
        "model": str(out),
        "settings": outcome.model.settings.model_dump(mode="json"),
        "epochs": outcome.epochs,
        "kept": outcome.best,
        "calibration": outcome.calibration,
        "test": outcome.test.to_dict() if outcome.test else None,
    }

    def show() -> None:
        from rich.console import Console

        console = Console(highlight=False)
        if outcome.best is not None:
            print_epochs(console, outcome.epochs, outcome.best["epoch"])
        if outcome.calibration is not None:
            console.print(_calibration(outcome.calibration), soft_wrap=True, markup=False)
        if outcome.test is not None:
            print_scores(console, outcome.test, title="Strict scores on the test data, in percent")
        console.print(f"the model is in {out}", soft_wrap=True, markup=False)

    output_result(scores, json, show)


def _calibration(found: dict[str, float | None]) -> str:
    before, after = found["dev_ece_before"], found["dev_ece_after"]
    if before is None or after is None:
        return "calibration: none, since nothing is found in the development data"
    return (
        f"calibration: temperature {found['temperature']:.2f}, shift {found['shift']:z.2f}; "
        f"ECE on the development data {before:.3f} -> {after:.3f}"
    )
