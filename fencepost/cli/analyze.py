"""`fencepost analyze`: figures and tables of the papers, and of errors, for any model.

Each command writes NAME.json, NAME.csv, NAME.png and NAME.svg.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.cli.analyses import (
    OUT_FOLDER,
    AnalysisOptions,
    Out,
    check_output,
    output_analysis,
    run_models,
    split_models,
    split_paths,
)
from fencepost.cli.frame import command, command_group
from fencepost.cli.groups import argument, option
from fencepost.cli.models import Threads, read_trained_lengths, use_threads
from fencepost.cli.prediction_sweep import combine_settings, score_settings
from fencepost.cli.progress import count_steps
from fencepost.cli.scores import make_console, print_reports
from fencepost.cli.scoring import Label, LabelOptions, collect_facts, name_models
from fencepost.errors import UsageError, require_extra
from fencepost.runtime.folder import read_saved_config

if TYPE_CHECKING:
    from fencepost.analysis.method_reports import Tables
    from fencepost.data.entity import Sentence

group = command_group("analyze", "Create the figures and tables of the papers, and of errors, for any model.")

Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="[MODEL...] DATA", help="Folders or names of models (default: the shipped one), and a corpus."
    ),
]


@dataclass(frozen=True, kw_only=True)
class LandscapeOptions(LabelOptions):
    """Options without an engine: a loss needs PyTorch."""

    limit: int | None = option(
        500, "Number of sentences of each corpus to use, from its start; 0 is all.", min=0
    )
    threads: Threads = None
    out: Out = OUT_FOLDER


@command("calibration", group)
def calibration(
    paths: Paths,
    options: AnalysisOptions,
    raw: bool = option(False, "Use the confidences of the networks, without the calibration of the models."),
) -> None:
    """Draw reliability diagrams in 10 bins, with the expected calibration error.

    Example: fencepost analyze calibration my-model test.conll
    """
    predictions = run_models("calibration", paths, options)
    from fencepost.analysis.calibration import analyze_calibration as analysis
    from fencepost.evaluation import match, reliability

    results = {}
    for label, predicted in predictions.predicted.items():
        if raw:
            predicted = _undo_calibration(predictions.models[label], predicted)
        entities = match(predictions.sentences, predicted).predicted
        results[label] = reliability(entities.score, entities.matched)
    output_analysis(analysis(results, {**predictions.facts, "raw": raw}), options.out)


def _undo_calibration(folder: str, sentences: Sequence[Sentence]) -> list[Sentence]:
    """Return the predictions of a model with the uncalibrated confidences of its network."""
    import numpy as np

    calibration = read_saved_config(Path(folder)).parse_calibration()
    scores = np.array([entity.score for sentence in sentences for entity in sentence.entities])
    raw = iter(calibration.undo(scores).tolist())
    return [s.with_entities(replace(entity, score=next(raw)) for entity in s.entities) for s in sentences]


@command("errors", group)
def errors(
    paths: Paths,
    options: AnalysisOptions,
    examples: int = option(5, "Number of examples of each kind of error in the JSON.", min=0),
) -> None:
    """Count the kinds of errors: boundaries, types, nesting levels, spurious and missed entities.

    Example: fencepost analyze errors my-model test.conll --out errors
    """
    predictions = run_models("errors", paths, options)
    from fencepost.analysis.errors import analyze_errors as analysis
    from fencepost.evaluation import classify_errors

    errors = {
        label: classify_errors(predictions.sentences, one) for label, one in predictions.predicted.items()
    }
    output_analysis(analysis(errors, predictions.sentences, predictions.facts, examples), options.out)


@command("lengths", group)
def lengths(paths: Paths, options: AnalysisOptions) -> None:
    """Show F1 by the length of entities, and mark span lengths that a model was not trained on.

    Example: fencepost analyze lengths my-model other-model test.conll
    """
    predictions = run_models("lengths", paths, options)
    from fencepost.analysis.lengths import analyze_lengths as analysis
    from fencepost.evaluation import evaluate

    results = {label: evaluate(predictions.sentences, one) for label, one in predictions.predicted.items()}
    trained = {label: read_trained_lengths(path) for label, path in predictions.models.items()}
    output_analysis(analysis(results, trained, predictions.facts), options.out)


@command("method", group)
def method(
    paths: Paths,
    options: AnalysisOptions,
    report: str | None = option(None, "Show only this report of the method.", metavar="NAME"),
) -> None:
    """Show what the method of a model reports about its steps, with files for each report.

    Example: fencepost analyze method my-model test.conll
    """
    models, data = split_paths("method", paths, options)
    with require_extra("train"):
        names = {label: _find_reports(path, report) for label, path in models.items()}
    for name in sorted({name for of_model in names.values() for name in of_model}):
        check_output(name, options.out)
    from fencepost.analysis.method_reports import analyze_reports as analysis

    sentences = options.read_sentences(list(models.values()), data)
    tables: dict[str, dict[str, Tables]] = {}
    engines: dict[str, str] = {}
    for label, path in models.items():
        recogniser = options.load(path)
        engines[label] = recogniser.engine
        reports = recogniser.make_reports(names[label])
        for _ in recogniser.predict(sentences, recogniser.watch_reports(reports)):
            pass
        for name, one in reports.items():
            tables.setdefault(name, {})[label] = one.tables()
    for name, by_label in tables.items():
        for label, of_model in by_label.items():
            print_reports(make_console(), label, of_model)
        of_report = {label: models[label] for label in by_label}
        facts = collect_facts(of_report, data, {label: engines[label] for label in by_label})
        output_analysis(analysis(name, by_label, facts), options.out)


def _find_reports(folder: str, report: str | None) -> list[str]:
    """Return the names of the reports of the model's method, or only that of `--report`."""
    from fencepost.methods.registry import METHODS

    name = read_saved_config(Path(folder)).parse_config().method.name
    names = list(METHODS[name].reports)
    if not names:
        raise UsageError(f"{folder}: the method {name} has no reports")
    if report is not None and report not in names:
        raise UsageError(
            f"{folder}: --report {report}: the method {name} has no such report; it has {', '.join(names)}"
        )
    return names if report is None else [report]


