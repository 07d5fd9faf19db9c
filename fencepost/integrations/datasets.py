"""Conversion of data sets of the `datasets` library, or of any dictionaries, to sentences."""

from fencepost.data.rows import Rows, sentences

__all__ = ["Rows", "sentences"]
