"""Engines and predictors.

An engine runs the named graphs of a model: arrays in, arrays out. It is PyTorch (`runtime/pytorch.py`) or
onnxruntime (`runtime/onnx.py`). A `Predictor` does the rest, the same for both:

sentences -> arrays -> encoder graph -> the method's decoder, which runs the method's graphs -> entities
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from fencepost.errors import DataError, FencepostError, UsageError, describe_error
from fencepost.evaluation import Temperature
from fencepost.methods.candidates import Candidates
from fencepost.methods.decoder import Decoder, GoldArrays, GraphMismatch, Graphs, Report, WordArrays
from fencepost.methods.registry import METHODS
from fencepost.methods.settings import PredictSettings

ENCODER = "encoder"
"""The name of the graph that every model has; all others are its method's."""

LOOK_AHEAD = 1024
"""Sentences that are sorted by length at a time."""

WORD_PAIRS = 1_000_000
"""Pairs of words of a batch with its padding, unless one sentence alone has more."""

EXAMPLE = ("Ada", "met", "Charles", ".")
"""The sentence that a model is tested with when it is loaded."""

EngineName = Literal["auto", "int8", "onnx", "pytorch"]
DeviceName = Literal["auto", "cpu", "cuda", "mps"]

Watch = Callable[[Sequence[Sentence], WordArrays, Any], None]
"""Is called with each batch of sentences, their word vectors and what the method's decoder scores."""


class Engine(Protocol):
    """Runs the graphs of a model."""

    name: str
    """`pytorch`, `onnx` or `int8`."""

    @property
    def graphs(self) -> Graphs:
        """What runs each graph, by name; `encoder` is one of them."""

    @property
    def pieces(self) -> int | None:
        """Pieces of a batch at which it is fastest; None if the number of sentences alone counts."""

    @property
    def threads(self) -> int:
        """Number of batches that may be computed at once."""

    def open_single(self) -> Graphs | None:
        """Return graphs of which each call takes one thread; None if there are none."""