@command("settings", group)
def settings(
    paths: Paths,
    options: AnalysisOptions,
    sweep: list[str] | None = option(
        None,
        "Prediction setting and its values, for example steps=1,2,5; several settings are combined, and "
        "the first is the x axis.",
        metavar="KEY=V,V...",
    ),
) -> None:
    """Score models with several prediction settings; show F1 and speed of each combination.

    Example: fencepost analyze settings my-model dev.conll --sweep select=nested,keep-all
    """
    if not sweep:
        raise UsageError(
            "give settings and their values with --sweep, for example --sweep select=flat,nested"
        )
    models, data = split_paths("settings", paths, options)
    check_output("settings", options.out)
    from fencepost.analysis.settings import analyze_settings as analysis

    recognisers = {label: options.load(path) for label, path in models.items()}
    grids = {label: combine_settings(recognisers[label], path, sweep) for label, path in models.items()}
    sentences = options.read_sentences(list(models.values()), data)
    rows: dict[str, list[dict[str, Any]]] = {}
    try:
        for label, grid in grids.items():
            rows[label] = []
            for row in score_settings(grid, sentences, options.say):
                rows[label].append(row)
    finally:  # after Ctrl-C, save the finished combinations
        if any(rows.values()):
            keys = list(next(iter(grids.values()))[0][0])
            facts = collect_facts(models, data, {label: one.engine for label, one in recognisers.items()})
            output_analysis(analysis(rows, keys, facts), options.out)


@command("landscape", group)
def landscape(
    *,
    paths: list[str] = argument(
        "MODEL... DATA...", "Folders of one or more models, and one or more corpora."
    ),
    options: LandscapeOptions,
    points: int = option(51, "Number of points from -1 to 1, an odd number.", min=3),
    seed: int = option(1, "Seed of the random direction.", min=0),
) -> None:
    """Draw the loss along a random direction through the weights, on each corpus.

    Example: fencepost analyze landscape my-model train.conll dev.conll --points 21
    """
    models, corpora = split_models("landscape", paths, options.label)
    check_output("landscape", options.out)
    with require_extra("train"):
        from fencepost.analysis import landscape as analysis
        from fencepost.runtime.pytorch import load_model
    from fencepost.analysis.result import name_paths

    positions = analysis.make_points(points)
    names = name_paths([Path(path) for path in corpora])
    stems = [name.removesuffix(Path(name).suffix) for name in names]
    if len(set(stems)) == len(stems):  # corpus.train and corpus.dev keep their endings
        names = stems
    folders = list(models.values())
    data = {name: options.read_sentences(folders, path) for name, path in zip(names, corpora, strict=True)}
    losses = {}
    if options.threads is not None:
        use_threads(options.threads)
    for label, path in models.items():
        model = load_model(path)
        with count_steps(points, label, "the loss at {} points", quiet=options.quiet) as advance:
            losses[label] = analysis.compute_losses(model, data, positions, seed, advance)
    facts = collect_facts(models, corpora, dict.fromkeys(models, "pytorch"))
    output_analysis(
        analysis.analyze_landscape(
            losses, positions, {**facts, "seed": seed, "limit": options.limit or None}
        ),
        options.out,
    )


@command("curves", group)
def curves(
    runs: list[str] = argument("RUN...", "Folders of training runs: the --out of fencepost train."),
    out: Out = OUT_FOLDER,
    label: Label = None,
) -> None:
    """Draw the losses and the development F1 by epoch.

    Example: fencepost analyze curves my-model
    """
    folders = name_models(runs, label)
    check_output("curves", out)
    from fencepost.analysis.curves import analyze_curves as analysis
    from fencepost.analysis.epochs import read_epochs

    epochs = {name: read_epochs(Path(run)) for name, run in folders.items()}
    for name, run in folders.items():
        if not epochs[name]:
            raise UsageError(
                f"{run}: contains no records of a training run; give the --out of fencepost train"
            )
    output_analysis(analysis(epochs, {"folders": folders}), out)


@command("sweep", group)
def sweep(
    folder: str = argument("FOLDER", "Folder of a sweep: the --out of fencepost sweep."),
    over: str | None = option(
        None, "Setting on the x axis: a key of the grid, share or boundary_noise.", metavar="KEY"
    ),
    out: Out = OUT_FOLDER,
) -> None:
    """Show the F1 of a sweep by a setting, by the share of the training data or by its boundary noise.

    Example: fencepost analyze sweep my-sweep --over method.epsilon
    """
    check_output("sweep-f1", out)
    from fencepost.analysis.sweep import analyze_sweep as analysis

    output_analysis(analysis(_read_cells(Path(folder)), {"folder": folder}, over), out)


def _read_cells(folder: Path) -> list[dict[str, Any]]:
    try:
        cells = list(json.loads((folder / "sweep.json").read_text(encoding="utf-8"))["cells"])
        for cell in cells:  # fails for a file of another program
            _ = cell["settings"], cell["seeds"], cell["dev_f1"]["mean"], cell["test_f1"]["mean"]
    except OSError:
        raise UsageError(
            f"{folder}: not a sweep folder (it has no sweep.json); give the --out of fencepost sweep"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise UsageError(f"{folder / 'sweep.json'}: not a result of fencepost sweep") from None
    return cells
