"""What a recogniser runs on: a model in PyTorch, or its exported graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

from fencepost.data.entity import Entity, Sentence
from fencepost.errors import DataError, FencepostError, describe_error
from fencepost.evaluation import Temperature
from fencepost.methods.candidates import Candidates
from fencepost.runtime.folder import CONFIG_FILE, SavedConfig

GRAPH_FOLDER, FACTS_FILE = "onnx", "export.json"
"""Where in a model's folder its graphs are, and what is said about them."""

LOOK_AHEAD = 1024
"""Sentences that are sorted by length at a time."""

WORD_PAIRS = 1_000_000
"""A batch has at most so many pairs of words, unless one sentence alone has more."""


EXAMPLE = ("Ada", "met", "Charles", ".")
"""What a model that was just loaded is tried out with."""


class Engine(Protocol):
    """Finds entities in sentences."""

    name: str
    """What runs: `pytorch`, `onnx` or `int8`."""

    @property
    def types(self) -> tuple[str, ...]:
        """That it finds."""

    @property
    def language(self) -> str:
        """Whose rules split raw text."""

    @property
    def context(self) -> int:
        """How many neighbouring sentences on each side it wants to see."""

    @property
    def predict_settings(self) -> Any:
        """The `PredictSettings` of its method."""

    @property
    def room(self) -> int | None:
        """How much of a sentence fits at once, in the unit of `sizes`; None is any amount."""

    def sizes(self, words: Sequence[str]) -> list[int]:
        """What each word takes of the room."""

    def found(self, sentences: Sequence[Sentence]) -> list[list[Entity]]:
        """The entities of each sentence; none may be larger than the room."""

    def using(self, settings: dict[str, Any]) -> Self:
        """The same with other settings of prediction."""


def batches(
    sizes: Sequence[int],
    lengths: Sequence[int],
    batch_size: int,
    pairs: int = WORD_PAIRS,
    area: int | None = None,
) -> Iterator[list[int]]:
    """Sentences of like size together, the largest first: too large a batch fails at once.

    Those of size 0 are in none. `area` is how large a batch may be with its padding, unless one sentence is.
    """
    order = sorted((index for index, size in enumerate(sizes) if size), key=lambda index: -sizes[index])
    batch: list[int] = []
    longest = 0  # in words
    for index in order:
        longest = max(longest, lengths[index])
        full = len(batch) == batch_size or (len(batch) + 1) * longest**2 > pairs
        if batch and (full or (area is not None and (len(batch) + 1) * sizes[batch[0]] > area)):
            yield batch
            batch, longest = [], lengths[index]
        batch.append(index)
    if batch:
        yield batch


def entities_of(
    kept: Candidates, calibration: Temperature, types: Sequence[str], sentences: int, length: int
) -> list[list[Entity]]:
    """What was selected in a batch of sentences padded to `length` words, as entities of each."""
    entities: list[list[Entity]] = [[] for _ in range(sentences)]
    confidences = calibration.apply(kept.confidence)
    columns = (kept.start.tolist(), kept.end.tolist(), kept.type.tolist(), confidences.tolist())
    for start, end, type_, confidence in zip(*columns, strict=True):
        owner, first = divmod(start, length)
        entities[owner].append(Entity(first, end - owner * length, types[type_], confidence))
    return entities


def calibration_of(saved: SavedConfig, folder: Path) -> Temperature:
    """Return what the confidences of a saved model are calibrated with; an old model has no calibration."""
    try:
        return Temperature(**saved.calibration)
    except ValueError as error:
        message = f"the model's calibration cannot be read: {describe_error(error)}"
        raise DataError(message, source=str(folder / CONFIG_FILE)) from None


def try_out(
    find: Callable[[Sequence[Sentence]], object], folder: Path, words: Sequence[str] = EXAMPLE
) -> None:
    """Let a model that was just loaded find entities in one sentence; raise `DataError` if it fails.

    Its files may be whole, each for itself, and not fit together.
    """
    try:
        find([Sentence(words)])
    except FencepostError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, the model cannot be used
        message = f"the model does not work; its files do not fit together ({describe_error(error)})"
        raise DataError(message, source=str(folder)) from None
