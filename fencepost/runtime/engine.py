"""Engines and predictors.

An engine runs the named graphs of a model on arrays, with PyTorch (`runtime/pytorch.py`) or onnxruntime
(`runtime/onnx.py`). A `Predictor` does everything else, in the same way for both:

sentences -> arrays -> encoder graph -> the method's decoder, which runs the method's graphs -> entities
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol, Self

import numpy as np
import numpy.typing as npt

from fencepost.config import Config
from fencepost.data.entity import Entity, Sentence
from fencepost.data.text.lines import Lines
from fencepost.encoder.grouping import group_by_length
from fencepost.encoder.inputs import InputReader
from fencepost.encoder.settings import TextProfile
from fencepost.encoder.subwords import Subwords
from fencepost.encoder.windows import group_blocks
from fencepost.errors import DataError, FencepostError, describe_error
from fencepost.evaluation import Temperature
from fencepost.methods.candidates import Candidates
from fencepost.methods.decoder import Decoder, GraphMismatch, Graphs, WordArrays
from fencepost.methods.registry import METHODS
from fencepost.methods.settings import PredictSettings

ENCODER = "encoder"
"""Name of the graph that every model has; all others belong to its method."""

LOOK_AHEAD = 1024
"""Number of sentences that are sorted by length at a time."""

WORD_PAIRS = 1_000_000
"""Maximum number of word pairs in a batch, with padding, unless a single sentence has more."""

EXAMPLE = ("Ada", "met", "Charles", ".")
"""Sentence that a model is tested with when it is loaded."""

EngineName = Literal["auto", "int8", "onnx", "pytorch"]
DeviceName = Literal["auto", "cpu", "cuda", "mps"]

Watch = Callable[[Sequence[Sentence], WordArrays, Any], None]
"""Function that is called with each batch: its sentences, their word vectors and the decoder's scores."""


class Engine(Protocol):
    """Interface of what runs the graphs of a model."""

    name: str
    """`pytorch`, `onnx` or `int8`."""

    @property
    def graphs(self) -> Graphs:
        """Callables that run the graphs, by name; `encoder` is one of them."""

    @property
    def subwords_per_batch(self) -> int | None:
        """Size of the fastest batches; None if only the number of sentences is limited."""

    @property
    def threads(self) -> int:
        """Number of batches that may be computed at once."""

    def open_single(self) -> Graphs | None:
        """Return graphs that use one thread per call; None if the engine has none."""


