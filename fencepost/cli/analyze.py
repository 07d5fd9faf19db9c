"""`fencepost analyze`: the papers' figures and tables, for any model, and where it fails.

Each writes NAME.json, NAME.csv, NAME.png and NAME.svg.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fencepost.cli.analyses import (
    OUT_FOLDER,
    AnalysisOptions,
    Out,
    check_output,
    judge,
    show,
    split,
    split_many,
)
from fencepost.cli.frame import command, command_group
from fencepost.cli.groups import argument, option
from fencepost.cli.judging import JudgingOptions, Label, facts_of, name_models
from fencepost.cli.models import Threads, trained_lengths, use_threads
from fencepost.cli.prediction_sweep import combine_settings, score_settings
from fencepost.cli.progress import count_to
from fencepost.cli.scores import print_reports, wide_console
from fencepost.errors import UsageError, require_extra
from fencepost.runtime.folder import read_saved_config

if TYPE_CHECKING:
    from fencepost.data.entity import Sentence
    from fencepost.methods.decoder import Row

group = command_group(
    "analyze", "Figures and tables as the papers have them, for any model, and where it fails."
)

Paths = Annotated[
    list[str],
    argument(
        "[MODEL...] DATA", "One or more models, or else the one that ships with the package; and a corpus."
    ),
]


@dataclass(frozen=True, kw_only=True)
class LandscapeOptions(JudgingOptions):
    """The same without an engine: a loss needs PyTorch."""

    limit: Annotated[
        int | None,
        option("--limit", "Number of sentences of each corpus, from the first; 0 is all.", min=0),
    ] = 500
    threads: Threads = None
    out: Out = OUT_FOLDER


@command("calibration", group)
def calibration(
    paths: Paths,
    options: AnalysisOptions,
    raw: Annotated[
        bool, option("--raw", "The confidences as the networks give them, without the models' calibration.")
    ] = False,
) -> None:
    """Draw reliability diagrams in 10 bins, with the expected calibration error.

    Example: fencepost analyze calibration my-model test.conll
    """
    judged = judge("calibration", paths, options)
    from fencepost.analysis.calibration import analyze_calibration as analysis
    from fencepost.evaluation import match, reliability

    results = {}
    for label, predicted in judged.predicted.items():
        if raw:
            predicted = _without_calibration(judged.models[label], predicted)
        found = match(judged.sentences, predicted).predicted
        results[label] = reliability(found.score, found.matched)
    show(analysis(results, {**judged.facts, "raw": raw}), options.out)


def _without_calibration(folder: str, sentences: Sequence[Sentence]) -> list[Sentence]:
    """Return predictions of a model with the confidences of its network."""
    import numpy as np

    calibration = read_saved_config(Path(folder)).parse_calibration()
    scores = np.array([entity.score for sentence in sentences for entity in sentence.entities])
    own = iter(calibration.undo(scores).tolist())
    return [s.with_entities(replace(entity, score=next(own)) for entity in s.entities) for s in sentences]


@command("errors", group)
def errors(
    paths: Paths,
    options: AnalysisOptions,
    examples: Annotated[int, option("--examples", "Examples of each kind in the JSON.", min=0)] = 5,
) -> None:
    """Sort every mistake by its kind: boundaries, types, levels of nesting, spurious, missed.

    Example: fencepost analyze errors my-model test.conll --out errors
    """
    judged = judge("errors", paths, options)
    from fencepost.analysis.errors import analyze_errors as analysis
    from fencepost.evaluation import classify_errors

    found = {label: classify_errors(judged.sentences, one) for label, one in judged.predicted.items()}
    show(analysis(found, judged.sentences, judged.facts, examples), options.out)


@command("lengths", group)
def lengths(paths: Paths, options: AnalysisOptions) -> None:
    """Show F1 by the length of entities; lengths of spans that a method is not trained on are marked.

    Example: fencepost analyze lengths my-model other-model test.conll
    """
    judged = judge("lengths", paths, options)
    from fencepost.analysis.lengths import analyze_lengths as analysis
    from fencepost.evaluation import evaluate

    results = {label: evaluate(judged.sentences, one) for label, one in judged.predicted.items()}
    trained = {label: trained_lengths(path) for label, path in judged.models.items()}
    show(analysis(results, trained, judged.facts), options.out)


@command("method", group)
def method(
    paths: Paths,
    options: AnalysisOptions,
    report: Annotated[
        str | None, option("--report", "Only this report of the method.", metavar="NAME")
    ] = None,
) -> None:
    """Show what a model's method reports about its own steps; each report has files of its own.

    Example: fencepost analyze method my-model test.conll
    """
    models, data = split("method", paths, options)
    with require_extra("train"):
        names = {label: _reports_of(path, report) for label, path in models.items()}
    for name in sorted({name for of_model in names.values() for name in of_model}):
        check_output(name, options.out)
    from fencepost.analysis.method_reports import analyze_reports as analysis

    sentences = options.read_for(list(models.values()), data)
    tables: dict[str, dict[str, Tables]] = {}
    engines: dict[str, str] = {}
    for label, path in models.items():
        recogniser = options.load(path)
        engines[label] = recogniser.engine
        reports = recogniser.make_reports(names[label])
        for _ in recogniser.predict(sentences, recogniser.watch_reports(reports)):
            pass
        for name, filled in reports.items():
            tables.setdefault(name, {})[label] = filled.tables()
    for name, by_label in tables.items():
        for label, of_model in by_label.items():
            print_reports(wide_console(), label, of_model)
        of_report = {label: models[label] for label in by_label}
        facts = facts_of(of_report, data, {label: engines[label] for label in by_label})
        show(analysis(name, by_label, facts), options.out)


Tables = dict[str, dict[str, "Row"]]
"""By title, the rows of a table by name."""


def _reports_of(folder: str, chosen: str | None) -> list[str]:
    """Return the names of the reports that the method of the model in this folder declares."""
    from fencepost.methods.registry import METHODS

    name = read_saved_config(Path(folder)).parse_config().method.name
    declared = list(METHODS[name].reports)
    if not declared:
        raise UsageError(f"{folder}: the method {name} has no reports of its own")
    if chosen is not None and chosen not in declared:
        listed = ", ".join(declared)
        raise UsageError(
            f"{folder}: --report {chosen}: the method {name} has no such report; it has {listed}"
        )
    return declared if chosen is None else [chosen]


@command("settings", group)
def settings(
    paths: Paths,
    options: AnalysisOptions,
    sweep: Annotated[
        list[str] | None,
        option(
            "--sweep",
            "Settings of prediction and their values, as steps=1,2,5; of several settings, all combinations. "
            "The first one is the x axis.",
            metavar="KEY=V,V...",
        ),
    ] = None,
) -> None:
    """Score models with several settings of prediction: F1 and speed of each combination.

    Example: fencepost analyze settings my-model dev.conll --sweep select=nested,keep-all
    """
    if not sweep:
        raise UsageError(
            "give settings and their values with --sweep, for example --sweep select=flat,nested"
        )
    models, data = split("settings", paths, options)
    check_output("settings", options.out)
    from fencepost.analysis.settings import analyze_settings as analysis

    loaded = {label: options.load(path) for label, path in models.items()}
    grids = {label: combine_settings(loaded[label], path, sweep) for label, path in models.items()}
    sentences = options.read_for(list(models.values()), data)
    rows: dict[str, list[dict[str, Any]]] = {}
    try:
        for label, grid in grids.items():
            rows[label] = []
            for row in score_settings(grid, sentences, options.say):
                rows[label].append(row)
    finally:  # after Ctrl-C, what is done is saved
        if any(rows.values()):
            keys = list(next(iter(grids.values()))[0][0])
            facts = facts_of(models, data, {label: one.engine for label, one in loaded.items()})
            show(analysis(rows, keys, facts), options.out)


@command("landscape", group)
def landscape(
    paths: Annotated[list[str], argument("MODEL... DATA...", "One or more models, and one or more corpora.")],
    options: LandscapeOptions,
    points: Annotated[int, option("--points", "Number of points from -1 to 1; odd.", min=3)] = 51,
    seed: Annotated[int, option("--seed", "Seed of the random direction.", min=0)] = 1,
) -> None:
    """Draw the loss along a random direction through the weights, on each corpus.

    Example: fencepost analyze landscape my-model train.conll dev.conll --points 21
    """
    models, corpora = split_many("landscape", paths, options.label)
    check_output("landscape", options.out)
    with require_extra("train"):
        from fencepost.analysis import landscape as analysis
        from fencepost.runtime.pytorch import load_model
    from fencepost.analysis.result import name_paths

    places = analysis.make_points(points)
    names = name_paths([Path(path) for path in corpora])
    stems = [name.removesuffix(Path(name).suffix) for name in names]
    if len(set(stems)) == len(stems):  # corpus.train and corpus.dev keep their endings
        names = stems
    folders = list(models.values())
    data = {name: options.read_for(folders, path) for name, path in zip(names, corpora, strict=True)}
    losses = {}
    if options.threads is not None:
        use_threads(options.threads)
    for label, path in models.items():
        model = load_model(path)
        with count_to(points, label, "the loss at {} points", quiet=options.quiet) as advance:
            losses[label] = analysis.compute_losses(model, data, places, seed, advance)
    facts = facts_of(models, corpora, dict.fromkeys(models, "pytorch"))
    show(
        analysis.analyze_landscape(losses, places, {**facts, "seed": seed, "limit": options.limit or None}),
        options.out,
    )


@command("curves", group)
def curves(
    runs: Annotated[list[str], argument("RUN...", "Folders that fencepost train wrote.")],
    out: Out = OUT_FOLDER,
    label: Label = None,
) -> None:
    """Draw the losses, and F1 on the development data, by epoch.

    Example: fencepost analyze curves my-model
    """
    named = name_models(runs, label)
    check_output("curves", out)
    from fencepost.analysis.curves import analyze_curves as analysis
    from fencepost.analysis.epochs import read_epochs

    epochs = {name: read_epochs(Path(run)) for name, run in named.items()}
    for name, run in named.items():
        if not epochs[name]:
            raise UsageError(
                f"{run}: there are no records of a training here; give the --out of a fencepost train"
            )
    show(analysis(epochs, {"folders": named}), out)


@command("sweep", group)
def sweep(
    folder: Annotated[str, argument("FOLDER", "The --out of a fencepost sweep.")],
    over: Annotated[
        str | None,
        option("--over", "The x axis: a key of the grid, share or boundary_noise.", metavar="KEY"),
    ] = None,
    out: Out = OUT_FOLDER,
) -> None:
    """Show F1 by a setting, by the share of the training data or by the noise in it, of a finished sweep.

    Example: fencepost analyze sweep my-sweep --over method.epsilon
    """
    check_output("sweep-f1", out)
    from fencepost.analysis.sweep import analyze_sweep as analysis

    show(analysis(_read_cells(Path(folder)), {"folder": folder}, over), out)


def _read_cells(folder: Path) -> list[dict[str, Any]]:
    try:
        cells = list(json.loads((folder / "sweep.json").read_text(encoding="utf-8"))["cells"])
        for cell in cells:  # fails for a file of another program
            _ = cell["settings"], cell["seeds"], cell["dev_f1"]["mean"], cell["test_f1"]["mean"]
    except OSError:
        raise UsageError(
            f"{folder}: there is no sweep here (no sweep.json); give the --out of a fencepost sweep"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise UsageError(f"{folder / 'sweep.json'}: this is not the result of a fencepost sweep") from None
    return cells
