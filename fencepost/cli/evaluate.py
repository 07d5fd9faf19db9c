"""`fencepost evaluate`: strict scores of a model on a corpus, or of any program's predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.cli.corpora import read_all
from fencepost.cli.frame import Json, Quiet, check_json_target, command, write_json
from fencepost.cli.models import (
    Changes,
    EngineName,
    Threads,
    common_language,
    load_model,
    load_recogniser,
    wants_pytorch,
)
from fencepost.cli.options import FormatName, SkipInvalid, reads_corpora
from fencepost.cli.prediction_sweep import combinations, swept
from fencepost.cli.scores import Lengths, print_reports, print_scores, print_sweep
from fencepost.cli.scoring import Scored, of_engine, of_files, of_model
from fencepost.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from fencepost.data import ReadOptions
    from fencepost.data.entity import Sentence
    from fencepost.methods.model import Model

ModelFolder = Annotated[str | None, typer.Argument(metavar="MODEL", help="The folder of a trained model.")]
Data = Annotated[str | None, typer.Argument(metavar="DATA", help="The corpus to score it on.")]
GoldFile = Annotated[
    str | None, typer.Option("--gold", metavar="FILE", help="Instead of a model: the true entities.")
]
Predicted = Annotated[
    str | None,
    typer.Option("--predicted", metavar="FILE", help="The same sentences with the entities of any program."),
]
PredictedFormat = Annotated[
    str | None, typer.Option("--predicted-format", help="The predictions' format, if --format is the gold's.")
]
ByOffset = Annotated[
    bool,
    typer.Option(
        "--by-offset", help="Add scores by offset label, and by way of decoding (method boundary-offset)."
    ),
]
Stages = Annotated[
    bool,
    typer.Option(
        "--stages",
        help="Add how many spans, and how many entities among them, each stage leaves, and how far "
        "boundaries were moved (method locate-and-label).",
    ),
]
ByLength = Annotated[
    bool,
    typer.Option(
        "--by-length",
        help="Add scores by groups of lengths, and mark those of the spans that training goes through, if "
        "these are not all (method locate-and-label).",
    ),
]
Sweep = Annotated[
    list[str] | None,
    typer.Option(
        "--sweep",
        metavar="KEY=V,V...",
        help="Instead of all scores: F1 and speed for each value of a setting of prediction, as "
        "steps=1,2,5; of several settings, for each combination.",
    ),
]
Engine = Annotated[
    EngineName,
    typer.Option(
        "--engine",
        help="What computes: pytorch, or graphs made by fencepost export (int8, onnx); auto is pytorch where "
        "it is installed.",
    ),
]
NEEDS_PYTORCH = (
    "--by-offset, --stages and --sweep need --engine pytorch: the model's weights, and PyTorch "
    "(pip install 'fencepost[train]')"
)


@command("evaluate")
@reads_corpora
def evaluate(
    options: ReadOptions,
    model: ModelFolder = None,
    data: Data = None,
    gold: GoldFile = None,
    predicted: Predicted = None,
    format: FormatName = None,  # noqa: A002
    predicted_format: PredictedFormat = None,
    skip_invalid: SkipInvalid = False,
    changes: Changes = None,
    by_length: ByLength = False,
    by_offset: ByOffset = False,
    stages: Stages = False,
    sweep: Sweep = None,
    engine: Engine = "auto",
    threads: Threads = None,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Score a model on a corpus, or one file against another.

    An entity counts if its start, end and type are all right.
    """
    check_json_target(json)
    reports = [name for name, wanted in (("by-offset", by_offset), ("stages", stages)) if wanted]
    if sweep and (not (model and data) or by_length or reports):
        raise UsageError(
            "--sweep needs a model and a corpus (fencepost evaluate MODEL DATA --sweep KEY=VALUE,VALUE), and "
            "goes without --by-length, --by-offset and --stages"
        )
    if model and data and not (gold or predicted or predicted_format):
        pytorch = wants_pytorch(Path(model), engine)
        if (sweep or reports) and not pytorch:
            raise UsageError(NEEDS_PYTORCH)
        options = options.with_default_language(common_language([model]))
        read = partial(read_all, data, format, options, skip_invalid=skip_invalid, quiet=quiet)
        named = {"model": model, "data": data}
        if sweep:
            _sweep(load_model(model, changes, threads), sweep, read, named, json, quiet=quiet)
            return
        if pytorch:
            scored = of_model(load_model(model, changes, threads), read, reports)
        else:
            scored = of_engine(Path(model), load_recogniser(Path(model), engine, changes, threads), read)
        scored.told = {**named, **scored.told}
    elif (
        gold
        and predicted
        and not (model or changes or skip_invalid or reports or engine != "auto" or threads)
    ):
        scored = of_files(gold, predicted, (format, predicted_format), options, quiet=quiet)
    else:
        raise UsageError(
            "give a model and a corpus (fencepost evaluate MODEL DATA), or two files (fencepost evaluate "
            "--gold FILE --predicted FILE, without --set, --skip-invalid, --by-offset, --stages, --engine "
            "and --threads)"
        )
    _tell_scores(scored, by_length=by_length, json=json)


def _tell_scores(scored: Scored, *, by_length: bool, json: Path | None) -> None:
    lengths = Lengths.of(scored.result, scored.trained_lengths) if by_length else None
    told = {**scored.told, **scored.result.to_dict()}

    def show(console: Console) -> None:
        print_scores(console, scored.result, lengths)
        print_reports(console, {n.replace("-", " ").capitalize(): t for n, t in scored.tables.items()})
        if "engine" in told:
            console.print(f"{told['sentences_per_second']:,.1f} sentences a second ({told['engine']})")
            if told["peak_memory_mb"] is not None:
                console.print(f"{told['peak_memory_mb']:,.0f} MB of memory at most")

    _tell({**told, **(lengths.json(told["by_length"]) if lengths else {})}, json, show)


def _sweep(
    model: Model,
    axes: Sequence[str],
    read: Callable[[], list[Sentence]],
    named: dict[str, Any],
    json: Path | None,
    *,
    quiet: bool,
) -> None:
    grid = combinations(model, axes)
    told = {**named, "engine": "pytorch", "settings": model.settings.model_dump(mode="json")}
    _tell_sweep(told, swept(model, read(), grid, quiet=quiet), json)


def _tell_sweep(told: dict[str, Any], sweep: Iterable[dict[str, Any]], json: Path | None) -> None:
    """All combinations; after Ctrl-C, those that are done."""
    rows: list[dict[str, Any]] = []
    try:
        for row in sweep:
            rows.append(row)  # noqa: PERF402 - what is done stays
    finally:
        if rows:
            _tell({**told, "sweep": rows}, json, lambda console: print_sweep(console, rows))


def _tell(told: dict[str, Any], json: Path | None, show: Callable[[Console], None]) -> None:
    """The result as JSON where that is wanted, and in words unless the JSON is on standard output."""
    if json is not None:
        write_json(told, json)
    if json is None or str(json) != "-":
        from rich.console import Console

        show(Console(highlight=False))
