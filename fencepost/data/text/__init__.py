"""Split raw text into sentences and words, and align annotations in characters with them."""

from fencepost.data.text.alignment import WORD_SPLIT, CharSpan, align, split_document
from fencepost.data.text.splitter import Splitter, make_splitter

__all__ = [
    "WORD_SPLIT",
    "CharSpan",
    "Splitter",
    "align",
    "make_splitter",
    "split_document",
]
