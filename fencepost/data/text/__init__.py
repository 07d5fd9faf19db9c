"""Raw text to words and sentences, and back to characters."""

from fencepost.data.text.alignment import CharSpan, Document, align
from fencepost.data.text.splitter import SpacySplitter, Splitter, WhitespaceSplitter, make_splitter

__all__ = [
    "CharSpan",
    "Document",
    "SpacySplitter",
    "Splitter",
    "WhitespaceSplitter",
    "align",
    "make_splitter",
]
