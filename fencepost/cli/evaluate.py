"""`fencepost evaluate`: strict scores of a model on a corpus, or of any program's predictions."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.cli.corpora import opened, read_all
from fencepost.cli.frame import Json, Quiet, check_json_target, command, write_json
from fencepost.cli.models import Changes, load_model
from fencepost.cli.options import FormatName, SkipInvalid, reads_corpora
from fencepost.cli.scores import (
    Lengths,
    Tables,
    print_reports,
    print_scores,
    print_sweep,
    report_json,
)
from fencepost.cli.sweep import combinations, swept
from fencepost.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from fencepost.corpus import ReadOptions
    from fencepost.entity import Sentence
    from fencepost.evaluation import Evaluation
    from fencepost.methods import Gold, Report
    from fencepost.model import Model

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
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Score a model on a corpus, or one file against another.

    An entity counts if its start, end and type are all right.
    """
    check_json_target(json)
    tables: Tables = {}
    reports = [name for name, wanted in (("by-offset", by_offset), ("stages", stages)) if wanted]
    trained_lengths = None
    if sweep and (not (model and data) or by_length or reports):
        raise UsageError(
            "--sweep needs a model and a corpus (fencepost evaluate MODEL DATA --sweep KEY=VALUE,VALUE), and "
            "goes without --by-length, --by-offset and --stages"
        )
    if model and data and not (gold or predicted or predicted_format):
        recogniser = load_model(model, changes)
        wanted = {name: recogniser.report(name) for name in reports}
        grid = combinations(recogniser, sweep) if sweep else []
        sentences = read_all(data, format, options, skip_invalid=skip_invalid, quiet=quiet)
        if grid:
            settings = recogniser.settings.model_dump(mode="json")
            rows = swept(recogniser, sentences, grid, quiet=quiet)
            _tell_sweep({"model": model, "data": data, "settings": settings}, rows, json)
            return
        told, result = _of_model(recogniser, sentences, list(wanted.values()))
        tables = {name: report.tables() for name, report in wanted.items()}
        told = {"model": model, "data": data, **told, **report_json(tables)}
        trained_lengths = recogniser.settings.method.trained_lengths()
    elif gold and predicted and not (model or changes or skip_invalid or reports):
        told, result = _of_files(gold, predicted, (format, predicted_format), options, quiet=quiet)
    else:
        raise UsageError(
            "give a model and a corpus (fencepost evaluate MODEL DATA), or two files (fencepost evaluate "
            "--gold FILE --predicted FILE, without --set, --skip-invalid, --by-offset and --stages)"
        )
    lengths = Lengths.of(result, trained_lengths) if by_length else None

    def show(console: Console) -> None:
        print_scores(console, result, lengths)
        print_reports(console, tables)
        if "sentences_per_second" in told:
            console.print(f"{told['sentences_per_second']:,.1f} sentences a second")
            if told["peak_memory_mb"] is not None:
                console.print(f"{told['peak_memory_mb']:,.0f} MB of memory at most")

    told |= result.to_dict()
    _tell({**told, **(lengths.json(told["by_length"]) if lengths else {})}, json, show)


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


def _of_model(
    model: Model, sentences: list[Sentence], reports: list[Report]
) -> tuple[dict[str, Any], Evaluation]:
    """The scores of a model, with its settings, its speed and the memory that it took; fills the reports."""
    from fencepost import evaluation

    of_reports = 0.0  # seconds, which are not those of prediction

    def watch(batch: Sequence[Sentence], _: Any, scores: Any, gold: Gold) -> None:
        nonlocal of_reports
        start = time.perf_counter()
        for report in reports:
            report.add(batch, scores, gold)
        of_reports += time.perf_counter() - start

    start = time.perf_counter()
    predicted = list(model.predict(sentences, watch if reports else None))
    seconds = time.perf_counter() - start - of_reports
    told = {
        "settings": model.settings.model_dump(mode="json"),
        "sentences_per_second": len(sentences) / seconds if sentences else 0.0,
        "peak_memory_mb": _peak_memory_mb(),
    }
    return told, evaluation.evaluate(sentences, predicted)


def _of_files(
    gold: str,
    predicted: str,
    formats: tuple[str | None, str | None],
    options: ReadOptions,
    *,
    quiet: bool,
) -> tuple[dict[str, Any], Evaluation]:
    from fencepost import evaluation

    if gold == predicted == "-":
        raise UsageError("standard input can be read once, but it is named twice")
    with (
        opened(gold, formats[0], options, skip_invalid=False, quiet=quiet) as true,
        opened(predicted, formats[1], options, skip_invalid=False, quiet=quiet) as guessed,
    ):
        result = evaluation.evaluate(true, guessed)
    return {"gold": gold, "predicted_file": predicted}, result


def _peak_memory_mb() -> float | None:
    """The most that this process has held so far; None where the system does not tell."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 if sys.platform != "darwin" else 1024**2)
