"""File with the state of a choice, from which a stopped run continues; it has arrays and JSON, no pickle."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from fencepost import __version__
from fencepost.data.formats.format import ReadOptions
from fencepost.data.formats.json_tokens import to_json
from fencepost.data.formats.registry import FORMATS
from fencepost.data.output import whole_file
from fencepost.data.source import ReadSentence, Source
from fencepost.errors import DataError, UsageError
from fencepost.runtime.suggestion.chooser import State
from fencepost.runtime.suggestion.pool import Pool

SUFFIX = ".unfinished.npz"
EVERY = 30.0
"""Minimum number of seconds between two saves."""

_COUNTS = ("texts", "sentences", "excluded")
_OTHER = {
    "fencepost": "another version of fencepost",
    "model": "another model",
    "options": "other options",
}


class Checkpoint:
    """File with the state of a run; it can be continued only with the same `model` and `options`."""

    def __init__(self, path: Path, model: dict[str, Any], options: dict[str, Any]) -> None:
        self.path = path
        self._job = {"fencepost": __version__, "model": model, "options": options}
        self._saved = time.monotonic()

    def save(self, state: State, *, stopped: bool = False) -> None:
        """Write the state if the run is stopped, or if the last save was at least `EVERY` seconds ago."""
        if not state.texts or (not stopped and time.monotonic() - self._saved < EVERY):
            return
        pool = state.pool
        counts = {name: getattr(state, name) for name in _COUNTS}
        about = {**self._job, **counts, "digest": state.digest, "size": pool.size}
        lines = "\n".join(map(to_json, pool.sentences))
        with whole_file(self.path) as stream:
            np.savez(
                stream,
                about=_to_bytes(json.dumps(about)),
                sentences=_to_bytes(lines),
                scores=pool.scores,
                numbers=pool.numbers,
                vectors=pool.vectors,
            )
        self._saved = time.monotonic()

    def load(self) -> State | None:
        """Return the saved state, if any; raise `FencepostError` if it is of another run or damaged."""
        if not self.path.exists():
            return None
        try:
            with self.path.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
                about = json.loads(arrays["about"].tobytes())
                self._check(about)
                counts = {name: about[name] for name in _COUNTS}
                sentences = self._read_sentences(arrays["sentences"].tobytes())
                pool = Pool(about["size"], arrays["scores"], arrays["numbers"], arrays["vectors"], sentences)
            lengths = {len(pool.scores), len(pool.numbers), len(pool.vectors)}
            if lengths != {len(sentences)}:
                raise ValueError(f"numbers of rows {lengths}")
            return State(pool, **counts, digest=about["digest"])
        except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile, DataError):
            message = "cannot be read, so the run cannot be continued; use --force to start again"
            raise DataError(message, source=str(self.path)) from None

    def _check(self, about: dict[str, Any]) -> None:
        for key, value in json.loads(json.dumps(self._job)).items():
            if about[key] != value:
                raise UsageError(f"{self.path}: was made with {_OTHER[key]}; use --force to start again")

    def _read_sentences(self, lines: bytes) -> list[Any]:
        source = Source.from_bytes(lines, str(self.path))
        readings = FORMATS["jsonl"].read(source, ReadOptions())
        return [one.sentence for one in readings if isinstance(one, ReadSentence)]


def _to_bytes(text: str) -> npt.NDArray[np.uint8]:
    return np.frombuffer(text.encode(), dtype=np.uint8)
