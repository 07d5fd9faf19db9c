"""A model that was exported: its graphs in onnxruntime, its decisions in NumPy."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import onnxruntime

from fencepost.decoders import DECODERS, Decoder, Graphs, PredictSettings, WordArrays
from fencepost.entity import Entity, Sentence
from fencepost.errors import DataError, UsageError
from fencepost.evaluation import Temperature
from fencepost.inputs import EncoderSettings, InputReader
from fencepost.runtime.engine import FACTS_FILE, GRAPH_FOLDER, batches, entities_of
from fencepost.settings import validated
from fencepost.text.subwords import Subwords

Precision = Literal["float32", "int8"]
ENCODER = "encoder"
CONFIG_FILE, VOCABULARY_FILE = "config.json", "vocabulary.json"


_AREA = 512
"""Pieces of a batch, unless one sentence alone has more: what stays in the caches is faster."""


def graph_file(name: str, precision: Precision = "float32") -> str:
    return f"{name}.onnx" if precision == "float32" else f"{name}.{precision}.onnx"


def exported_precisions(folder: Path) -> list[Precision]:
    """What the model in this folder was exported to, the fastest first."""
    at_hand: tuple[Precision, ...] = ("int8", "float32")
    there = (folder / GRAPH_FOLDER / FACTS_FILE).is_file()
    return [one for one in at_hand if there and (folder / GRAPH_FOLDER / graph_file(ENCODER, one)).is_file()]


def trusted_precision(folder: Path) -> Precision | None:
    """The fastest that is known to be good: `int8` is, once `fencepost export --check` has shown it."""
    there = exported_precisions(folder)
    if "int8" in there:
        checked = _read_json(folder / GRAPH_FOLDER / FACTS_FILE).get("checked")
        of_int8 = checked.get("int8") if isinstance(checked, dict) else None
        if isinstance(of_int8, dict) and of_int8.get("good") is True:
            return "int8"
    return "float32" if "float32" in there else None


class ExportedModel:
    """The graphs in a model's folder, as an engine."""

    def __init__(
        self,
        folder: str | Path,
        precision: Precision = "float32",
        *,
        threads: int | None = None,
        settings: dict[str, Any] | None = None,
    ) -> None:
        """`threads` is as many as the processor has cores unless set, or `OMP_NUM_THREADS` if that is."""
        folder = Path(folder)
        if precision not in exported_precisions(folder):
            raise UsageError(f"{folder}: this model was not exported to {precision}: run fencepost export")
        saved = _read_json(folder / CONFIG_FILE)
        facts = _read_json(folder / GRAPH_FOLDER / FACTS_FILE)
        vocabulary = _read_json(folder / VOCABULARY_FILE)
        try:
            self.name: str = "onnx" if precision == "float32" else precision
            self.types = tuple(str(type_) for type_ in saved["types"])
            config = saved["config"]
            self.language: str = config.get("text", {}).get("language") or "en"  # older models do not say
            if not isinstance(self.language, str):
                raise TypeError(f"text.language is {self.language!r}")
            self.calibration = Temperature(**saved.get("calibration", {}))
            encoder = validated(EncoderSettings, config["encoder"], where=str(folder / CONFIG_FILE))
            self.context = encoder.context
            decoder = _decoder(str(config["method"]["name"]), folder)
            trained: PredictSettings = validated(decoder.Predict, config["predict"], key="predict")
            self.predict_settings = trained.changed(settings) if settings else trained
            self._decoder: Decoder = decoder(config["method"], self.types)
            room = facts["room"]
            if room is not None and (not isinstance(room, int) or room < 1):
                raise ValueError(f"room is {room!r}")
            subwords = Subwords.load(folder) if room is not None else None
            self.read = InputReader(encoder, vocabulary["known"], subwords, room)
            names = [str(name) for name in facts["graphs"]]
            if not all(name.isidentifier() for name in names):  # so that none leads out of the folder
                raise ValueError(f"graphs are {names}")
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            message = f"this is not an exported fencepost model: {error!r}; export it again"
            raise DataError(message, source=str(folder)) from None
        options, graphs = _options(threads), folder / GRAPH_FOLDER
        self._encoder = open_graph(graphs / graph_file(ENCODER, precision), options)
        self._graphs: Graphs = {
            name: open_graph(graphs / graph_file(name), options) for name in names if name != ENCODER
        }

    @property
    def room(self) -> int | None:
        return self.read.room

    def sizes(self, words: Sequence[str]) -> list[int]:
        return self.read.sizes(words)

    def using(self, settings: dict[str, Any]) -> Self:
        other = copy.copy(self)
        other.predict_settings = self.predict_settings.changed(settings)
        return other

    def found(self, sentences: Sequence[Sentence]) -> list[list[Entity]]:
        entities: list[list[Entity]] = [[] for _ in sentences]
        sizes = [sum(self.sizes(sentence.words)) for sentence in sentences]
        lengths = [len(sentence) for sentence in sentences]
        for batch in batches(sizes, lengths, self.predict_settings.batch_size, area=_AREA):
            for index, of_sentence in zip(batch, self._batch([sentences[at] for at in batch]), strict=True):
                entities[index] = of_sentence
        return entities

    def _batch(self, sentences: Sequence[Sentence]) -> list[list[Entity]]:
        arrays = self.read(sentences)
        vectors, *prompts = self._encoder(**arrays)
        words = WordArrays(vectors, arrays["lengths"], *prompts)
        candidates = self._decoder.candidates(words, self._graphs, self.predict_settings)
        kept = self.predict_settings.selected(candidates)
        return entities_of(kept, self.calibration, self.types, len(sentences), vectors.shape[1])


def _decoder(method: str, folder: Path) -> type[Decoder]:
    if method not in DECODERS:
        raise UsageError(
            f"{folder}: its method is {method!r}, which is not known here: install the package that brings it"
        )
    return DECODERS[method]


class Session:
    """A graph, called with named arrays; those that it has no use for, an export left out of it."""

    def __init__(self, session: onnxruntime.InferenceSession) -> None:
        self._session = session
        self._names = {wanted.name for wanted in session.get_inputs()}

    def __call__(self, **inputs: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        used = {name: array for name, array in inputs.items() if name in self._names}
        return [np.asarray(output) for output in self._session.run(None, used)]


def open_graph(path: Path, options: onnxruntime.SessionOptions | None = None) -> Session:
    options = options or _options(None)
    try:
        return Session(onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]))
    except Exception as error:  # noqa: BLE001 - onnxruntime has one class for each of its codes
        message = f"the graph cannot be loaded: {str(error).splitlines()[0]}; export the model again"
        raise DataError(message, source=str(path)) from None


def _options(threads: int | None) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    wanted = threads or os.environ.get("OMP_NUM_THREADS", "")
    if str(wanted).isdecimal():
        options.intra_op_num_threads = int(wanted)
    options.log_severity_level = 3  # errors
    # a model has several graphs, each with threads of its own; they must not wait busily while others work
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return options


def _read_json(path: Path) -> dict[str, Any]:
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"this file of the model cannot be read: {error}", source=str(path)) from None
    if not isinstance(tree, dict):
        raise DataError("this file of the model is no JSON object", source=str(path))
    return tree
