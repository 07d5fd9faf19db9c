"""One request: its limits, its errors, and its texts, which are split, computed in parts and merged."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from fencepost.data.entity import Entity
from fencepost.encoder.windows import Part
from fencepost.runtime.document import Document
from fencepost.runtime.recogniser import Prepared, Recogniser

Result = list[Document]
"""The entities of each text."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the server.

    At most `queue` texts with `queue_characters` wait. A request has at most `texts` of `characters` and
    `words` each, `request_words` in all and `body` bytes, and is answered within `timeout` seconds or not at
    all. A batch has up to `batch` texts, and begins at most `wait` seconds after the first of them has come,
    unless `workers` batches are being computed already.
    """

    workers: int = 1
    batch: int = 128
    wait: float = 0.005
    queue: int = 1024
    queue_characters: int = 16_000_000
    texts: int = 256
    characters: int = 100_000
    words: int = 25_000
    body: int = 1 << 20
    timeout: float = 30.0

    @property
    def request_words(self) -> int:
        return 4 * self.words


class Full(Exception):
    """There is no room for these texts now; `retry_after` seconds later there may be."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"the queue is full; try again in {retry_after} s")
        self.retry_after = retry_after


class NotReady(Exception):
    """The server has not started yet, or is stopping."""

    def __init__(self) -> None:
        super().__init__("the model is not ready")


class TooManyWords(Exception):
    """A text, or all texts of a request together, have more than `limit` words."""

    def __init__(self, limit: int, of: Literal["text", "request"]) -> None:
        what = "a text has" if of == "text" else "the texts of a request have together"
        super().__init__(
            f"too many words: {what} at most {limit:,} words (a rare or long one counts as several); "
            "send less at a time"
        )


class Unwanted(Exception):
    """Nobody waits for the result any more."""


class Request:
    """Texts, their parts, and the future of their entities.

    The event loop calls `take` and `finish`; `prepare` runs in one thread, then `compute` in any number.
    """

    def __init__(self, recogniser: Recogniser, texts: Sequence[str]) -> None:
        self.recogniser = recogniser
        self.texts = texts
        self.characters = sum(map(len, texts))
        self.future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self.since = time.monotonic()
        self.is_queued = False
        self.size = 0
        self.parts: list[Part] = []
        self._prepared: list[list[Prepared]] = []  # sentences of each text
        self._text_of: list[int] = []  # number of the text of each part
        self._to_take: deque[int] = deque()  # numbers of parts
        self._found: list[list[Entity]] = []  # entities of each part
        self._missing = 0
        self._lock = threading.Lock()

    @property
    def is_wanted(self) -> bool:
        return not self.future.done()

    def finish(self, result: Result | Exception) -> None:
        if not self.is_wanted:
            return
        if isinstance(result, Exception):
            self.future.set_exception(result)
        else:
            self.future.set_result(result)

    def prepare(self, text_limit: int, limit: int) -> None:
        """Split the texts into parts.

        Raises `TooManyWords` if one text has more than `text_limit` words or all have more than `limit`, and
        `Unwanted` if the result is not wanted any more. Rare and long words count as several, as the model
        reads them.
        """
        size, texts = 0, []
        for text in self.texts:
            sentences: list[Prepared] = []
            text_size, rest = 0, limit - size
            for prepared in self.recogniser.prepare(text, min(text_limit, rest)):
                text_size += prepared.size
                if text_size > rest:
                    raise TooManyWords(limit, "request")
                if text_size > text_limit:
                    raise TooManyWords(text_limit, "text")
                if not self.is_wanted:
                    raise Unwanted
                sentences.append(prepared)
            size += text_size
            texts.append(sentences)
        self.size, self._prepared = size, texts
        owned = [(number, part) for number, own in enumerate(texts) for one in own for part in one.parts]
        self.parts = [part for _, part in owned]
        self._text_of = [number for number, _ in owned]
        # parts of similar size are computed together, the largest first
        self._to_take.extend(sorted(range(len(owned)), key=lambda number: -self.parts[number].size))
        self._found = [[] for _ in owned]
        self._missing = len(owned)

    @property
    def is_taken(self) -> bool:
        """Whether no part is left to take."""
        return not self._to_take

    def take(self, size: int, count: int) -> list[int]:
        """Return the numbers of the next parts: at least one, at most `count`, with up to `size` words."""
        taken: list[int] = []
        while self._to_take and len(taken) < count:
            size -= self.parts[self._to_take[0]].size
            if taken and size < 0:
                break
            taken.append(self._to_take.popleft())
        return taken

    def count_texts(self, numbers: Sequence[int]) -> int:
        """Return the number of texts to which these parts belong."""
        return len({self._text_of[number] for number in numbers})

    def compute(self, numbers: Sequence[int]) -> Result | None:
        """Find the entities of these parts; return those of all texts once no part is missing."""
        found = self.recogniser.compute([self.parts[number] for number in numbers])
        for number, entities in zip(numbers, found, strict=True):
            self._found[number] = entities
        with self._lock:
            self._missing -= len(numbers)
            if self._missing:
                return None
        return self.merge(self._found)

    def merge(self, found: Sequence[Sequence[Entity]]) -> Result:
        """Return the entities of each text from those of all parts."""
        results, rest = [], iter(found)
        for text, own in zip(self.texts, self._prepared, strict=True):
            sentences = [self.recogniser.merge(one, [next(rest) for _ in one.parts]) for one in own]
            results.append(Document(text, sentences, [one.words for one in own]))
        return results
