"""Settings that all methods share: those of training, and those of prediction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, PlainValidator, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from fencepost.data.entity import Sentence
from fencepost.encoder.settings import EncoderSettings
from fencepost.errors import UsageError, shorten
from fencepost.methods.candidates import Candidates, FloatArray, select
from fencepost.methods.edges import Edge, Marks, find_trims
from fencepost.settings import Settings, merge_trees, validate_settings

_Probability = Annotated[float, Field(ge=0, le=1)]


def _parse_threshold(value: Any) -> Any:
    kind: Any = dict[str, _Probability] if isinstance(value, Mapping) else _Probability | None
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError:
        message = "should be a number from 0 to 1, or one for each type as {example}"
        raise PydanticCustomError("threshold", message, {"example": "{TYPE: 0.5}"}) from None


class MethodSettings(Settings):
    """What a method is trained with; subclasses fix `name` and add their own."""

    name: str
    searched: ClassVar[Mapping[str, Any]] = {}
    """What `fencepost tune` searches by default: by key, `low` and `high`, or a list of values."""

    def fitted(self, sentences: Sequence[Sentence]) -> Self:  # noqa: ARG002
        """Return these settings with what depends on the training data filled in."""
        return self

    def trained_lengths(self) -> Sequence[int] | None:
        """Return the lengths, in words, of the spans that training enumerates; None is all."""
        return None

    def prompts(self, types: Sequence[str]) -> int:  # noqa: ARG002
        """Return how many prompt vectors the encoder puts before each sentence."""
        return 0

    def prompt_names(self, types: Sequence[str]) -> Sequence[str]:  # noqa: ARG002
        """Return words as whose embeddings the prompts start, one for each; none start at random."""
        return ()

    def idle(self, encoder: EncoderSettings) -> Iterator[str]:  # noqa: ARG002
        """Yield each setting that was given and has no effect with the others or this encoder, and why."""
        yield from ()


class PredictSettings(Settings):
    """What may be changed after training; methods add their own."""

    overlapping: ClassVar[str] = "nested"
    """What `auto` is where training entities overlap."""
    usual_threshold: ClassVar[float] = 0.4
    """Of types without a threshold: those of a model that was trained without development data."""

    select: Literal["auto", "flat", "nested", "keep-all", "soft-nms"] = Field(
        "auto", description="Which candidates are kept; auto is flat where no training entities overlap."
    )
    threshold: Annotated[float | dict[str, float] | None, PlainValidator(_parse_threshold)] = Field(
        None,
        description="Minimum confidence, before calibration, of an entity: one number, or one for each type. "
        "Unless set, what is best on the development data.",
    )
    trim: tuple[Edge, ...] | None = Field(
        None,
        description="What is cut off at the edges of entities where it belongs to the sentence: possessive "
        "('s), quotes, brackets. Unless set, what hardly any training entity has there.",
    )
    batch_size: int = Field(32, ge=1, le=65_536, description="Sentences that are predicted together.")

    def fitted(self, sentences: Sequence[Sentence]) -> Self:
        """Return these settings with what is not set replaced by what the training data asks for."""
        trim = find_trims(sentences) if self.trim is None else self.trim
        return self.model_copy(update={"select": self._fitted_select(sentences), "trim": trim})

    def _fitted_select(self, sentences: Sequence[Sentence]) -> str:
        if self.select != "auto":
            return self.select
        overlapping = any(
            left.end > right.start and left.key != right.key  # a repetition is no overlap
            for sentence in sentences
            for left, right in zip(sentence.entities, sentence.entities[1:], strict=False)
        )
        return self.overlapping if overlapping else "flat"

    def thresholds(self, types: Sequence[str]) -> FloatArray:
        """Return the minimum confidence of each type: `[C]`; raise `UsageError` for other types."""
        by_type = self.threshold if isinstance(self.threshold, dict) else {}
        usual = self.threshold if isinstance(self.threshold, float) else self.usual_threshold
        for type_ in by_type.keys() - set(types):
            raise UsageError(f"predict.threshold: {UsageError.unknown('type', shorten(type_), types)}")
        return np.array([by_type.get(type_, usual) for type_ in types])

    def lowest_threshold(self) -> float:
        """Return a confidence below which a candidate of no type is an entity."""
        if isinstance(self.threshold, dict):
            return min([self.usual_threshold, *self.threshold.values()])
        return self.usual_threshold if self.threshold is None else self.threshold

    def with_changes(self, settings: Mapping[str, Any]) -> Self:
        """Return these settings with other values, by key; raise `UsageError` for one that is wrong."""
        if settings.get("select") == "auto" != self.select:
            raise UsageError(
                f"predict.select: auto is for training; this model was trained for {self.select}"
            )
        return validate_settings(
            type(self), merge_trees(self.model_dump(mode="json"), settings), key="predict"
        )

    def select_entities(
        self, candidates: Candidates, types: Sequence[str], sentences: Sequence[Sentence] = ()
    ) -> Candidates:
        """Return those candidates that reach the thresholds of their types and do not clash.

        They are those of a batch, whose sentences are needed to trim them.
        """
        thresholds = self.thresholds(types)
        likely = candidates.above(thresholds)
        if self.trim and (marks := Marks.of(sentences, max(map(len, sentences), default=0), self.trim)):
            likely = marks.trim(likely)
        return self.resolve_clashes(likely).above(thresholds)

    def resolve_clashes(self, candidates: Candidates) -> Candidates:
        """Return those candidates that do not clash with better ones; confidences may become lower."""
        return select(candidates, self.select)
