"""Base classes of the methods' settings: those of training, and those of prediction."""

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
from fencepost.methods.trimming import TrimKind, TrimmableWords, find_trims
from fencepost.settings import Settings, merge_trees, validate_settings

_Probability = Annotated[float, Field(ge=0, le=1)]


def _parse_threshold(value: Any) -> Any:
    annotation: Any = dict[str, _Probability] if isinstance(value, Mapping) else _Probability | None
    try:
        return TypeAdapter(annotation).validate_python(value)
    except ValidationError:
        message = "should be a number from 0 to 1, or one for each type as {example}"
        raise PydanticCustomError("threshold", message, {"example": "{TYPE: 0.5}"}) from None


class MethodSettings(Settings):
    """Settings of a method in training; subclasses set `name` and add settings."""

    name: str
    searched: ClassVar[Mapping[str, Any]] = {}
    """Settings that `fencepost tune` searches by default: `low` and `high`, or a list of values, by key."""

    def fit_to(self, sentences: Sequence[Sentence]) -> Self:  # noqa: ARG002
        """Return these settings with those that depend on the training data filled in."""
        return self

    def trained_lengths(self) -> Sequence[int] | None:
        """Return the lengths, in words, of the spans that training enumerates; None for all lengths."""
        return None

    def prompts(self, types: Sequence[str]) -> int:  # noqa: ARG002
        """Return the number of prompt vectors that the encoder reads before each sentence."""
        return 0

    def prompt_names(self, types: Sequence[str]) -> Sequence[str]:  # noqa: ARG002
        """Return the words whose embeddings initialise the prompts; empty for random prompts."""
        return ()

    def idle(self, encoder: EncoderSettings) -> Iterator[str]:  # noqa: ARG002
        """Yield a message for each setting without effect, given the other settings and the encoder."""
        yield from ()


class PredictSettings(Settings):
    """Settings of prediction, which may be changed after training; subclasses add settings."""

    overlapping: ClassVar[str] = "nested"
    """Value that `select: auto` stands for if training entities overlap."""
    default_threshold: ClassVar[float] = 0.4
    """Threshold of types for which none is set and none was fitted to development data."""

    select: Literal["auto", "flat", "nested", "keep-all", "soft-nms"] = Field(
        "auto",
        description="How entities are selected among overlapping candidates; auto is flat if no training "
        "entities overlap.",
    )
    threshold: Annotated[float | dict[str, float] | None, PlainValidator(_parse_threshold)] = Field(
        None,
        description="Minimum confidence of an entity, before calibration: a number, or one for each type; by "
        "default fitted to the development data.",
    )
    trim: tuple[TrimKind, ...] | None = Field(
        None,
        description="Words to trim at the boundaries of entities: possessive ('s), quotes, brackets; by "
        "default those that hardly any training entity has there.",
    )
    batch_size: int = Field(32, ge=1, le=65_536, description="Number of sentences predicted together.")

    def fit_to(self, sentences: Sequence[Sentence]) -> Self:
        """Return these settings with those that are not set chosen by the training data."""
        trim = find_trims(sentences) if self.trim is None else self.trim
        return self.model_copy(update={"select": self._choose_select(sentences), "trim": trim})

    def _choose_select(self, sentences: Sequence[Sentence]) -> str:
        if self.select != "auto":
            return self.select
        overlapping = any(
            left.end > right.start and left.key != right.key  # repeated entities do not overlap
            for sentence in sentences
            for left, right in zip(sentence.entities, sentence.entities[1:], strict=False)
        )
        return self.overlapping if overlapping else "flat"

    def thresholds(self, types: Sequence[str]) -> FloatArray:
        """Return the threshold of each type, `[C]`; raise `UsageError` if one is set for another type."""
        by_type = self.threshold if isinstance(self.threshold, dict) else {}
        default = self.threshold if isinstance(self.threshold, float) else self.default_threshold
        for type_ in by_type.keys() - set(types):
            raise UsageError(f"predict.threshold: {UsageError.unknown('type', shorten(type_), types)}")
        return np.array([by_type.get(type_, default) for type_ in types])

    def lowest_threshold(self) -> float:
        """Return the lowest threshold of all types."""
        if isinstance(self.threshold, dict):
            return min([self.default_threshold, *self.threshold.values()])
        return self.default_threshold if self.threshold is None else self.threshold

    def with_changes(self, settings: Mapping[str, Any]) -> Self:
        """Return these settings with other values, by key; raise `UsageError` for invalid ones."""
        if settings.get("select") == "auto" != self.select:
            raise UsageError(
                f"predict.select: auto is for training only; this model was trained with {self.select}"
            )
        return validate_settings(
            type(self), merge_trees(self.model_dump(mode="json"), settings), key="predict"
        )

    def select_entities(
        self, candidates: Candidates, types: Sequence[str], sentences: Sequence[Sentence] = ()
    ) -> Candidates:
        """Return the candidates of a batch that reach their thresholds, trimmed, and do not clash.

        Candidates are trimmed only if the sentences of the batch are given.
        """
        thresholds = self.thresholds(types)
        likely = candidates.select_above(thresholds)
        length = max(map(len, sentences), default=0)
        if self.trim and (trimmable := TrimmableWords.find(sentences, length, self.trim)):
            likely = trimmable.trim(likely)
        return self.resolve_clashes(likely).select_above(thresholds)

    def resolve_clashes(self, candidates: Candidates) -> Candidates:
        """Return the candidates that do not clash with better ones; confidences may become lower."""
        return select(candidates, self.select)
