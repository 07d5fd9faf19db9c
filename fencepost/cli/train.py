"""`fencepost train`: train a model on an annotated corpus."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fencepost.cli.frame import check_json_target, command, explain_resume, format_count, output_result
from fencepost.cli.groups import option
from fencepost.cli.models import resolve_model
from fencepost.cli.report import write_report
from fencepost.cli.scores import print_epochs, print_scores
from fencepost.cli.training_options import TrainingOptions
from fencepost.errors import UsageError, require_extra

if TYPE_CHECKING:
    from fencepost.cli.training_options import Parts
    from fencepost.config import Config
    from fencepost.data.entity import Sentence
    from fencepost.training import Outcome, Start


@dataclass(frozen=True, kw_only=True)
class RunOptions(TrainingOptions):
    """Options of one training run."""

    title = "Data"

    out: Path | None = option(None, "Folder for the model; new or empty.", metavar="FOLDER")
    resume: bool = option(False, "Continue an interrupted run in --out, with the same data.")
    report: bool = option(True, "Whether to write a report (report.html) at the end.", "--report/--no-report")


@dataclass(frozen=True, kw_only=True)
class TrainOptions(RunOptions):
    """Options of `fencepost train`."""

    title = "Data"

    from_: Path | None = option(
        None,
        "Start from the weights, types and settings of a trained model; new types are added.",
        "--from",
        metavar="MODEL",
    )
    old_test: str | None = option(
        None, "With --from: test data of that model, to measure how much the new one forgets.", metavar="FILE"
    )
    show_config: bool = option(
        False, "Print all settings of this command as YAML and exit.", panel="Settings"
    )


@command("train")
def train(options: TrainOptions) -> None:
    """Train a model on an annotated corpus, and keep the epoch with the best development F1.

    Example: fencepost train --train train.conll --dev dev.conll --out my-model
    """
    check_json_target(options.json)
    if os.environ.get("RANK", "0") != "0":  # only the first of several processes prints messages
        options = replace(options, quiet=True)
    start = _find_start(options)
    config = options.settings(
        resumed=options.out if options.resume else None,
        base=start.read_settings(options.method) if start else None,
    )
    if options.show_config:
        typer.echo(config.to_yaml(), nl=False)
        return
    out = options.check_sources(options.out, "the model")
    from fencepost import training

    training.check_folder(out, resume=options.resume)
    parts = options.read_data(config)
    if start is not None and options.old_test is not None:
        start = replace(start, test=options.read(options.old_test, config.text.model_dump()))
    announce_run(options, config, parts)
    with explain_resume("continue with the same command and --resume", out):
        training.train(
            config,
            parts[0],
            out,
            *parts[1:],
            resume=options.resume,
            quiet=options.quiet,
            at_end=partial(output_run, options, out, parts),
            device=options.device,
            start=start,
        )


def announce_run(options: RunOptions, config: Config, parts: Parts, soft: int = 0) -> None:
    """Print what is trained, and what to know about the settings and the data.

    `soft` is the number of sentences that are not annotated, and that a teacher annotates.
    """
    from fencepost.experiments.learning import find_unknown_types
    from fencepost.training import find_idle_settings

    sentences, dev, _ = parts
    options.say(_describe_plan(config, len(sentences) + soft, dev))
    for note in (*find_idle_settings(config, sentences, dev), *find_unknown_types(*parts)):
        options.say(note)


def output_run(options: RunOptions, out: Path, parts: Parts, outcome: Outcome) -> None:
    """Print the results of a run, and write its report."""
    _output_results(outcome, out, options.json)
    if options.report:
        write_report(outcome, out, *parts, quiet=options.quiet)


def _find_start(options: TrainOptions) -> Start | None:
    """Return the model to start from, or None without `--from`."""
    if options.from_ is None:
        if options.old_test is not None:
            raise UsageError("--old-test needs --from")
        return None
    if options.recipe is not None or options.config is not None:
        option = "--recipe" if options.recipe is not None else "--config"
        raise UsageError(f"{option} cannot be used with --from, whose model has its settings; use --set")
    with require_extra("train", "training"):
        from fencepost.training import Start
    return Start(Path(resolve_model(str(options.from_))))


def _describe_plan(config: Config, sentences: int, dev: list[Sentence] | None) -> str:
    selection = (
        f"the best epoch on {len(dev):,} development sentences is kept"
        if dev is not None
        else "without development data (--dev, --dev-share), the last epoch is kept"
    )
    epochs = format_count(config.training.count_epochs(sentences), "epoch")
    data = format_count(sentences, "sentence")
    return f"{config.method.name} on {config.encoder.name}: {epochs} over {data}; {selection}"


def _output_results(outcome: Outcome, out: Path, json: Path | None) -> None:
    """Print the results of the run as tables, and write them as JSON."""
    scores = {
        "model": str(out),
        "settings": outcome.model.config.model_dump(mode="json"),
        "epochs": outcome.epochs,
        "kept": outcome.best,
        "calibration": outcome.calibration,
        "test": outcome.test.to_dict() if outcome.test else None,
        "warnings": list(outcome.warnings),
        "forgetting": outcome.forgetting,
        **({} if outcome.raw_sentences is None else {"raw_sentences": dict(outcome.raw_sentences)}),
    }

    def show() -> None:
        from rich.console import Console

        console = Console(highlight=False)
        if outcome.best is not None:
            print_epochs(console, outcome.epochs, outcome.best["epoch"])
            if "dev_threshold" in outcome.best:
                console.print(_describe_threshold(outcome.best), soft_wrap=True, markup=False)
        if outcome.calibration is not None:
            console.print(_describe_calibration(outcome.calibration), soft_wrap=True, markup=False)
        if outcome.test is not None:
            print_scores(console, outcome.test, title="Strict scores on the test data, in percent")
        if outcome.forgetting is not None:
            console.print(_describe_forgetting(outcome.forgetting), soft_wrap=True, markup=False)
        if outcome.raw_sentences is not None:
            counts = "{used:,} of {drawn:,} raw sentences used, from {read:,} in the texts"
            console.print(counts.format(**outcome.raw_sentences))
        console.print(f"the model is in {out}", soft_wrap=True, markup=False)

    output_result(scores, json, show)
    for warning in outcome.warnings:
        typer.echo(f"warning: {warning}", err=True)


def _describe_threshold(best: dict[str, Any]) -> str:
    return (
        f"threshold: {best['dev_threshold']:.2f}, fitted on the development data: F1 "
        f"{100 * best['dev_f1']:.1f}, with the default threshold {100 * best['dev_f1_default_threshold']:.1f}"
    )


def _describe_forgetting(scores: dict[str, Any]) -> str:
    before, after = (100 * scores[name]["f1"] for name in ("before", "after"))
    return f"old test data: F1 {before:.1f} before, {after:.1f} now ({after - before:+.1f}), on the old types"


def _describe_calibration(result: dict[str, float | None]) -> str:
    before, after = result["dev_ece_before"], result["dev_ece_after"]
    if before is None or after is None:
        return "calibration: none, because the model predicts no entities in the development data"
    return (
        f"calibration: temperature {result['temperature']:.2f}, shift {result['shift']:z.2f}; "
        f"ECE on the development data {before:.3f} -> {after:.3f}"
    )
