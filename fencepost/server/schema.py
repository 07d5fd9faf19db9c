"""Schemas of the JSON of requests and responses."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError

from fencepost.runtime.offsets import OffsetUnit

ADA = "Ada Lovelace was born in London."
_ANSWER: JsonDict = {"start": 0, "end": 12, "type": "person", "score": 0.9873, "text": "Ada Lovelace"}

_Confidence = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
MIN_CONFIDENCE_TAGS = ("one number", "by type")
MinConfidence = Annotated[
    Annotated[_Confidence, Tag(MIN_CONFIDENCE_TAGS[0])]
    | Annotated[dict[str, _Confidence], Field(max_length=1000), Tag(MIN_CONFIDENCE_TAGS[1])],
    Discriminator(lambda value: MIN_CONFIDENCE_TAGS[isinstance(value, dict)]),
]
"""Minimum confidence of all types, or by type; the tags are in the locations of its errors."""


class EntitiesRequest(BaseModel):
    """One text or several, and options that select the entities."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [{"text": ADA, "min_confidence": 0.5}],
            "oneOf": [
                {"required": [name], "properties": {name: {"not": {"type": "null"}}}}
                for name in ("text", "texts")
            ],
        },
    )

    text: str | None = Field(default=None, description="A single text; either this or `texts` is required.")
    texts: Annotated[list[str], Field(fail_fast=True)] | None = Field(
        default=None, description="Several texts; either this or `text` is required."
    )
    min_confidence: MinConfidence = Field(
        default=0.0,
        description="Minimum confidence of the entities: one number, or one by type (0 for other types).",
    )
    types: Annotated[list[str], Field(fail_fast=True, max_length=1000)] | None = Field(
        default=None, description="Entity types to return; by default all."
    )
    flat: bool | None = Field(
        default=None,
        description="True if entities may not overlap, false if they may be nested; by default as in the "
        "model's training data.",
    )
    model: str | None = Field(
        default=None, description="Name of a model of this server; by default the first."
    )
    offsets: OffsetUnit = Field(
        default="characters",
        description="Unit of `start` and `end`: characters (Unicode code points), UTF-16 units (as in "
        "JavaScript and Java) or bytes of UTF-8.",
    )

    @model_validator(mode="after")
    def _check_texts(self) -> Self:
        if (self.text is None) == (self.texts is None):
            raise PydanticCustomError("text", "give either `text` or `texts`")
        return self

    def get_min_confidence(self, type_: str) -> float:
        """Return the minimum confidence of a type."""
        least = self.min_confidence
        return least.get(type_, 0.0) if isinstance(least, dict) else least

    @property
    def all_texts(self) -> list[str]:
        return [self.text] if self.text is not None else self.texts or []


class PredictedEntity(BaseModel):
    """An entity of type `type` at `[start, end)` of the text, in the unit that `offsets` sets."""

    model_config = ConfigDict(json_schema_extra={"examples": [_ANSWER]})

    start: int
    end: int
    type: str
    score: float = Field(description="Confidence, from 0 to 1.")
    text: str


class Result(BaseModel):
    """The entities of one text, in reading order."""

    entities: list[PredictedEntity]


class EntitiesResponse(BaseModel):
    """Results of the texts, in the same order."""

    results: list[Result]


class RequestLimits(BaseModel):
    """Limits of a request."""

    model_config = ConfigDict(from_attributes=True)

    texts: int = Field(description="Maximum number of texts.")
    characters: int = Field(description="Maximum number of characters of a text.")
    words: int = Field(
        description="Maximum number of words of a text; a rare or long word counts as several."
    )
    request_words: int = Field(description="Maximum number of words of all texts together.")
    body: int = Field(description="Maximum size of the body in bytes.")


class ServedModel(BaseModel):
    """A model of this server."""

    name: str
    method: str
    engine: str
    language: str
    lines: str = Field(description="Line breaks that end a sentence: `auto`, `break` or `join`.")
    types: list[str]
    select: str = Field(description="How entities may overlap, unless a request sets `flat`.")


class ModelFacts(ServedModel):
    """The first model of this server, which answers requests without `model`, and all its models."""

    models: list[ServedModel]
    version: str = Field(description="Version of Fencepost.")
    limits: RequestLimits


class FieldError(BaseModel):
    """Error in a field of the request."""

    loc: list[str | int] = Field(
        description="Location: `body`, then the names of fields and indices of lists."
    )
    msg: str
    type: str


class FieldErrors(BaseModel):
    """Errors in the fields of a request."""

    detail: list[FieldError]


class ErrorResponse(BaseModel):
    """Reason for which a request was not answered."""

    detail: str
