"""`fencepost.load`: a recogniser from a folder, on the fastest engine that it has."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from fencepost.data.entity import Entity, Sentence
from fencepost.errors import UsageError, require_extra
from fencepost.runtime.engine import Engine
from fencepost.runtime.exported import ExportedModel, trusted_precision
from fencepost.runtime.folder import CONFIG_FILE
from fencepost.runtime.recogniser import Recogniser

if TYPE_CHECKING:
    from fencepost.methods.model import Model

EngineName = Literal["auto", "int8", "onnx", "pytorch"]
SHIPPED = Path(__file__).parents[1] / "models" / "english"
"""The model that comes with the package."""


def load(
    path: str | Path | None = None,
    *,
    engine: EngineName = "auto",
    min_confidence: float = 0.0,
    types: Collection[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    threads: int | None = None,
    language: str | None = None,
) -> Recogniser:
    """The model in a folder, or the English one that ships with the package, ready for texts.

    `engine` is what runs: `int8` or `onnx` (graphs made by `fencepost export`; no PyTorch needed) or
    `pytorch`; `auto` is the first of these that there is, `int8` only if the export was checked.
    `min_confidence` and `types` filter what is found, and `settings` changes how it is found: those under
    `predict` of the model's method, as `{"select": "flat"}`. `threads` is for graphs; PyTorch has its own.
    Texts are split into sentences and words by spaCy's rules for `language`, unless set the model's own.
    """
    folder = SHIPPED if path is None else Path(path)
    chosen = load_engine(folder, engine, settings=dict(settings or {}), threads=threads)
    recogniser = Recogniser(chosen, min_confidence=min_confidence, types=types, language=language)
    recogniser.folder = folder.resolve()
    return recogniser


def load_engine(
    folder: Path, engine: EngineName = "auto", *, settings: dict[str, Any], threads: int | None = None
) -> Engine:
    if not (folder / CONFIG_FILE).is_file():
        hub = "; Recogniser.from_pretrained fetches one from the hub" if not folder.exists() else ""
        raise UsageError(f"{folder}: there is no model here (a model is a folder with a {CONFIG_FILE}){hub}")
    trusted = trusted_precision(folder) if engine == "auto" else None
    if trusted is not None:
        return ExportedModel(folder, trusted, threads=threads, settings=settings)
    if engine in ("int8", "onnx"):
        precision: Literal["int8", "float32"] = "int8" if engine == "int8" else "float32"
        return ExportedModel(folder, precision, threads=threads, settings=settings)
    if engine not in ("auto", "pytorch"):
        raise UsageError.unknown("engine", engine, ("auto", "int8", "onnx", "pytorch"))
    with require_extra("train", f"{folder}: without graphs (fencepost export) the model"):
        from fencepost.methods.model import Model
    loaded = TorchEngine(Model.load(folder))
    return loaded.using(settings) if settings else loaded


class TorchEngine:
    """A model in PyTorch, as an engine."""

    name = "pytorch"

    def __init__(self, model: Model) -> None:
        self.model = model

    @property
    def types(self) -> tuple[str, ...]:
        return self.model.types

    @property
    def language(self) -> str:
        return self.model.settings.text.language or "en"

    @property
    def context(self) -> int:
        return self.model.settings.encoder.context

    @property
    def predict_settings(self) -> Any:
        return self.model.settings.predict

    @property
    def room(self) -> int | None:
        return self.model.encoder.embedder.room

    def sizes(self, words: Sequence[str]) -> list[int]:
        return self.model.encoder.embedder.sizes(words)

    def found(self, sentences: Sequence[Sentence]) -> list[list[Entity]]:
        return self.model.found(sentences)

    def using(self, settings: dict[str, Any]) -> Self:
        """The weights are shared, the settings not."""
        other = copy.copy(self)
        other.model = self.model.using(self.model.settings.predict.changed(settings))
        return other
