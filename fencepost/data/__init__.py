"""Annotated corpora: files to sentences and back, in the formats that people have.

```python
from fencepost.data import read, write, statistics

for sentence in read("train.conll"):
    ...
write(read("train.conll"), "train.jsonl")
statistics(read("train.jsonl")).nested_share
```
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fencepost.data.counts import Statistics, statistics
    from fencepost.data.formats.format import Format, ReadOptions, WriteOptions
    from fencepost.data.formats.registry import FORMATS
    from fencepost.data.reader import Reader, read
    from fencepost.data.source import Note, Rejected
    from fencepost.data.writer import CannotHold, Written, write

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

_MODULES = {
    "formats.format": ("Format", "ReadOptions", "WriteOptions"),
    "formats.registry": ("FORMATS",),
    "reader": ("Reader", "read"),
    "source": ("Note", "Rejected"),
    "counts": ("Statistics", "statistics"),
    "writer": ("CannotHold", "Written", "write"),
}
"""Modules that are imported when one of their names is used: `import fencepost` needs none of them."""


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"fencepost.data.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
