"""A worker that dies; processes of Ray import it, so it has few imports."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fencepost.integrations.ray import Worker


class Dying:
    """Replacement of a recogniser that kills its process."""

    def annotate(self, texts: Iterator[str]) -> Iterator[Any]:
        next(iter(texts))
        os.kill(os.getpid(), signal.SIGKILL)
        yield


class Mortal(Worker):
    """Worker of which the first one to reach its second part dies."""

    parts = 0

    def _predict(self, row: dict[str, Any]) -> int:
        self.parts += 1
        if self.parts == 2:
            try:
                (Path(row["output"]).parent / "died").touch(exist_ok=False)
                self.recogniser = Dying()  # type: ignore[assignment]
            except FileExistsError:
                pass
        return super()._predict(row)
