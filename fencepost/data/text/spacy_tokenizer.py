"""spaCy's own tokenizer, for languages that need a segmenter and have no rules in `rules/`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.data.text.tokenizer import classify
from fencepost.errors import UsageError, describe_error

if TYPE_CHECKING:
    from spacy.language import Language

    from fencepost.data.text.tokenizer import Token

_VOCABULARY = 30_000
"""Number of words in spaCy's vocabulary, at about 1 kB each, above which it is replaced by an empty one."""


class SpacyTokenizer:
    """The tokenizer of spaCy for a language; raises `UsageError` if there is none, or spaCy is missing."""

    def __init__(self, language: str) -> None:
        self._language = language
        self._nlp = _load_blank(language)

    def __call__(self, text: str) -> list[Token]:
        nlp = self._nlp  # use the same one for the whole text: another thread may replace it
        if len(nlp.vocab) > _VOCABULARY:
            nlp = self._nlp = _load_blank(self._language)
        return [(token.idx, token.text, classify(token.text)) for token in nlp.make_doc(text)]


def _load_blank(language: str) -> Language:
    try:
        import spacy

        nlp = spacy.blank(language)
    except (AttributeError, ImportError, ValueError) as error:  # AttributeError: the module is not a language
        raise UsageError(
            f"there are no rules for the language {language!r}; give a language code such as en, de, zh or "
            "xx (any language). ja, ko, th and vi need spaCy (pip install 'fencepost[spacy]') and the "
            f"package that it asks for: {describe_error(error)}"
        ) from error
    nlp.max_length = 10**9  # the limit protects parsers, which are not run here
    return nlp
