"""The JSON of requests and answers."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError

from fencepost.runtime.offsets import OffsetUnit

ADA = "Ada Lovelace was born in London."
_ANSWER: JsonDict = {"start": 0, "end": 12, "type": "person", "score": 0.9873, "text": "Ada Lovelace"}


class Question(BaseModel):
    """One text or several, and which entities to find in them."""

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

    text: str | None = Field(default=None, description="The text; or give `texts`.")
    texts: Annotated[list[str], Field(fail_fast=True)] | None = Field(
        default=None, description="Several texts; or give `text`."
    )
    min_confidence: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = Field(
        default=0.0, description="Leave out entities with a lower score."
    )
    types: Annotated[list[str], Field(fail_fast=True, max_length=1000)] | None = Field(
        default=None, description="Only entities of these types; unless set, of all."
    )
    flat: bool | None = Field(
        default=None,
        description="Whether entities may not lie inside others; unless set, as the model was trained.",
    )

    offsets: OffsetUnit = Field(
        default="characters",
        description="What `start` and `end` count: characters (Unicode code points), UTF-16 units (as in "
        "JavaScript and Java) or bytes of UTF-8.",
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.text is None) == (self.texts is None):
            raise PydanticCustomError("text", "give either `text` or `texts`")
        return self

    @property
    def all_texts(self) -> list[str]:
        return [self.text] if self.text is not None else self.texts or []


class FoundEntity(BaseModel):
    """The characters `[start, end)` of the text are a `type`; or other units, if `offsets` says so."""

    model_config = ConfigDict(json_schema_extra={"examples": [_ANSWER]})

    start: int
    end: int
    type: str
    score: float = Field(description="The confidence, from 0 to 1.")
    text: str


class Result(BaseModel):
    """The entities of one text, in reading order."""

    entities: list[FoundEntity]


class Answer(BaseModel):
    """One result for each text, in the order of the texts."""

    results: list[Result]


class RequestLimits(BaseModel):
    """Largest request that is answered."""

    model_config = ConfigDict(from_attributes=True)

    texts: int
    characters: int = Field(description="Of one text.")
    words: int = Field(description="Of one text. A rare or long word counts as several.")
    request_words: int = Field(description="Of all texts of a request together.")
    body: int = Field(description="Bytes.")


class ModelFacts(BaseModel):
    """The model that runs here."""

    name: str
    method: str
    engine: str
    language: str
    lines: str = Field(description="Line breaks that end a sentence: `auto`, `break` or `join`.")
    types: list[str]
    select: str = Field(description="How entities may overlap, unless a request says `flat`.")
    version: str = Field(description="Of Fencepost.")
    limits: RequestLimits


class Problem(BaseModel):
    """What is wrong with a field of the request."""

    loc: list[str | int] = Field(description="Where: `body`, then the names of fields and places in lists.")
    msg: str
    type: str


class Problems(BaseModel):
    """Why a request was refused, field by field."""

    detail: list[Problem]


class Refusal(BaseModel):
    """Why there is no answer."""

    detail: str
