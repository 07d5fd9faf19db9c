"""`fencepost analyze`: the papers' figures and tables, for any model, and where it fails.

Each writes NAME.json, NAME.csv, NAME.png and NAME.svg.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.cli.frame import OUTPUT, command, command_group
from fencepost.cli.judging import JudgingOptions, Label, ScoringOptions, facts_of, is_model, labels_of
from fencepost.cli.models import Threads, load_model, trained_lengths
from fencepost.cli.prediction_sweep import combine_settings, score_settings
from fencepost.cli.progress import count_to
from fencepost.cli.scores import print_reports, print_table, wide_console
from fencepost.errors import UsageError, require_extra
from fencepost.runtime.folder import read_saved_config

if TYPE_CHECKING:
    from fencepost.analysis.result import Analysis
    from fencepost.data.entity import Sentence
    from fencepost.methods.model import Model
    from fencepost.methods.network import Row

group = command_group(
    "analyze", "Figures and tables as the papers have them, for any model, and where it fails."
)

Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="[MODEL...] DATA",
        help="One or more models, or else the one that ships with the package; and a corpus.",
    ),
]
ManyPaths = Annotated[
    list[str],
    typer.Argument(metavar="MODEL... DATA...", help="One or more models, and one or more corpora."),
]
Runs = Annotated[list[str], typer.Argument(metavar="RUN...", help="Folders that fencepost train wrote.")]
SweepFolder = Annotated[str, typer.Argument(metavar="FOLDER", help="The --out of a fencepost sweep.")]
Over = Annotated[
    str | None,
    typer.Option("--over", metavar="KEY", help="The x axis: a key of the grid, share or boundary_noise."),
]
Out = Annotated[
    Path,
    typer.Option(
        "--out",
        metavar="FOLDER",
        help="The folder for the JSON, CSV, PNG and SVG files.",
        rich_help_panel=OUTPUT,
    ),
]
Raw = Annotated[
    bool,
    typer.Option("--raw", help="The confidences as the networks give them, without the models' calibration."),
]
Examples = Annotated[int, typer.Option("--examples", min=0, help="Examples of each kind in the JSON.")]
Points = Annotated[int, typer.Option("--points", min=3, help="Number of points from -1 to 1; odd.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of the random direction.")]
ReportName = Annotated[
    str | None, typer.Option("--report", metavar="NAME", help="Only this report of the method.")
]
Swept = Annotated[
    list[str] | None,
    typer.Option(
        "--sweep",
        metavar="KEY=V,V...",
        help="Settings of prediction and their values, as steps=1,2,5; of several settings, all "
        "combinations. The first one is the x axis.",
    ),
]

_OUT = Path("analysis")


@dataclass(frozen=True, kw_only=True)
class AnalysisOptions(ScoringOptions):
    """The options of all analyses of models on a corpus."""

    out: Out = _OUT


@dataclass(frozen=True, kw_only=True)
class LandscapeOptions(JudgingOptions):
    """The same without an engine: a loss needs PyTorch."""

    limit: Annotated[
        int | None,
        typer.Option("--limit", min=0, help="Only the first sentences of each corpus, this many; 0 is all."),
    ] = 500
    threads: Threads = None
    out: Out = _OUT


@dataclass(frozen=True)
class Judged:
    """What models find in a corpus, by label."""

    models: Mapping[str, str]
    sentences: list[Sentence]
    predicted: Mapping[str, list[Sentence]]
    facts: dict[str, Any]


def _judge(name: str, paths: Sequence[str], options: AnalysisOptions) -> Judged:
    """Run the models on the corpus, after a check that the analysis can be drawn and saved."""
    models, data = _split(name, paths, options)
    _check_output(name, options.out)
    sentences = options.read_for(list(models.values()), data)
    runs = {label: options.run_model(path, sentences) for label, path in models.items()}
    facts = facts_of(models, data, {label: run.engine for label, run in runs.items()})
    return Judged(models, sentences, {label: run.predicted for label, run in runs.items()}, facts)


@command("calibration", group)
def calibration(paths: Paths, options: AnalysisOptions, raw: Raw = False) -> None:
    """Draw reliability diagrams in 10 bins, with the expected calibration error.

    Example: fencepost analyze calibration my-model test.conll
    """
    judged = _judge("calibration", paths, options)
    from fencepost.analysis.calibration import calibration as analysis
    from fencepost.evaluation import match, reliability

    results = {}
    for label, predicted in judged.predicted.items():
        if raw:
            predicted = _without_calibration(judged.models[label], predicted)
        found = match(judged.sentences, predicted).predicted
        results[label] = reliability(found.score, found.matched)
    _show(analysis(results, {**judged.facts, "raw": raw}), options.out)


def _without_calibration(folder: str, sentences: Sequence[Sentence]) -> list[Sentence]:
    """Return predictions of a model with the confidences of its network."""
    import numpy as np

    from fencepost.runtime.engine import calibration_of

    calibration = calibration_of(read_saved_config(Path(folder)), Path(folder))
    scores = np.array([entity.score for sentence in sentences for entity in sentence.entities])
    own = iter(calibration.undo(scores).tolist())
    return [s.with_entities(replace(entity, score=next(own)) for entity in s.entities) for s in sentences]


@command("errors", group)
def errors(paths: Paths, options: AnalysisOptions, examples: Examples = 5) -> None:
    """Sort every mistake by its kind: boundaries, types, levels of nesting, spurious, missed.

    Example: fencepost analyze errors my-model test.conll --out errors
    """
    judged = _judge("errors", paths, options)
    from fencepost.analysis.errors import errors as analysis
    from fencepost.evaluation import mistakes

    found = {label: mistakes(judged.sentences, one) for label, one in judged.predicted.items()}
    _show(analysis(found, judged.sentences, judged.facts, examples), options.out)


@command("lengths", group)
def lengths(paths: Paths, options: AnalysisOptions) -> None:
    """Show F1 by the length of entities; lengths of spans that a method is not trained on are marked.

    Example: fencepost analyze lengths my-model other-model test.conll
    """
    judged = _judge("lengths", paths, options)
    from fencepost.analysis.lengths import lengths as analysis
    from fencepost.evaluation import evaluate

    results = {label: evaluate(judged.sentences, one) for label, one in judged.predicted.items()}
    trained = {label: trained_lengths(path) for label, path in judged.models.items()}
    _show(analysis(results, trained, judged.facts), options.out)


@command("method", group)
def method(paths: Paths, options: AnalysisOptions, report: ReportName = None) -> None:
    """Show what a model's method reports about its own steps; each report has files of its own.

    Example: fencepost analyze method my-model test.conll
    """
    models, data = _split("method", paths, options)
    with require_extra("train"):
        names = {label: _reports_of(path, report) for label, path in models.items()}
    for name in sorted({name for of_model in names.values() for name in of_model}):
        _check_output(name, options.out)
    from fencepost.analysis.stages import stages as analysis

    sentences = options.read_for(list(models.values()), data)
    tables: dict[str, dict[str, Tables]] = {}
    for label, path in models.items():
        filled = _fill_reports(options.load_model(path), names[label], sentences)
        for name, of_model in filled.items():
            tables.setdefault(name, {})[label] = of_model
    for name, by_label in tables.items():
        for label, of_model in by_label.items():
            print_reports(wide_console(), label, of_model)
        facts = facts_of(
            {label: models[label] for label in by_label}, data, dict.fromkeys(by_label, "pytorch")
        )
        _show(analysis(name, by_label, facts), options.out)


Tables = dict[str, dict[str, "Row"]]
"""By title, the rows of a table by name."""


def _reports_of(folder: str, chosen: str | None) -> list[str]:
    """Return the names of the reports that the method of the model in this folder declares."""
    from fencepost.methods.model import read_config
    from fencepost.methods.networks import METHODS

    name = read_config(Path(folder))[0].method.name
    declared = list(METHODS[name].reports)
    if not declared:
        raise UsageError(f"{folder}: the method {name} has no reports of its own")
    if chosen is not None and chosen not in declared:
        listed = ", ".join(declared)
        raise UsageError(
            f"{folder}: --report {chosen}: the method {name} has no such report; it has {listed}"
        )
    return declared if chosen is None else [chosen]


def _fill_reports(model: Model, names: Sequence[str], sentences: Sequence[Sentence]) -> dict[str, Tables]:
    """Return the tables of these reports on what the model predicts."""
    reports = {name: model.report(name) for name in names}

    def watch(batch: Sequence[Sentence], _: Any, scores: Any, gold: Any) -> None:
        for report in reports.values():
            report.add(batch, scores, gold)

    for _ in model.predict(sentences, watch):
        pass
    return {name: report.tables() for name, report in reports.items()}


@command("settings", group)
def settings(paths: Paths, options: AnalysisOptions, sweep: Swept = None) -> None:
    """Score models with several settings of prediction: F1 and speed of each combination.

    Example: fencepost analyze settings my-model dev.conll --sweep select=nested,keep-all
    """
    if not sweep:
        raise UsageError(
            "give settings and their values with --sweep, for example --sweep select=flat,nested"
        )
    models, data = _split("settings", paths, options)
    _check_output("settings", options.out)
    from fencepost.analysis.sampling import sampling as analysis

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
            _show(analysis(rows, keys, facts), options.out)


@command("landscape", group)
def landscape(paths: ManyPaths, options: LandscapeOptions, points: Points = 51, seed: Seed = 1) -> None:
    """Draw the loss along a random direction through the weights, on each corpus.

    Example: fencepost analyze landscape my-model train.conll dev.conll --points 21
    """
    models, corpora = _split_many("landscape", paths, options.label)
    _check_output("landscape", options.out)
    with require_extra("train"):
        from fencepost.analysis import landscape as analysis
    from fencepost.analysis.result import named

    places = analysis.points(points)
    names = named([Path(path) for path in corpora])
    stems = [name.removesuffix(Path(name).suffix) for name in names]
    if len(set(stems)) == len(stems):  # corpus.train and corpus.dev keep their endings
        names = stems
    folders = list(models.values())
    data = {name: options.read_for(folders, path) for name, path in zip(names, corpora, strict=True)}
    losses = {}
    for label, path in models.items():
        model = load_model(path, None, options.threads)
        with count_to(points, label, "the loss at {} points", quiet=options.quiet) as advance:
            losses[label] = analysis.losses_along(model, data, places, seed, advance)
    facts = facts_of(models, corpora, dict.fromkeys(models, "pytorch"))
    _show(
        analysis.landscape(losses, places, {**facts, "seed": seed, "limit": options.limit or None}),
        options.out,
    )


@command("curves", group)
def curves(runs: Runs, out: Out = _OUT, label: Label = None) -> None:
    """Draw the losses, and F1 on the development data, by epoch.

    Example: fencepost analyze curves my-model
    """
    labels = labels_of(runs, label)
    _check_output("curves", out)
    from fencepost.analysis.curves import curves as analysis
    from fencepost.analysis.epochs import read_epochs

    epochs = {name: read_epochs(Path(run)) for name, run in zip(labels, runs, strict=True)}
    for run, of_run in zip(runs, epochs.values(), strict=True):
        if not of_run:
            raise UsageError(
                f"{run}: there are no records of a training here; give the --out of a fencepost train"
            )
    _show(analysis(epochs, {"folders": dict(zip(labels, runs, strict=True))}), out)


@command("sweep", group)
def sweep(folder: SweepFolder, over: Over = None, out: Out = _OUT) -> None:
    """Show F1 by a setting, by the share of the training data or by the noise in it, of a finished sweep.

    Example: fencepost analyze sweep my-sweep --over method.epsilon
    """
    _check_output("sweep-f1", out)
    from fencepost.analysis.sweep import sweep as analysis

    _show(analysis(_read_cells(Path(folder)), {"folder": folder}, over), out)


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


def _split(name: str, paths: Sequence[str], options: AnalysisOptions) -> tuple[dict[str, str], str]:
    """Return the models by label, or else the model that ships, and the corpus."""
    if len(paths) == 1 and not is_model(paths[0]):
        from fencepost.runtime.loading import SHIPPED

        paths = [str(SHIPPED), *paths]
    models, corpora = _split_many(name, paths, options.label)
    if len(corpora) > 1:
        raise UsageError(
            f"one corpus is needed, and there are {len(corpora)}: {', '.join(corpora)} (a model is a folder "
            f"with a config.json); write fencepost analyze {name} MODEL... DATA"
        )
    return models, corpora[0]


def _split_many(
    name: str, paths: Sequence[str], label: Sequence[str] | None
) -> tuple[dict[str, str], list[str]]:
    """Return the models by label, and the corpora."""
    models = [path for path in paths if is_model(path)]
    corpora = [path for path in paths if not is_model(path)]
    if not models:
        raise UsageError(
            f"{paths[0]}: there is no model here (a model is a folder with a config.json); write "
            f"fencepost analyze {name} MODEL... DATA"
        )
    if not corpora:
        raise UsageError(f"which data? Write fencepost analyze {name} MODEL... DATA")
    return dict(zip(labels_of(models, label), models, strict=True)), corpora


def _check_output(name: str, out: Path) -> None:
    """Refuse before any work what cannot be saved, or drawn without matplotlib."""
    from fencepost.analysis.result import check_target

    check_target(out, name)
    with require_extra("train"):
        import matplotlib as mpl

    mpl.use("agg")


def _show(analysis: Analysis, out: Path) -> None:
    """Save an analysis, and print its table, the engines and the names of the files."""
    paths = analysis.save(out)
    console = wide_console()
    if analysis.summary is not None:
        print_table(console, analysis.name.capitalize(), analysis.summary.columns, analysis.summary.rows)
    engines = analysis.told.get("engines", {})
    if engines:
        listed = ", ".join(f"{label} ({engine})" for label, engine in engines.items())
        console.print(f"engine: {listed}", soft_wrap=True, markup=False)
    names = ", ".join(path.name for path in paths)
    console.print(f"written to {out}: {names}", soft_wrap=True, markup=False)
