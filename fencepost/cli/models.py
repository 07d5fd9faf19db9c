"""The options of the commands that use a model, and loading it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fencepost.cli.groups import OptionGroup, option
from fencepost.errors import FencepostError, UsageError
from fencepost.runtime.folder import read_saved_config

if TYPE_CHECKING:
    from fencepost.data.entity import Sentence
    from fencepost.runtime.recogniser import Recogniser

MODEL = "Model"
"""Title of the options about how a model computes."""

EngineName = Literal["auto", "int8", "onnx", "pytorch"]
DeviceName = Literal["auto", "cpu", "cuda", "mps"]
LinesName = Literal["auto", "break", "join"]
Changes = Annotated[
    list[str] | None,
    option(
        "--set",
        "Change a setting of prediction, as predict.select=flat; repeatable.",
        MODEL,
        metavar="KEY=VALUE",
    ),
]
Threads = Annotated[
    int | None,
    option("--threads", "Number of threads that compute; unless set, one per core.", MODEL, min=1),
]
Device = Annotated[
    DeviceName,
    option("--device", "Where PyTorch computes; auto is the first present of cuda, mps and cpu.", MODEL),
]


@dataclass(frozen=True)
class ModelRun:
    """What a model found in a corpus, and how."""

    predicted: list[Sentence]
    engine: str
    settings: dict[str, Any]
    seconds: float

    @property
    def sentences_per_second(self) -> float:
        return len(self.predicted) / self.seconds if self.predicted else 0.0


@dataclass(frozen=True, kw_only=True)
class ModelOptions(OptionGroup):
    """Which engine runs a model, and with which settings of prediction."""

    title = MODEL

    engine: Annotated[
        EngineName,
        option(
            "--engine",
            "What computes: graphs made by fencepost export (int8, onnx), or pytorch; auto is the first of "
            "these that the model has, int8 only if the export was checked.",
        ),
    ] = "auto"
    device: Device = "auto"
    threads: Threads = None
    changes: Changes = None

    def load(
        self, folder: str | Path, lines: LinesName | None = None, language: str | None = None
    ) -> Recogniser:
        """Load the model in a folder; raw text is split by these rules, unless the model's.

        `lines` are the line breaks that end a sentence.
        """
        return load_recogniser(
            Path(folder), self.engine, self.changes, self.threads, language, self.device, lines
        )

    def run(self, folder: str | Path, sentences: Sequence[Sentence]) -> ModelRun:
        """Find the entities of all sentences with the model in a folder."""
        recogniser = self.load(folder)
        start = time.perf_counter()
        predicted = list(recogniser.predict(sentences))
        seconds = time.perf_counter() - start
        settings = {**saved_config(Path(folder)), "predict": recogniser.settings}
        return ModelRun(predicted, recogniser.engine, settings, seconds)


def load_recogniser(
    folder: Path,
    engine: EngineName,
    changes: Sequence[str] | None,
    threads: int | None = None,
    language: str | None = None,
    device: DeviceName = "auto",
    lines: LinesName | None = None,
) -> Recogniser:
    """Load a model on any engine; without PyTorch where it was exported."""
    from fencepost.runtime.loading import load

    settings = settings_of(folder, changes)
    recogniser = load(
        folder,
        engine=engine,
        device=device,
        threads=threads,
        settings=settings,
        language=language,
        lines=lines,
    )
    if threads is not None and recogniser.engine == "pytorch":
        use_threads(threads)
    return recogniser


def use_threads(count: int) -> None:
    import torch

    torch.set_num_threads(count)


def settings_of(folder: Path, changes: Sequence[str] | None) -> dict[str, Any]:
    """Return the settings of prediction that `predict.key=value` changes set; no others can change."""
    from fencepost.settings import Tree, merge_trees, parse_change

    before = saved_config(folder).get("predict")
    before = before if isinstance(before, dict) else {}
    tree: Tree = {}
    for change in changes or ():
        if not change.startswith("predict."):
            raise UsageError(
                f"--set {change}: the model is trained; only predict.* can change now, "
                f"that is {', '.join(f'predict.{key}' for key in before)}"
            )
        tree = merge_trees(tree, parse_change(change)["predict"])
    return tree


def saved_config(folder: Path) -> dict[str, Any]:
    """Return the settings of the model in this folder as they are saved, or none if they cannot be read."""
    try:
        return read_saved_config(folder).config
    except FencepostError:
        return {}


def common_text(models: Iterable[str | Path]) -> dict[str, str]:
    """Return the rules for raw text of these models, without those in which they differ or say nothing."""
    saved = [saved_config(Path(model)).get("text") for model in models]
    texts = [text for text in saved if isinstance(text, dict)]
    first = texts[0] if texts else {}
    return {
        key: first[key]
        for key in ("language", "lines")
        if isinstance(first.get(key), str) and all(text.get(key) == first[key] for text in texts)
    }


def trained_lengths(folder: str) -> Sequence[int] | None:
    """Return the lengths of spans that the model was trained on; None is all."""
    return read_saved_config(Path(folder)).parse_config().method.trained_lengths()


def peak_memory_mb() -> float | None:
    """Return the most memory that this process has held so far; None where the system does not tell."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 if sys.platform != "darwin" else 1024**2)
