"""Split raw text into sentences and words, and align annotations in characters with them."""

from fencepost.data.text.alignment import WORD_SPLIT, AlignedText, CharSpan, align, split_document
from fencepost.data.text.splitter import RuleSplitter, Splitter, WhitespaceSplitter, make_splitter

__all__ = [
    "WORD_SPLIT",
    "AlignedText",
    "CharSpan",
    "RuleSplitter",
    "Splitter",
    "WhitespaceSplitter",
    "align",
    "make_splitter",
    "split_document",
]
