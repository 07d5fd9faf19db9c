"""A model that was exported: its graphs in onnxruntime, its decisions in NumPy."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import onnxruntime

from fencepost.data.entity import Entity, Sentence
from fencepost.data.files import SETTINGS_BYTES, read_json_object
from fencepost.encoder.inputs import InputReader
from fencepost.encoder.settings import LARGEST_WINDOW, EncoderSettings, TextSettings
from fencepost.encoder.subwords import Subwords
from fencepost.encoder.vocabulary import read_vocabulary
from fencepost.errors import DataError, UsageError, describe_error, quote, shorten
from fencepost.methods.decoder import Decoder, GraphMismatch, Graphs, PredictSettings, WordArrays
from fencepost.methods.decoders import DECODERS
from fencepost.runtime.engine import (
    EXAMPLE,
    FACTS_FILE,
    GRAPH_FOLDER,
    batches,
    calibration_of,
    entities_of,
    try_out,
)
from fencepost.runtime.folder import CONFIG_FILE, read_saved_config
from fencepost.runtime.graph_file import find_not_finite
from fencepost.settings import validated

Precision = Literal["float32", "int8"]
ENCODER = "encoder"
_OUTPUTS = ["word_vectors", "prompts"]

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
        checked = read_json_object(folder / GRAPH_FOLDER / FACTS_FILE, limit=SETTINGS_BYTES).get("checked")
        of_int8 = checked.get("int8") if isinstance(checked, dict) else None
        if isinstance(of_int8, dict) and of_int8.get("good") is True:
            return "int8"
    return "float32" if "float32" in there else None


class ExportFacts(NamedTuple):
    """What `onnx/export.json` says about the graphs."""

    graphs: list[str]
    room: int | None
    types: tuple[str, ...] | None
    """That the graphs were made for; older exports do not say."""


def _read_facts(folder: Path) -> ExportFacts:
    path = folder / GRAPH_FOLDER / FACTS_FILE
    facts = read_json_object(path, limit=SETTINGS_BYTES)
    graphs, room, types = facts.get("graphs"), facts.get("room", "missing"), facts.get("types")
    # a name is a short identifier, so that none leads out of the folder
    if not isinstance(graphs, list) or not all(
        isinstance(name, str) and name.isidentifier() and len(name) < 100 for name in graphs
    ):
        message = f"graphs is {quote(graphs)}"
    elif room is not None and (type(room) is not int or not 1 <= room <= LARGEST_WINDOW):
        message = f"room is {quote(room)}"
    elif types is not None and not isinstance(types, list):
        message = f"types is {quote(types)}"
    else:
        return ExportFacts(graphs, room, None if types is None else tuple(types))
    raise DataError(f"this is not an exported fencepost model: {message}; export it again", source=str(path))


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
        saved, facts = read_saved_config(folder), _read_facts(folder)
        known, _ = read_vocabulary(folder)
        if facts.types not in (None, saved.types):
            raise DataError(f"the graphs are for other types than {CONFIG_FILE} has", source=str(folder))
        config, where = saved.config, str(folder / CONFIG_FILE)
        try:
            name = config["method"]["name"]
            encoder = validated(EncoderSettings, config["encoder"], where=where, key="encoder")
            predict, method = config["predict"], config["method"]
        except (KeyError, TypeError) as error:
            message = f"this is not the config of a fencepost model: {describe_error(error)}"
            raise DataError(message, source=where) from None
        text = validated(TextSettings, config.get("text") or {}, where=where, key="text")
        decoder = _decoder(name, folder)
        trained: PredictSettings = validated(decoder.Predict, predict, where=where, key="predict")
        self.name: str = "onnx" if precision == "float32" else precision
        self.types = saved.types
        self.language = text.language or "en"  # older models do not say
        self.calibration = calibration_of(saved, folder)
        self.context = encoder.context
        self.predict_settings = trained.changed(settings) if settings else trained
        self._folder = folder
        self._decoder = _make_decoder(decoder, method, saved.types, where)
        subwords = Subwords.load(folder) if facts.room is not None else None
        self.read = InputReader(encoder, known, subwords, facts.room)
        options, graphs = _options(threads), folder / GRAPH_FOLDER
        self._encoder = open_graph(graphs / graph_file(ENCODER, precision), options)
        if self._encoder.outputs not in (_OUTPUTS[:1], _OUTPUTS):
            message = f"the outputs of the encoder are {quote(self._encoder.outputs)}; export the model again"
            raise DataError(message, source=str(folder))
        self._graphs: Graphs = {
            name: open_graph(graphs / graph_file(name), options) for name in facts.graphs if name != ENCODER
        }
        try_out(self.found, folder, self._example())

    @property
    def room(self) -> int | None:
        return self.read.room

    def sizes(self, words: Sequence[str]) -> list[int]:
        return self.read.sizes(words)

    def _example(self) -> Sequence[str]:
        """Return as many words of the example as fit at once, but one at least."""
        if self.room is None:
            return EXAMPLE
        fitting = np.cumsum(self.sizes(EXAMPLE)) <= self.room
        return EXAMPLE[: max(1, int(fitting.sum()))]

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
        try:
            words = _word_arrays(self._encoder(**arrays), arrays["lengths"])
            candidates = self._decoder.candidates(words, self._graphs, self.predict_settings)
            kept = self.predict_settings.selected(candidates)
            if kept.type.max(initial=-1) >= len(self.types):
                raise GraphMismatch(f"the graphs find more types than the {len(self.types)} of the model")
        except GraphMismatch as error:
            message = f"the graphs do not fit the model's config: {error}; export the model again"
            raise DataError(message, source=str(self._folder)) from None
        return entities_of(kept, self.calibration, self.types, len(sentences), words.vectors.shape[1])


def _word_arrays(outputs: Sequence[npt.NDArray[Any]], lengths: npt.NDArray[np.int64]) -> WordArrays:
    """Return what the encoder's graph gives, checked: word vectors and, with some methods, prompt vectors."""
    shapes = [(output.dtype.kind, output.ndim, output.shape[:1]) for output in outputs]
    expected = ("f", 3, lengths.shape)
    if shapes not in ([expected], [expected] * 2) or outputs[0].shape[1] != lengths.max():
        raise GraphMismatch("the encoder does not give one vector for each word")
    return WordArrays(outputs[0], lengths, *outputs[1:])


