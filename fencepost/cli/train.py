"""`fencepost train`: a model from an annotated corpus."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from fencepost.cli.frame import check_json_target, command, output_result, resumable
from fencepost.cli.report import write_report
from fencepost.cli.scores import print_epochs, print_scores
from fencepost.cli.training_options import TrainingOptions
from fencepost.errors import UsageError, require_extra

if TYPE_CHECKING:
    from fencepost.config import Config
    from fencepost.data.entity import Sentence
    from fencepost.training import Outcome, Start


@dataclass(frozen=True, kw_only=True)
class TrainOptions(TrainingOptions):
    """The options of a training."""

    title = "Data"

    out: Annotated[
        Path | None, Option("--out", metavar="FOLDER", help="The folder for the model; new or empty.")
    ] = None
    resume: Annotated[
        bool, Option("--resume", help="Continue a run in --out that was interrupted, with the same data.")
    ] = False
    from_: Annotated[
        Path | None,
        Option(
            "--from",
            metavar="MODEL",
            help="Start with the weights, types and settings of a trained model; new types are added.",
        ),
    ] = None
    old_test: Annotated[
        str | None,
        Option(
            "--old-test",
            metavar="FILE",
            help="With --from: test data of that model, to measure what the new one has forgotten.",
        ),
    ] = None
    report: Annotated[
        bool, Option("--report/--no-report", help="Whether to write a report, report.html, at the end.")
    ] = True
    show_config: Annotated[
        bool,
        Option(
            "--show-config",
            help="Print all settings as YAML, as they would be used, and stop.",
            rich_help_panel="Settings",
        ),
    ] = False


@command("train")
def train(options: TrainOptions) -> None:
    """Train a recogniser on an annotated corpus; the best epoch by development F1 is kept.

    Example: fencepost train --train train.conll --dev dev.conll --out my-model
    """
    check_json_target(options.json)
    if os.environ.get("RANK", "0") != "0":  # of several processes, only the first prints messages
        options = replace(options, quiet=True)
    start = _start(options)
    config = options.settings(
        resumed=options.out if options.resume else None,
        base=start.read_settings(options.method) if start else None,
    )
    if options.show_config:
        typer.echo(config.to_yaml(), nl=False)
        return
    out = options.check_sources(options.out, "the model")
    from fencepost import training
    from fencepost.training.learning import find_unknown_types

    training.check_folder(out, resume=options.resume)
    learnt, dev, test = options.read_data(config)
    if start is not None and options.old_test is not None:
        start = replace(start, test=options.read(options.old_test, config.text.model_dump()))
    options.say(_plan(config, learnt, dev))
    for note in (*training.find_idle_settings(config, learnt, dev), *find_unknown_types(learnt, dev, test)):
        options.say(note)

    def at_end(outcome: Outcome) -> None:
        _report(outcome, out, options.json)
        if options.report:
            write_report(outcome, out, learnt, dev, test, quiet=options.quiet)

    with resumable("continue with the same command and --resume", out):
        training.train(
            config,
            learnt,
            out,
            dev,
            test,
            resume=options.resume,
            quiet=options.quiet,
            at_end=at_end,
            device=options.device,
            start=start,
        )


def _start(options: TrainOptions) -> Start | None:
    """Return the model to start from, if there is one."""
    if options.from_ is None:
        if options.old_test is not None:
            raise UsageError("--old-test is about --from, which is missing")
        return None
    if options.recipe is not None or options.config is not None:
        given = "--recipe" if options.recipe is not None else "--config"
        raise UsageError(f"{given} contradicts --from, whose model has settings of its own; use --set")
    with require_extra("train", "training"):
        from fencepost.training import Start
    return Start(options.from_)


def _plan(settings: Config, learnt: list[Sentence], held: list[Sentence] | None) -> str:
    held_text = (
        f"{len(held):,} sentences decide which epoch is kept"
        if held is not None
        else "without development data (--dev, --dev-share) the last epoch is kept"
    )
    epochs = settings.training.count_epochs(len(learnt))
    return (
        f"{settings.method.name} on {settings.encoder.name}: {epochs} epochs over {len(learnt):,} sentences; "
        f"{held_text}"
    )


def _report(outcome: Outcome, out: Path, json: Path | None) -> None:
    """Output the results of the run, as tables and as JSON."""
    scores = {
        "model": str(out),
        "settings": outcome.model.config.model_dump(mode="json"),
        "epochs": outcome.epochs,
        "kept": outcome.best,
        "calibration": outcome.calibration,
        "test": outcome.test.to_dict() if outcome.test else None,
        "warnings": list(outcome.warnings),
        "forgetting": outcome.forgetting,
    }

    def show() -> None:
        from rich.console import Console

        console = Console(highlight=False)
        if outcome.best is not None:
            print_epochs(console, outcome.epochs, outcome.best["epoch"])
            if "dev_threshold" in outcome.best:
                console.print(_threshold(outcome.best), soft_wrap=True, markup=False)
        if outcome.calibration is not None:
            console.print(_calibration(outcome.calibration), soft_wrap=True, markup=False)
        if outcome.test is not None:
            print_scores(console, outcome.test, title="Strict scores on the test data, in percent")
        if outcome.forgetting is not None:
            console.print(_forgetting(outcome.forgetting), soft_wrap=True, markup=False)
        console.print(f"the model is in {out}", soft_wrap=True, markup=False)

    output_result(scores, json, show)
    for warning in outcome.warnings:
        typer.echo(f"warning: {warning}", err=True)


def _threshold(best: dict[str, Any]) -> str:
    return (
        f"threshold: {best['dev_threshold']:.2f}, fitted on the development data; F1 there "
        f"{100 * best['dev_f1']:.1f}, with the usual threshold {100 * best['dev_f1_usual_threshold']:.1f}"
    )


def _forgetting(found: dict[str, Any]) -> str:
    before, after = (100 * found[name]["f1"] for name in ("before", "after"))
    return f"old test data: F1 {before:.1f} before, {after:.1f} now ({after - before:+.1f}), of the old types"


def _calibration(found: dict[str, float | None]) -> str:
    before, after = found["dev_ece_before"], found["dev_ece_after"]
    if before is None or after is None:
        return "calibration: none, since nothing is found in the development data"
    return (
        f"calibration: temperature {found['temperature']:.2f}, shift {found['shift']:z.2f}; "
        f"ECE on the development data {before:.3f} -> {after:.3f}"
    )
