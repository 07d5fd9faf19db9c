"""Data sets of the `datasets` library to sentences; any other rows that are dictionaries are read as well."""

from fencepost.data.rows import Rows, sentences

__all__ = ["Rows", "sentences"]