def _decoder(method: object, folder: Path) -> type[Decoder]:
    if not isinstance(method, str) or method not in DECODERS:
        raise UsageError(
            f"{folder}: its method is {quote(method)}, which is not known here: "
            "install the package that brings it"
        )
    return DECODERS[method]


def _make_decoder(decoder: type[Decoder], method: Any, types: Sequence[str], where: str) -> Decoder:
    try:
        return decoder(method, types)
    except UsageError as error:
        raise DataError(str(error), source=where) from None
    except Exception as error:  # noqa: BLE001 - a decoder of another package checks in its own way
        message = f"the settings of the method cannot be read: {describe_error(error)}"
        raise DataError(message, source=where) from None


class Session:
    """A graph, called with named arrays; those that it has no use for, an export left out of it."""

    def __init__(self, session: onnxruntime.InferenceSession, path: Path) -> None:
        self._session, self._path = session, path
        self.outputs = [output.name for output in session.get_outputs()]
        self._names = {wanted.name for wanted in session.get_inputs()}

    def __call__(self, **inputs: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        """Return the outputs; raises `DataError` if the graph cannot be run or computes NaN."""
        used = {name: array for name, array in inputs.items() if name in self._names}
        try:
            outputs = [np.asarray(output) for output in self._session.run(None, used)]
        except Exception as error:  # noqa: BLE001 - onnxruntime has one class for each of its codes
            message = f"the graph cannot be run: {describe_error(error)}; export the model again"
            raise DataError(message, source=str(self._path)) from None
        if any(output.dtype.kind == "f" and np.isnan(output).any() for output in outputs):
            message = "the graph computes NaN: its weights are damaged, or were never numbers"
            raise DataError(f"{message}; export the model again", source=str(self._path))
        return outputs


def open_graph(path: Path, options: onnxruntime.SessionOptions | None = None) -> Session:
    options = options or _options(None)
    try:
        session = onnxruntime.InferenceSession(
            str(path),
            options,
            providers=["CPUExecutionProvider"],
            enable_fallback=0,  # with it, an error is also printed to standard output
        )
        not_finite = find_not_finite(path)
    except Exception as error:  # noqa: BLE001 - onnxruntime has one class for each of its codes
        message = f"the graph cannot be loaded: {describe_error(error)}; export the model again"
        raise DataError(message, source=str(path)) from None
    if not_finite is not None:
        message = f"the weights of this graph contain NaN or infinity (in {shorten(not_finite)})"
        raise DataError(f"{message}; train the model again", source=str(path))
    return Session(session, path)


def _options(threads: int | None) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    wanted = threads or os.environ.get("OMP_NUM_THREADS", "")
    if str(wanted).isdecimal():
        options.intra_op_num_threads = int(wanted)
    options.log_severity_level = 3  # errors
    # a model has several graphs, each with threads of its own; they must not wait busily while others work
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return options
