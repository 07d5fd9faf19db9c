"""spaCy's own tokenizer, for languages without rules of ours: those that need a segmenter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.data.text.tokenizer import kind_of
from fencepost.errors import UsageError, describe_error

if TYPE_CHECKING:
    from spacy.language import Language

    from fencepost.data.text.tokenizer import Token

_VOCABULARY = 30_000
"""Number of words in spaCy's vocabulary, about 1 kB each, above which it is replaced by an empty one."""


class SpacyTokenizer:
    """The tokenizer of spaCy for a language; raises `UsageError` if there is none, or spaCy is missing."""

    def __init__(self, language: str) -> None:
        self._language = language
        self._nlp = _blank(language)

    def __call__(self, text: str) -> list[Token]:
        nlp = self._nlp  # one for the whole text: another thread may replace it
        if len(nlp.vocab) > _VOCABULARY:
            nlp = self._nlp = _blank(self._language)
        return [(token.idx, token.text, kind_of(token.text)) for token in nlp.make_doc(text)]


def _blank(language: str) -> Language:
    try:
        import spacy

        nlp = spacy.blank(language)
    except (AttributeError, ImportError, ValueError) as error:  # a module of spaCy's that is no language
        raise UsageError(
            f"there are no rules for the language {language!r}; give a language code such as en, de, zh or "
            "xx (any language). ja, ko, th and vi need spaCy (pip install 'fencepost[spacy]') and the "
            f"package that it asks for: {describe_error(error)}"
        ) from error
    nlp.max_length = 10**9  # the limit protects parsers, which we do not run
    return nlp