class Predictor:
    """Prediction of entities in sentences that fit into the encoder."""

    def __init__(
        self,
        engine: Engine,
        config: Config,
        types: Sequence[str],
        inputs: InputReader,
        calibration: Temperature,
        source: str = "the model",
    ) -> None:
        """Create a predictor; `source` is the name of the model in error messages."""
        self.engine, self.config, self.inputs, self.calibration = engine, config, inputs, calibration
        self.types = tuple(types)
        self.predict_settings: PredictSettings = config.predict
        self._source = source
        try:
            self.decoder: Decoder[Any] = METHODS[config.method.name].decoder(config.method, self.types)
        except Exception as error:  # noqa: BLE001 - decoders of other packages may raise anything
            message = f"the settings of the method cannot be used: {describe_error(error)}"
            raise DataError(message, source=source) from None

    @property
    def name(self) -> str:
        """Name of the engine."""
        return self.engine.name

    @property
    def method(self) -> str:
        """The name of the method."""
        return self.config.method.name

    @property
    def language(self) -> str:
        """Language whose rules split raw text."""
        return self.config.text.language or "en"  # models of earlier versions have no language

    @property
    def lines(self) -> Lines:
        """Line breaks of raw text that end a sentence."""
        return self.config.text.lines

    @property
    def profile(self) -> TextProfile | None:
        """Statistics of the training text; None for models of earlier versions."""
        return self.config.text.profile

    @property
    def subwords(self) -> Subwords | None:
        """Tokenizer of the encoder, if it has one."""
        return self.inputs.subwords

    @property
    def context(self) -> int:
        """Number of neighbouring sentences on each side that the encoder reads."""
        return self.config.encoder.context

    @property
    def block(self) -> int:
        """Maximum size of a block of sentences that the encoder reads together; 0 for none."""
        return self.inputs.block

    @property
    def room(self) -> int | None:
        """Maximum size of a sentence, in the unit of `sizes`; None if unlimited."""
        return self.inputs.room

    def sizes(self, words: Sequence[str]) -> list[int]:
        """Return the size of each word."""
        return self.inputs.sizes(words)

    def with_options(self, settings: dict[str, Any]) -> Self:
        """Return a copy of this predictor with other settings of prediction."""
        other = copy.copy(self)
        other.predict_settings = self.predict_settings.with_changes(settings)
        other.predict_settings.thresholds(self.types)  # refuses those of types that the model does not have
        return other

    def predict_entities(
        self, sentences: Sequence[Sentence], watch: Watch | None = None
    ) -> list[list[Entity]]:
        """Return the entities of each sentence; no sentence may be larger than `room`.

        With `watch`, batches are computed one after another; without it, several may be computed at once.
        """
        entities: list[list[Entity]] = [[] for _ in sentences]
        batches = self.make_batches(sentences)
        for batch, batch_entities in zip(batches, self._compute(sentences, batches, watch), strict=True):
            for index, sentence_entities in zip(batch, batch_entities, strict=True):
                entities[index] = sentence_entities
        return entities

    def _compute(
        self, sentences: Sequence[Sentence], batches: Sequence[Sequence[int]], watch: Watch | None
    ) -> Iterator[list[list[Entity]]]:
        """Yield the entities of each batch, in order.

        If there is a batch for each thread, each thread computes its own: this is faster than sharing every
        batch among the threads, which then wait for each other after each operation.
        """
        parts = ([sentences[index] for index in batch] for batch in batches)
        threads = self.engine.threads
        graphs = self.engine.open_single() if watch is None and len(batches) >= threads > 1 else None
        if graphs is None:
            yield from (self.predict_batch(part, watch) for part in parts)
            return
        with ThreadPoolExecutor(threads) as executor:  # an error or Ctrl-C cancels what is not computed yet
            yield from executor.map(partial(self.predict_batch, graphs=graphs), parts)

    def make_batches(self, sentences: Sequence[Sentence]) -> list[list[int]]:
        """Return the indices of the sentences of each batch; sentences without words are in none.

        Sentences that are read as a block are in one batch, so that the block is computed once.
        """
        blocks = [[index] for index in range(len(sentences))]
        if self.block:
            blocks = group_blocks(sentences)
        blocks = [[index for index in block if sentences[index].words] for block in blocks]
        batches = group_by_length(
            [sum(sum(self.sizes(sentences[index].words)) for index in block) for block in blocks],
            lengths=[max((len(sentences[index]) for index in block), default=0) for block in blocks],
            members=[len(block) for block in blocks],
            count=self.predict_settings.batch_size,
            area=self.engine.subwords_per_batch or np.inf,
            pairs=WORD_PAIRS,
        )
        return [[index for number in batch for index in blocks[number]] for batch in batches]

    def predict_batch(
        self, sentences: Sequence[Sentence], watch: Watch | None = None, graphs: Graphs | None = None
    ) -> list[list[Entity]]:
        """Return the entities of sentences that are computed together; `graphs` replaces the engine's."""
        try:
            words, scores = self.compute_scores(sentences, self.engine.graphs if graphs is None else graphs)
            if watch is not None:  # before candidates, which are refused if they are NaN
                watch(sentences, words, scores)
            selection = self.select(sentences, scores)
        except GraphMismatch as error:
            message = f"the graphs do not fit the model's config: {error}; export the model again"
            raise DataError(message, source=self._source) from None
        return self._make_entities(selection, len(sentences), words.vectors.shape[1])

    def compute_scores(self, sentences: Sequence[Sentence], graphs: Graphs) -> tuple[WordArrays, Any]:
        """Return the word vectors of a batch, and the decoder's scores."""
        arrays = self.inputs(sentences)
        words = _check_words(graphs[ENCODER](**arrays), arrays["lengths"])
        return words, self.decoder.score(words, graphs, self.predict_settings)

    def select(self, sentences: Sequence[Sentence], scores: Any) -> Candidates:
        """Return the candidates of a batch that are selected as entities, with calibrated confidences."""
        candidates = self.decoder.candidates(scores, self.predict_settings)
        if candidates.type.max(initial=-1) >= len(self.types):
            raise GraphMismatch(f"the graphs predict more types than the {len(self.types)} of the model")
        selection = self.predict_settings.select_entities(candidates, self.types, sentences)
        return replace(selection, confidence=self.calibration.apply(selection.confidence))

    def _make_entities(self, selection: Candidates, sentences: int, length: int) -> list[list[Entity]]:
        """Return the selected entities of each sentence of a batch that is padded to `length` words."""
        entities: list[list[Entity]] = [[] for _ in range(sentences)]
        arrays = (selection.start, selection.end, selection.type, selection.confidence)
        for start, end, type_, confidence in zip(*(array.tolist() for array in arrays), strict=True):
            owner, first = divmod(start, length)
            entities[owner].append(Entity(first, end - owner * length, self.types[type_], confidence))
        return entities

    def try_out(self, folder: Path) -> Self:
        """Predict the entities of an example, and return the predictor; raise `DataError` if that fails.

        Each file of a model may be valid by itself although they do not fit together.
        """
        words: Sequence[str] = EXAMPLE
        if self.room is not None:  # as many words as fit, but at least one
            words = EXAMPLE[: max(1, int((np.cumsum(self.sizes(EXAMPLE)) <= self.room).sum()))]
        with refuse_broken(folder):
            self.predict_entities([Sentence(words)], _check_finite)
        return self


@contextmanager
def refuse_broken(folder: Path) -> Iterator[None]:
    """Raise `DataError` for any error in the block, in which a model is run for the first time."""
    try:
        yield
    except FencepostError:
        raise
    except Exception as error:  # noqa: BLE001 - after any error, the model cannot be used
        message = f"the model does not work; its files do not fit together ({describe_error(error)})"
        raise DataError(message, source=str(folder)) from None


def _check_finite(sentences: Sequence[Sentence], words: WordArrays, scores: Any) -> None:  # noqa: ARG001
    if not np.isfinite(words.vectors).all():
        raise ValueError("the word vectors are not finite numbers")


def _check_words(outputs: Sequence[npt.NDArray[Any]], lengths: npt.NDArray[np.int64]) -> WordArrays:
    """Return the encoder's outputs, checked: word vectors and, for some methods, prompt vectors."""
    shapes = [(output.dtype.kind, output.ndim, output.shape[:1]) for output in outputs]
    expected = ("f", 3, lengths.shape)
    if shapes not in ([expected], [expected] * 2) or outputs[0].shape[1] != lengths.max():
        raise GraphMismatch("the encoder does not return one vector for each word")
    return WordArrays(outputs[0], lengths, *outputs[1:])
