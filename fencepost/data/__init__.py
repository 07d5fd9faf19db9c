"""Annotated corpora: read sentences from files in many formats, and write them.

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
    from fencepost.data.source import Note, Rejection
    from fencepost.data.writer import RepresentationError, WriteResult, write

__all__ = [
    "FORMATS",
    "Format",
    "Note",
    "ReadOptions",
    "Reader",
    "Rejection",
    "RepresentationError",
    "Statistics",
    "WriteOptions",
    "WriteResult",
    "read",
    "statistics",
    "write",
]

_MODULES = {
    "formats.format": ("Format", "ReadOptions", "WriteOptions"),
    "formats.registry": ("FORMATS",),
    "reader": ("Reader", "read"),
    "source": ("Note", "Rejection"),
    "counts": ("Statistics", "statistics"),
    "writer": ("RepresentationError", "WriteResult", "write"),
}
"""Modules that are imported only when one of their names is used, so that `import fencepost` is fast."""


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"fencepost.data.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
