"""What the commands share that judge several models on the same data."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.cli.corpora import read_all
from fencepost.cli.frame import say
from fencepost.cli.models import EngineName, common_language, load_recogniser
from fencepost.errors import UsageError
from fencepost.runtime.folder import CONFIG_FILE, read_saved_config

if TYPE_CHECKING:
    from fencepost.data import ReadOptions
    from fencepost.data.entity import Sentence
    from fencepost.evaluation import Temperature


Label = Annotated[
    list[str] | None,
    typer.Option("--label", metavar="NAME", help="What a model is called; one for each, in order."),
]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Only the first so many sentences.")]
Engine = Annotated[
    EngineName,
    typer.Option("--engine", help="What computes: pytorch, or graphs made by fencepost export (int8, onnx)."),
]


@dataclass(frozen=True)
class Source:
    """How corpora are read for these models: what the options say, and the models' language by default."""

    models: Sequence[str]
    options: ReadOptions
    format: str | None = None
    skip_invalid: bool = False
    quiet: bool = False

    def read(self, path: str, limit: int | None = None) -> list[Sentence]:
        """All sentences of a file, or the first ones."""
        options = self.options.with_default_language(common_language(self.models))
        sentences = read_all(path, self.format, options, skip_invalid=self.skip_invalid, quiet=self.quiet)
        if not sentences:
            raise UsageError(f"{path}: there are no sentences in it")
        return sentences[:limit]


def is_model(path: str) -> bool:
    return (Path(path) / CONFIG_FILE).is_file()


def labels_of(paths: Sequence[str], given: Sequence[str] | None) -> list[str]:
    """What models are called: as the user says, or by their folders."""
    from fencepost.analysis.result import named

    if not given:
        return named([Path(path) for path in paths])
    if len(given) != len(paths) or len(set(given)) != len(given):
        raise UsageError(
            f"--label: give each of {', '.join(paths)} a name of its own, in this order, "
            f"not {', '.join(given)}"
        )
    return list(given)


def predictions(
    paths: Sequence[str],
    sentences: Sequence[Sentence],
    engine: EngineName,
    changes: Sequence[str] | None,
    threads: int | None,
    *,
    quiet: bool,
) -> list[list[Sentence]]:
    """What each model finds in the same sentences."""
    found = []
    for path in paths:
        recogniser = load_recogniser(Path(path), engine, changes, threads)
        start = time.perf_counter()
        found.append(list(recogniser.predict(sentences)))
        seconds = time.perf_counter() - start
        say(f"{path} ({recogniser.engine}): {len(sentences):,} sentences in {seconds:,.1f} s", quiet=quiet)
    return found


def without_calibration(path: str, sentences: Sequence[Sentence]) -> list[Sentence]:
    """Predictions of a model with the confidences that it has by itself."""
    import numpy as np

    calibration = saved_calibration(Path(path))
    scores = np.array([entity.score for sentence in sentences for entity in sentence.entities])
    own = iter(calibration.undo(scores).tolist())
    return [s.with_entities(replace(entity, score=next(own)) for entity in s.entities) for s in sentences]


def saved_calibration(folder: Path) -> Temperature:
    """Return that of the model in this folder."""
    from fencepost.runtime.engine import calibration_of

    return calibration_of(read_saved_config(folder), folder)


def told_of(paths: Sequence[str], labels: Sequence[str], data: Sequence[str] | str) -> dict[str, Any]:
    """For JSON: which models under which names, and on what."""
    return {
        "folders": dict(zip(labels, paths, strict=True)),
        "data": data if isinstance(data, str) else list(data),
    }
