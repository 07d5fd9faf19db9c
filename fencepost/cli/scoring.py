"""The scores of a model, in PyTorch or exported, and of one file against another."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.cli.corpora import opened
from fencepost.cli.models import saved_config
from fencepost.cli.scores import Tables, report_json
from fencepost.errors import UsageError

if TYPE_CHECKING:
    from fencepost.data import ReadOptions
    from fencepost.data.entity import Sentence
    from fencepost.evaluation import Evaluation
    from fencepost.methods.model import Model
    from fencepost.methods.network import Gold
    from fencepost.runtime.recogniser import Recogniser

Read = Callable[[], "list[Sentence]"]


@dataclass
class Scored:
    """An evaluation, what is told beside it, and what the method tells about itself."""

    told: dict[str, Any]
    result: Evaluation
    tables: Tables = field(default_factory=dict)
    trained_lengths: Any = None


def of_model(model: Model, read: Read, names: Sequence[str]) -> Scored:
    """The scores of a model in PyTorch, with its speed, the memory that it took, and these reports."""
    from fencepost import evaluation

    reports = {name: model.report(name) for name in names}
    sentences = read()
    of_reports = 0.0  # seconds, which are not those of prediction

    def watch(batch: Sequence[Sentence], _: Any, scores: Any, gold: Gold) -> None:
        nonlocal of_reports
        start = time.perf_counter()
        for report in reports.values():
            report.add(batch, scores, gold)
        of_reports += time.perf_counter() - start

    start = time.perf_counter()
    predicted = list(model.predict(sentences, watch if reports else None))
    seconds = time.perf_counter() - start - of_reports
    tables = {name: report.tables() for name, report in reports.items()}
    told = _told("pytorch", model.settings.model_dump(mode="json"), len(sentences), seconds)
    return Scored(
        {**told, **report_json(tables)},
        evaluation.evaluate(sentences, predicted),
        tables,
        model.settings.method.trained_lengths(),
    )


def of_engine(folder: Path, recogniser: Recogniser, read: Read) -> Scored:
    """The same of any engine, which has no reports."""
    from fencepost import evaluation

    sentences = read()
    start = time.perf_counter()
    predicted = list(recogniser.predict(sentences))
    seconds = time.perf_counter() - start
    settings = {**saved_config(folder), "predict": recogniser.settings}
    told = _told(recogniser.engine, settings, len(sentences), seconds)
    return Scored(told, evaluation.evaluate(sentences, predicted))


def _told(engine: str, settings: dict[str, Any], sentences: int, seconds: float) -> dict[str, Any]:
    return {
        "engine": engine,
        "settings": settings,
        "sentences_per_second": sentences / seconds if sentences else 0.0,
        "peak_memory_mb": peak_memory_mb(),
    }


def of_files(
    gold: str,
    predicted: str,
    formats: tuple[str | None, str | None],
    options: ReadOptions,
    *,
    quiet: bool,
) -> Scored:
    from fencepost import evaluation

    if gold == predicted == "-":
        raise UsageError("standard input can be read once, but it is named twice")
    with (
        opened(gold, formats[0], options, skip_invalid=False, quiet=quiet) as true,
        opened(predicted, formats[1], options, skip_invalid=False, quiet=quiet) as guessed,
    ):
        result = evaluation.evaluate(true, guessed)
    return Scored({"gold": gold, "predicted_file": predicted}, result)


def peak_memory_mb() -> float | None:
    """The most that this process has held so far; None where the system does not tell."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 if sys.platform != "darwin" else 1024**2)