class Predictor:
    """Finds entities in sentences that fit into the encoder."""

    def __init__(
        self,
        engine: Engine,
        config: Config,
        types: Sequence[str],
        inputs: InputReader,
        calibration: Temperature,
        source: str = "the model",
    ) -> None:
        """`source` is how errors name the model."""
        self.engine, self.config, self.inputs, self.calibration = engine, config, inputs, calibration
        self.types = tuple(types)
        self.predict_settings: PredictSettings = config.predict
        self._source = source
        try:
            self.decoder: Decoder[Any] = METHODS[config.method.name].decoder(config.method, self.types)
        except Exception as error:  # noqa: BLE001 - a decoder of another package checks in its own way
            message = f"the settings of the method cannot be used: {describe_error(error)}"
            raise DataError(message, source=source) from None

    @property
    def name(self) -> str:
        """The engine's name."""
        return self.engine.name

    @property
    def method(self) -> str:
        """The name of the method."""
        return self.config.method.name

    @property
    def language(self) -> str:
        """The language whose rules split raw text."""
        return self.config.text.language or "en"  # older models do not say

    @property
    def lines(self) -> Lines:
        """Which line breaks of raw text end a sentence."""
        return self.config.text.lines

    @property
    def profile(self) -> TextProfile | None:
        """What the training text looks like; None for models of earlier versions."""
        return self.config.text.profile

    @property
    def subwords(self) -> Subwords | None:
        """The tokenizer, if the encoder has one."""
        return self.inputs.subwords

    @property
    def context(self) -> int:
        """The number of neighbouring sentences on each side that the encoder reads."""
        return self.config.encoder.context

    @property
    def room(self) -> int | None:
        """The largest size of a sentence, in the unit of `sizes`; None is any."""
        return self.inputs.room

    def sizes(self, words: Sequence[str]) -> list[int]:
        """Return the size of each word."""
        return self.inputs.sizes(words)

    def with_options(self, settings: dict[str, Any]) -> Self:
        """Return the same predictor with other settings of prediction."""
        other = copy.copy(self)
        other.predict_settings = self.predict_settings.with_changes(settings)
        other.predict_settings.thresholds(self.types)  # of types that the model has
        return other

    def find_entities(self, sentences: Sequence[Sentence], watch: Watch | None = None) -> list[list[Entity]]:
        """Return the entities of each sentence; none may be larger than the room.

        `watch` is called with one batch after another; without it, several are computed at once.
        """
        entities: list[list[Entity]] = [[] for _ in sentences]
        batches = self.batches(sentences)
        for batch, of_batch in zip(batches, self._compute(sentences, batches, watch), strict=True):
            for index, of_sentence in zip(batch, of_batch, strict=True):
                entities[index] = of_sentence
        return entities

    def _compute(
        self, sentences: Sequence[Sentence], batches: Sequence[Sequence[int]], watch: Watch | None
    ) -> Iterator[list[list[Entity]]]:
        """Yield the entities of each batch, in order.

        Where each thread of the engine has a batch to compute, that is faster than to share each batch
        among them: they wait for each other only once, and not after each operation.
        """
        owned = ([sentences[index] for index in batch] for batch in batches)
        threads = self.engine.threads
        graphs = self.engine.open_single() if watch is None and len(batches) >= threads > 1 else None
        if graphs is None:
            yield from (self.find_in_batch(batch, watch) for batch in owned)
            return
        with ThreadPoolExecutor(threads) as executor:  # an error or Ctrl-C cancels what is not computed yet
            yield from executor.map(partial(self.find_in_batch, graphs=graphs), owned)

    def batches(self, sentences: Sequence[Sentence]) -> list[list[int]]:
        """Return the indices of sentences that are computed together; those without words are in no batch."""
        return list(
            group_by_length(
                [sum(self.sizes(sentence.words)) for sentence in sentences],
                lengths=[len(sentence) for sentence in sentences],
                count=self.predict_settings.batch_size,
                area=self.engine.pieces or np.inf,
                pairs=WORD_PAIRS,
            )
        )

    def find_in_batch(
        self, sentences: Sequence[Sentence], watch: Watch | None = None, graphs: Graphs | None = None
    ) -> list[list[Entity]]:
        """Return the entities of sentences that are computed together, by the engine's graphs or these."""
        arrays, predict = self.inputs(sentences), self.predict_settings
        graphs = self.engine.graphs if graphs is None else graphs
        try:
            words = _check_words(graphs[ENCODER](**arrays), arrays["lengths"])
            scores = self.decoder.score(words, graphs, predict)
            if watch is not None:  # before candidates, which are refused if they are NaN
                watch(sentences, words, scores)
            kept = self.select(sentences, scores)
        except GraphMismatch as error:
            message = f"the graphs do not fit the model's config: {error}; export the model again"
            raise DataError(message, source=self._source) from None
        return self._make_entities(kept, len(sentences), words.vectors.shape[1])

    def select(self, sentences: Sequence[Sentence], scores: Any) -> Candidates:
        """Return what the decoder's scores of a batch make entities, with calibrated confidences."""
        candidates = self.decoder.candidates(scores, self.predict_settings)
        if candidates.type.max(initial=-1) >= len(self.types):
            raise GraphMismatch(f"the graphs find more types than the {len(self.types)} of the model")
        kept = self.predict_settings.select_entities(candidates, self.types, sentences)
        return replace(kept, confidence=self.calibration.apply(kept.confidence))

    def _make_entities(self, kept: Candidates, sentences: int, length: int) -> list[list[Entity]]:
        """Return what was selected in a batch of sentences padded to `length` words, by sentence."""
        entities: list[list[Entity]] = [[] for _ in range(sentences)]
        columns = (kept.start.tolist(), kept.end.tolist(), kept.type.tolist(), kept.confidence.tolist())
        for start, end, type_, confidence in zip(*columns, strict=True):
            owner, first = divmod(start, length)
            entities[owner].append(Entity(first, end - owner * length, self.types[type_], confidence))
        return entities

    def make_reports(self, names: Sequence[str] | None = None) -> dict[str, Report]:
        """Return new reports that the method declares, all or those of these names; raises `UsageError`."""
        declared = METHODS[self.config.method.name].reports
        for name in names or ():
            if name not in declared:
                has = ", ".join(declared) or "none"
                raise UsageError(f"{self.config.method.name} has no report {name!r}; it has {has}")
        chosen = declared if names is None else {name: declared[name] for name in names}
        return {name: report(self.decoder, self.predict_settings) for name, report in chosen.items()}

    def watch_reports(self, reports: Mapping[str, Report]) -> Watch:
        """Return what adds each batch to these reports, for `find_entities`."""

        def watch(sentences: Sequence[Sentence], words: WordArrays, scores: Any) -> None:  # noqa: ARG001
            gold = GoldArrays.from_sentences(sentences, self.types)
            for report in reports.values():
                report.add(sentences, scores, gold)

        return watch

    def try_out(self, folder: Path) -> Self:
        """Find entities in one sentence; raise `DataError` if that fails.

        The files of a model may each be valid by themselves and not fit together.
        """
        words: Sequence[str] = EXAMPLE
        if self.room is not None:  # as many as fit, but one at least
            words = EXAMPLE[: max(1, int((np.cumsum(self.sizes(EXAMPLE)) <= self.room).sum()))]
        with refuse_broken(folder):
            self.find_entities([Sentence(words)], _check_finite)
        return self


@contextmanager
def refuse_broken(folder: Path) -> Iterator[None]:
    """Raise `DataError` for any error of a model that is run for the first time."""
    try:
        yield
    except FencepostError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, the model cannot be used
        message = f"the model does not work; its files do not fit together ({describe_error(error)})"
        raise DataError(message, source=str(folder)) from None


def _check_finite(sentences: Sequence[Sentence], words: WordArrays, scores: Any) -> None:  # noqa: ARG001
    if not np.isfinite(words.vectors).all():
        raise ValueError("the word vectors are not finite numbers")


def _check_words(outputs: Sequence[npt.NDArray[Any]], lengths: npt.NDArray[np.int64]) -> WordArrays:
    """Return what the encoder's graph gives, checked: word vectors and, with some methods, prompt vectors."""
    shapes = [(output.dtype.kind, output.ndim, output.shape[:1]) for output in outputs]
    expected = ("f", 3, lengths.shape)
    if shapes not in ([expected], [expected] * 2) or outputs[0].shape[1] != lengths.max():
        raise GraphMismatch("the encoder does not give one vector for each word")
    return WordArrays(outputs[0], lengths, *outputs[1:])
