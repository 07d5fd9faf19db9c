"""`fencepost analyze`: the papers' figures and tables, for any model; and where it fails.

Each writes NAME.json, NAME.csv, NAME.png and NAME.svg.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.cli.frame import Quiet, command, command_group, say
from fencepost.cli.judged import (
    Engine,
    Label,
    Limit,
    Source,
    is_model,
    labels_of,
    predictions,
    told_of,
    without_calibration,
)
from fencepost.cli.models import Changes, Threads, load_model, training_installed
from fencepost.cli.options import FormatName, SkipInvalid, reads_corpora
from fencepost.errors import UsageError

if TYPE_CHECKING:
    from fencepost.analysis.result import Analysis
    from fencepost.data import ReadOptions
    from fencepost.methods.model import Model

group = command_group(
    "analyze", "Figures and tables as the papers have them, for any model, and where it fails."
)


PathsOrData = Annotated[
    list[str],
    typer.Argument(
        metavar="[MODEL...] DATA",
        help="One or more models, unless the one that ships is meant; and a corpus.",
    ),
]
Paths = Annotated[
    list[str], typer.Argument(metavar="MODEL... DATA", help="One or more models, and a corpus.")
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
    Path, typer.Option("--out", metavar="FOLDER", help="Where the JSON, CSV, PNG and SVG files go.")
]
Raw = Annotated[
    bool,
    typer.Option("--raw", help="The confidences as the networks give them, without the models' calibration."),
]
Examples = Annotated[int, typer.Option("--examples", min=0, help="So many of each kind go into the JSON.")]
Points = Annotated[int, typer.Option("--points", min=3, help="So many, from -1 to 1; an odd number.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Of the random direction.")]
LandscapeLimit = Annotated[
    int,
    typer.Option("--limit", min=0, help="Only the first so many sentences of each corpus; 0 is all."),
]
SweptSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--sweep",
        metavar="KEY=V,V...",
        help="Settings of prediction and their values; the first one is the x axis.",
    ),
]

_OUT = Path("analysis")


@command("calibration", group)
@reads_corpora
def calibration(
    options: ReadOptions,
    paths: PathsOrData,
    out: Out = _OUT,
    raw: Raw = False,
    label: Label = None,
    limit: Limit = None,
    engine: Engine = "auto",
    changes: Changes = None,
    threads: Threads = None,
    format: FormatName = None,  # noqa: A002
    skip_invalid: SkipInvalid = False,
    quiet: Quiet = False,
) -> None:
    """Reliability diagrams in 10 bins, and the expected calibration error."""
    models, data = _split(paths, out, "calibration", shipped=True)
    labels = labels_of(models, label)
    with _needed():
        from fencepost.analysis.calibration import calibration as analysis
    from fencepost.evaluation import match, reliability

    sentences = Source(models, options, format, skip_invalid, quiet).read(data, limit)
    predicted = predictions(models, sentences, engine, changes, threads, quiet=quiet)
    if raw:
        predicted = [without_calibration(*pair) for pair in zip(models, predicted, strict=True)]
    found = [match(sentences, of_model).predicted for of_model in predicted]
    results = {n: reliability(one.score, one.matched) for n, one in zip(labels, found, strict=True)}
    _tell(analysis(results, {**told_of(models, labels, data), "raw": raw}), out)


@command("errors", group)
@reads_corpora
def errors(
    options: ReadOptions,
    paths: PathsOrData,
    out: Out = _OUT,
    examples: Examples = 5,
    label: Label = None,
    limit: Limit = None,
    engine: Engine = "auto",
    changes: Changes = None,
    threads: Threads = None,
    format: FormatName = None,  # noqa: A002
    skip_invalid: SkipInvalid = False,
    quiet: Quiet = False,
) -> None:
    """Every mistake by its kind: boundaries, types, levels of nesting, spurious, missed."""
    models, data = _split(paths, out, "errors", shipped=True)
    labels = labels_of(models, label)
    with _needed():
        from fencepost.analysis.errors import errors as analysis
    from fencepost.evaluation import mistakes

    sentences = Source(models, options, format, skip_invalid, quiet).read(data, limit)
    predicted = predictions(models, sentences, engine, changes, threads, quiet=quiet)
    found = {name: mistakes(sentences, one) for name, one in zip(labels, predicted, strict=True)}
    _tell(analysis(found, sentences, told_of(models, labels, data), examples), out)


@command("lengths", group)
@reads_corpora
def lengths(
    options: ReadOptions,
    paths: PathsOrData,
    out: Out = _OUT,
    label: Label = None,
    limit: Limit = None,
    engine: Engine = "auto",
    changes: Changes = None,
    threads: Threads = None,
    format: FormatName = None,  # noqa: A002
    skip_invalid: SkipInvalid = False,
    quiet: Quiet = False,
) -> None:
    """F1 by the length of entities; lengths that training does not go through are marked."""
    models, data = _split(paths, out, "lengths", shipped=True)
    labels = labels_of(models, label)
    with _needed():
        from fencepost.analysis.lengths import lengths as analysis
        from fencepost.methods.model import read_config
    from fencepost.evaluation import evaluate

    sentences = Source(models, options, format, skip_invalid, quiet).read(data, limit)
    predicted = predictions(models, sentences, engine, changes, threads, quiet=quiet)
    results = {name: evaluate(sentences, one) for name, one in zip(labels, predicted, strict=True)}
    trained = {
        name: read_config(Path(model))[0].method.trained_lengths()
        for name, model in zip(labels, models, strict=True)
    }
    _tell(analysis(results, trained, told_of(models, labels, data)), out)


@command("offsets", group)
@reads_corpora
def offsets(
    options: ReadOptions,
    paths: Paths,
    out: Out = _OUT,
    label: Label = None,
    limit: Limit = None,
    changes: Changes = None,
    threads: Threads = None,
    format: FormatName = None,  # noqa: A002
    skip_invalid: SkipInvalid = False,
    quiet: Quiet = False,
) -> None:
    """Scores by offset label, and by way of decoding (method boundary-offset)."""
    source = Source(paths, options, format, skip_invalid, quiet)
    _method_report("offsets", "by-offset", paths, source, label, limit, changes, threads, out)


@command("stages", group)
@reads_corpora
def stages(
    options: ReadOptions,
    paths: Paths,
    out: Out = _OUT,
    label: Label = None,
    limit: Limit = None,
    changes: Changes = None,
    threads: Threads = None,
    format: FormatName = None,  # noqa: A002
    skip_invalid: SkipInvalid = False,
    quiet: Quiet = False,
) -> None:
    """Spans that each stage leaves, and how far boundaries move (method locate-and-label)."""
    source = Source(paths, options, format, skip_invalid, quiet)
    _method_report("stages", "stages", paths, source, label, limit, changes, threads, out)


@command("sampling", group)
@reads_corpora
def sampling(
    options: ReadOptions,
    paths: Paths,
    sweep: SweptSettings = None,
    out: Out = _OUT,
    label: Label = None,
    limit: Limit = None,
    changes: Changes = None,
    threads: Threads = None,
    format: FormatName = None,  # noqa: A002
    skip_invalid: SkipInvalid = False,
    quiet: Quiet = False,
) -> None:
    """F1 and speed by settings of prediction: unless told, by denoising steps and sampled spans."""
    models, data = _split(paths, out, "sampling")
    labels = labels_of(models, label)
    axes = sweep or ["steps=1,2,5,10", "spans=20,60,120"]
    with _needed():
        from fencepost.analysis.sampling import sampling as analysis
    from fencepost.cli.prediction_sweep import combinations, swept

    loaded = [load_model(model, changes, threads) for model in models]
    grids = [combinations(model, axes) for model in loaded]
    sentences = Source(models, options, format, skip_invalid, quiet).read(data, limit)
    rows = {
        name: list(swept(model, sentences, grid, quiet=quiet))
        for name, model, grid in zip(labels, loaded, grids, strict=True)
    }
    _tell(analysis(rows, list(grids[0][0][0]), told_of(models, labels, data)), out)


@command("landscape", group)
@reads_corpora
def landscape(
    options: ReadOptions,
    paths: ManyPaths,
    out: Out = _OUT,
    points: Points = 51,
    seed: Seed = 1,
    limit: LandscapeLimit = 500,
    label: Label = None,
    threads: Threads = None,
    format: FormatName = None,  # noqa: A002
    skip_invalid: SkipInvalid = False,
    quiet: Quiet = False,
) -> None:
    """The loss along a random direction through the weights, on each corpus."""
    models, corpora = _split_many(paths, out, "landscape")
    labels = labels_of(models, label)
    with _needed():
        from fencepost.analysis import landscape as analysis
    from fencepost.analysis.result import named

    places = analysis.points(points)
    source = Source(models, options, format, skip_invalid, quiet)
    names = named([Path(path) for path in corpora])
    stems = [name.removesuffix(Path(name).suffix) for name in names]
    names = (
        stems if len(set(stems)) == len(stems) else names
    )  # corpus.train and corpus.dev stay what they are
    data = {name: source.read(path, limit or None) for name, path in zip(names, corpora, strict=True)}
    found = {}
    for name, path in zip(labels, models, strict=True):
        model = load_model(path, None, threads)
        with _progress(name, points, quiet=quiet) as advance:
            found[name] = analysis.losses_along(model, data, places, seed, advance)
    told = {**told_of(models, labels, corpora), "seed": seed, "limit": limit or None}
    _tell(analysis.landscape(found, places, told), out)


@command("curves", group)
def curves(runs: Runs, out: Out = _OUT, label: Label = None) -> None:
    """Losses, and F1 on the development data, by epoch."""
    from fencepost.analysis.result import check_target

    check_target(out, "curves")
    labels = labels_of(runs, label)
    with _needed():
        from fencepost.analysis.curves import curves as analysis
    from fencepost.analysis.epochs import read_epochs

    found = {name: read_epochs(Path(run)) for name, run in zip(labels, runs, strict=True)}
    for run, epochs in zip(runs, found.values(), strict=True):
        if not epochs:
            raise UsageError(
                f"{run}: there are no records of a training here; give the --out of a fencepost train"
            )
    _tell(analysis(found, {"folders": dict(zip(labels, runs, strict=True))}), out)


@command("sweep", group)
def sweep(folder: SweepFolder, over: Over = None, out: Out = _OUT) -> None:
    """F1 by a setting, by the share of the training data or by the noise in it, from a sweep's results."""
    from fencepost.analysis.result import check_target

    check_target(out, "sweep-f1")
    with _needed():
        from fencepost.analysis.sweep import sweep as analysis
    cells = _swept_cells(Path(folder))
    _tell(analysis(cells, {"folder": folder}, over), out)


