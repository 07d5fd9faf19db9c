"""Named entity recognition that gets entity boundaries right."""

from fencepost.entity import Entity, Sentence
from fencepost.errors import DataError, FencepostError, UsageError

__version__ = "0.1.0"

__all__ = ["DataError", "Entity", "FencepostError", "Sentence", "UsageError", "__version__"]
