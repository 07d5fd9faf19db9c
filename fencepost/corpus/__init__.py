"""Annotated corpora: files to sentences and back, in the formats that people have.

```python
from fencepost.corpus import read, write, statistics

for sentence in read("train.conll"):
    ...
write(read("train.conll"), "train.jsonl")
statistics(read("train.jsonl")).nested_share
```
"""

from fencepost.corpus.format import Format, ReadOptions, WriteOptions
from fencepost.corpus.formats import FORMATS
from fencepost.corpus.reader import Reader, read
from fencepost.corpus.source import Note, Rejected
from fencepost.corpus.statistics import Statistics, statistics
from fencepost.corpus.writer import CannotHold, Written, write

__all__ = [
    "FORMATS",
    "CannotHold",
    "Format",
    "Note",
    "ReadOptions",
    "Reader",
    "Rejected",
    "Statistics",
    "WriteOptions",
    "Written",
    "read",
    "statistics",
    "write",
]