def _swept_cells(folder: Path) -> list[dict[str, Any]]:
    try:
        cells = list(json.loads((folder / "sweep.json").read_text(encoding="utf-8"))["cells"])
        for cell in cells:  # or it is somebody else's
            _ = cell["settings"], cell["seeds"], cell["dev_f1"]["mean"], cell["test_f1"]["mean"]
    except OSError:
        raise UsageError(
            f"{folder}: there is no sweep here (no sweep.json); give the --out of a fencepost sweep"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise UsageError(f"{folder / 'sweep.json'}: this is not the result of a fencepost sweep") from None
    return cells


def _method_report(
    name: str,
    report: str,
    paths: Sequence[str],
    source: Source,
    label: Sequence[str] | None,
    limit: int | None,
    changes: Sequence[str] | None,
    threads: int | None,
    out: Path,
) -> None:
    """The tables of a method's own report, of each model."""
    from fencepost.cli.scores import print_reports, wide_console
    from fencepost.cli.scoring import of_model

    models, data = _split(paths, out, name)
    labels = labels_of(models, label)
    with _needed():
        from fencepost.analysis.stages import stages as analysis
    loaded: list[Model] = [load_model(model, changes, threads) for model in models]
    for path, model in zip(models, loaded, strict=True):
        if report not in model.method.reports:  # before anything is read
            raise UsageError(
                f"{path}: a model of {model.settings.method.name} has nothing for fencepost analyze {name}, "
                "which is about a step of another method (see fencepost analyze --help)"
            )
    sentences = source.read(data, limit)
    scored = [of_model(model, lambda: sentences, [report]) for model in loaded]
    tables = {label_: one.tables[report] for label_, one in zip(labels, scored, strict=True)}
    for label_, of_label in tables.items():
        print_reports(wide_console(), {label_: of_label})
    _tell(analysis(name, tables, told_of(models, labels, data)), out)


def _split(paths: Sequence[str], out: Path, name: str, *, shipped: bool = False) -> tuple[list[str], str]:
    """The models, and the corpus behind them; `shipped` allows for the model of the package instead."""
    if shipped and len(paths) == 1 and not is_model(paths[0]):
        from fencepost.runtime.loading import SHIPPED

        paths = [str(SHIPPED), *paths]
    models, corpora = _split_many(paths, out, name)
    if len(corpora) > 1:
        raise UsageError(
            f"one corpus is needed, and there are {len(corpora)}: {', '.join(corpora)} (a model is a folder "
            f"with a config.json); write fencepost analyze {name} MODEL... DATA"
        )
    return models, corpora[0]


def _split_many(paths: Sequence[str], out: Path, name: str) -> tuple[list[str], list[str]]:
    from fencepost.analysis.result import check_target

    check_target(out, name)
    models = [path for path in paths if is_model(path)]
    corpora = [path for path in paths if not is_model(path)]
    if not models:
        raise UsageError(
            f"{paths[0]}: there is no model here (a model is a folder with a config.json); write "
            f"fencepost analyze {name} MODEL... DATA"
        )
    if not corpora:
        raise UsageError(f"which data? Write fencepost analyze {name} MODEL... DATA")
    return models, corpora


@contextmanager
def _needed() -> Iterator[None]:
    """Around imports that need matplotlib, or PyTorch: their absence is told in words."""
    with training_installed():
        import matplotlib as mpl

        mpl.use("agg")
        yield


@contextmanager
def _progress(name: str, total: int, *, quiet: bool) -> Iterator[Callable[[], None]]:
    """A bar in a terminal; elsewhere a word at the beginning."""
    if quiet or not sys.stderr.isatty():
        say(f"{name}: the loss at {total} points", quiet=quiet)
        yield lambda: None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress

    from fencepost.cli.draw import printable

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(escape(printable(name)), total=total)
        yield lambda: progress.advance(task)


def _tell(analysis: Analysis, out: Path) -> None:
    """Writes all, and shows the table and where the files are."""
    from fencepost.cli.scores import print_table, wide_console

    paths = analysis.save(out)
    console = wide_console()
    if analysis.summary is not None:
        print_table(console, analysis.name.capitalize(), analysis.summary.columns, analysis.summary.rows)
    names = ", ".join(path.name for path in paths)
    console.print(f"written to {out}: {names}", soft_wrap=True, markup=False)
