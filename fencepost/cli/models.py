"""Options of the commands that use a model, and functions that load it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fencepost.cli.groups import OptionGroup, option
from fencepost.errors import FencepostError, UsageError
from fencepost.runtime.folder import read_saved_config

if TYPE_CHECKING:
    from fencepost.data.entity import Sentence
    from fencepost.runtime.recogniser import Recogniser

MODEL = "Model"
"""Title in `--help` of the options for running a model."""

EngineName = Literal["auto", "int8", "onnx", "pytorch"]
DeviceName = Literal["auto", "cpu", "cuda", "mps"]
LinesName = Literal["auto", "break", "join"]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Change a prediction setting, for example predict.select=flat; repeatable.",
        rich_help_panel=MODEL,
        metavar="KEY=VALUE",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option("--threads", help="Number of threads. Default: one per core.", rich_help_panel=MODEL, min=1),
]
Device = Annotated[
    DeviceName,
    typer.Option(
        "--device",
        help="Device for PyTorch; auto uses the first available of cuda, mps and cpu.",
        rich_help_panel=MODEL,
    ),
]


@dataclass(frozen=True)
class ModelRun:
    """Predictions of a model on a corpus, and how they were computed."""

    predicted: list[Sentence]
    engine: str
    settings: dict[str, Any]
    seconds: float

    @property
    def sentences_per_second(self) -> float:
        return len(self.predicted) / self.seconds if self.predicted else 0.0


@dataclass(frozen=True, kw_only=True)
class ModelOptions(OptionGroup):
    """Options for the engine that runs a model and for the prediction settings."""

    title = MODEL

    engine: EngineName = option(
        "auto",
        "Engine that runs the model: int8 or onnx, after fencepost export, or pytorch; auto uses the "
        "first of these that is available, int8 only if the export was checked.",
    )
    device: Device = "auto"
    threads: Threads = None
    changes: Changes = None

    def load(
        self, folder: str | Path, lines: LinesName | None = None, language: str | None = None
    ) -> Recogniser:
        """Load the model in a folder; only the engine `pytorch` imports PyTorch.

        `lines` and `language` are the rules that split raw text; by default, those of the model.
        """
        from fencepost.runtime.loading import load

        recogniser = load(
            Path(folder),
            engine=self.engine,
            device=self.device,
            threads=self.threads,
            settings=parse_prediction_changes(Path(folder), self.changes),
            language=language,
            lines=lines,
        )
        if self.threads is not None and recogniser.engine == "pytorch":
            use_threads(self.threads)
        return recogniser

    def run(self, folder: str | Path, sentences: Sequence[Sentence]) -> ModelRun:
        """Predict the entities of all sentences with the model in a folder."""
        recogniser = self.load(folder)
        start = time.perf_counter()
        predicted = list(recogniser.predict(sentences))
        seconds = time.perf_counter() - start
        settings = {**try_read_config(Path(folder)), "predict": recogniser.settings}
        return ModelRun(predicted, recogniser.engine, settings, seconds)


def use_threads(count: int) -> None:
    import torch

    torch.set_num_threads(count)


def parse_prediction_changes(folder: Path, changes: Sequence[str] | None) -> dict[str, Any]:
    """Return the settings in changes `predict.key=value`; raise `UsageError` for other settings."""
    from fencepost.settings import Tree, merge_trees, parse_change

    before = try_read_config(folder).get("predict")
    before = before if isinstance(before, dict) else {}
    tree: Tree = {}
    for change in changes or ():
        if not change.startswith("predict."):
            raise UsageError(
                f"--set {change}: only prediction settings of a trained model can be changed: "
                f"{', '.join(f'predict.{key}' for key in before)}"
            )
        tree = merge_trees(tree, parse_change(change)["predict"])
    return tree


def resolve_model(argument: str) -> str:
    """Return the folder of an installed model that an argument names, or else the argument."""
    from fencepost.runtime.loading import find_model

    folder = find_model(argument)
    return argument if folder == Path(argument) else str(folder)


def try_read_config(folder: Path) -> dict[str, Any]:
    """Return the saved settings of the model in a folder, or an empty dict if they cannot be read."""
    try:
        return read_saved_config(folder).config
    except FencepostError:
        return {}


def find_text_rules(models: Iterable[str | Path]) -> dict[str, str]:
    """Return the `language` and `lines` settings that all of these models share."""
    saved = [try_read_config(Path(model)).get("text") for model in models]
    texts = [text for text in saved if isinstance(text, dict)]
    first = texts[0] if texts else {}
    return {
        key: first[key]
        for key in ("language", "lines")
        if isinstance(first.get(key), str) and all(text.get(key) == first[key] for text in texts)
    }


def read_trained_lengths(folder: str) -> Sequence[int] | None:
    """Return the span lengths that the model was trained on; None for all lengths."""
    return read_saved_config(Path(folder)).parse_config().method.trained_lengths()


def measure_peak_memory() -> float | None:
    """Return the peak memory of this process in MB; None if the system does not report it."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 if sys.platform != "darwin" else 1024**2)
