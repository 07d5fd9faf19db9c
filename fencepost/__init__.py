"""Named entity recognition that gets entity boundaries right.

```python
import fencepost

ner = fencepost.load()
for entity in ner("Ada Lovelace was born in London."):
    print(entity.text, entity.type, entity.start, entity.end, entity.score)
```
"""

import os
from typing import TYPE_CHECKING, Any

# Usage statistics of libraries are off unless the user has set these variables. They are read when a
# library is imported, and no part of Fencepost imports one of these before this line.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # onnxruntime
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # huggingface_hub, transformers, datasets
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

# PyTorch's threads wait busily for each other for milliseconds unless one of these is set before it is
# imported: beside another program, training is then many times slower. On an idle machine a short wait costs
# up to an eighth of the speed, and no wait at all a quarter (docs/speed.md).
if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys():
    os.environ["GOMP_SPINCOUNT"] = "10000"

from fencepost.data.entity import Entity, Sentence
from fencepost.errors import DataError, FencepostError, LanguageWarning, UsageError

if TYPE_CHECKING:
    from fencepost.data.reader import read
    from fencepost.data.writer import write
    from fencepost.experiments.learning import train
    from fencepost.runtime.document import Document, Span
    from fencepost.runtime.loading import load
    from fencepost.runtime.recogniser import Recogniser
    from fencepost.runtime.scores import evaluate

__version__ = "0.2.0"

__all__ = [
    "DataError",
    "Document",
    "Entity",
    "FencepostError",
    "LanguageWarning",
    "Recogniser",
    "Sentence",
    "Span",
    "UsageError",
    "__version__",
    "evaluate",
    "load",
    "read",
    "train",
    "write",
]

_MODULES = {
    "Document": "runtime.document",
    "Recogniser": "runtime.recogniser",
    "Span": "runtime.document",
    "evaluate": "runtime.scores",
    "load": "runtime.loading",
    "read": "data.reader",
    "train": "experiments.learning",
    "write": "data.writer",
}
"""Modules that are imported when one of their names is used: most commands need none of them."""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"fencepost.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
