"""`Document`: a text with its entities, as `Recogniser` returns it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fencepost.data.entity import Sentence
from fencepost.data.text.splitter import Offsets
from fencepost.errors import UsageError, require_extra
from fencepost.runtime.offsets import OffsetUnit, convert_offsets

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    from spacy.language import Language
    from spacy.tokens import Doc

DIGITS = 4
"""Number of decimal places of a confidence in JSON and in tables."""


@dataclass(frozen=True, slots=True)
class Span:
    """An entity of a text: the characters `text[start:end]`, their type, and the confidence `score`."""

    start: int
    end: int
    type: str
    score: float
    text: str

    @property
    def label(self) -> str:
        """The type, by the name that spaCy and Hugging Face use."""
        return self.type

    def to_dict(self) -> dict[str, Any]:
        """Return the entity as a JSON object, with a rounded score."""
        return {
            "start": self.start,
            "end": self.end,
            "type": self.type,
            "score": round(self.score, DIGITS),
            "text": self.text,
        }


class Document(list[Span]):
    """The entities of a text in reading order: a list, with the text and its sentences.

    `sentences` have the words, and the entities by word; `offsets[i][j]` are the start and the end of word
    `j` of sentence `i` in the text.
    """

    def __init__(
        self, text: str, sentences: Sequence[Sentence] = (), offsets: Sequence[Sequence[Offsets]] = ()
    ) -> None:
        self.text, self.sentences, self.offsets = text, sentences, offsets
        super().__init__(
            Span(
                start := words[entity.start][0],
                end := words[entity.end - 1][1],
                entity.type,
                entity.score,
                text[start:end],
            )
            for sentence, words in zip(sentences, offsets, strict=True)
            for entity in sentence.entities
        )

    def to_dict(self, offsets: OffsetUnit = "characters") -> dict[str, Any]:
        """Return the text and its entities as a JSON object.

        `start` and `end` count characters, UTF-16 units (`utf-16`, as in JavaScript and Java) or bytes of
        UTF-8 (`bytes`).
        """
        spans = convert_offsets(self.text, self, offsets)
        return {"text": self.text, "entities": [span.to_dict() for span in spans]}

    def to_json(self, offsets: OffsetUnit = "characters", indent: int | None = None) -> str:
        """Return `to_dict` as a string of JSON."""
        return json.dumps(self.to_dict(offsets), ensure_ascii=False, indent=indent)

    def to_html(self) -> str:
        """Return a page that shows the text with a line under each entity; it loads and runs nothing."""
        from fencepost.runtime.prediction.html import draw_page

        return draw_page(self)

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from fencepost.runtime.prediction.html import draw_fragment

        return draw_fragment(self)

    def to_dataframe(self) -> pd.DataFrame:
        """Return a pandas data frame with a row for each entity: `start`, `end`, `type`, `score`, `text`."""
        try:
            import pandas as pd
        except ModuleNotFoundError:  # no extra of Fencepost installs it
            raise UsageError(
                "to_dataframe needs pandas, which is not installed: pip install pandas"
            ) from None
        columns = list(Span.__dataclass_fields__)
        return pd.DataFrame([[getattr(span, name) for name in columns] for span in self], columns=columns)

    def to_spacy(
        self, nlp: Language | None = None, *, spans_key: str = "fencepost", ents: str | None = "outermost"
    ) -> Doc:
        """Return a spaCy document with all entities in `doc.spans`, and flat ones in `doc.ents`.

        `nlp` splits the text into tokens, by default an empty English pipeline. An entity gets all tokens
        that it touches. `ents` chooses among overlapping entities: `outermost`, `innermost`, `best`, or None
        to leave `doc.ents` as it is.
        """
        with require_extra("spacy", "to_spacy"):
            import spacy

            from fencepost.integrations.spacy_marking import Marking
        doc = (nlp or spacy.blank("en"))(self.text)
        Marking(spans_key, ents, overwrite_ents=False, alignment_mode="expand")(doc, self)
        return doc
