"""Requests, whose texts are split, computed in parts and merged; their limits and errors."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from fencepost.data.entity import Entity
from fencepost.encoder.windows import Part, group_blocks
from fencepost.runtime.document import Document
from fencepost.runtime.recogniser import Recogniser, SplitSentence

Result = list[Document]
"""The entities of each text."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the server.

    The queue has at most `queue` texts with `queue_characters` characters in total. A request has at most
    `texts` texts with at most `characters` characters and `words` words each, `request_words` words in total
    and `body` bytes, and must be answered within `timeout` seconds. A batch has at most `batch` texts, and is
    started at most `wait` seconds after the first of them arrives, unless all `workers` are busy.
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


class QueueFull(Exception):
    """Queue without room for these texts; there may be room after `retry_after` seconds."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"the queue is full; try again in {retry_after} s")
        self.retry_after = retry_after


class NotReady(Exception):
    """Server that has not started yet, or is stopping."""

    def __init__(self) -> None:
        super().__init__("the model is not ready")


class TooManyWords(Exception):
    """Text, or texts of a request in total, with more than `limit` words."""

    def __init__(self, limit: int, of: Literal["text", "request"]) -> None:
        subject = "a text" if of == "text" else "all texts of a request together"
        super().__init__(
            f"too many words: {subject} may have at most {limit:,} words (a rare or long word counts as "
            "several); send less text"
        )


class Cancelled(Exception):
    """Request whose client no longer waits for the result."""


class Request:
    """Texts, their parts, and the future of their entities.

    The event loop calls `take` and `finish`; `prepare` runs in one thread, then `compute` in several.
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
        self._prepared: list[list[SplitSentence]] = []  # sentences of each text
        self._text_numbers: list[int] = []  # the text of each part
        self._waiting: deque[list[int]] = deque()  # numbers of the parts that were not taken, by block
        self._entities: list[list[Entity]] = []  # those of each part
        self._missing = 0
        self._lock = threading.Lock()

    @property
    def is_pending(self) -> bool:
        return not self.future.done()

    def finish(self, result: Result | Exception) -> None:
        if not self.is_pending:
            return
        if isinstance(result, Exception):
            self.future.set_exception(result)
        else:
            self.future.set_result(result)

    def prepare(self, text_limit: int, limit: int) -> None:
        """Split the texts into parts.

        Raises `TooManyWords` if one text has more than `text_limit` words or all have more than `limit`, and
        `Cancelled` if the request is no longer pending. Words count as the model's sub-words.
        """
        size, texts = 0, []
        for text in self.texts:
            sentences: list[SplitSentence] = []
            text_size, rest = 0, limit - size
            for prepared in self.recogniser.prepare(text, min(text_limit, rest)):
                text_size += prepared.size
                if text_size > rest:
                    raise TooManyWords(limit, "request")
                if text_size > text_limit:
                    raise TooManyWords(text_limit, "text")
                if not self.is_pending:
                    raise Cancelled
                sentences.append(prepared)
            size += text_size
            texts.append(sentences)
        self.size, self._prepared = size, texts
        pairs = [(number, part) for number, own in enumerate(texts) for one in own for part in one.parts]
        self.parts = [part for _, part in pairs]
        self._text_numbers = [number for number, _ in pairs]
        # blocks of similar size are computed together, the largest first
        blocks = group_blocks([part.sentence for part in self.parts])
        self._waiting.extend(sorted(blocks, key=self._measure, reverse=True))
        self._entities = [[] for _ in pairs]
        self._missing = len(pairs)

    @property
    def has_parts(self) -> bool:
        """Whether parts are left to take."""
        return bool(self._waiting)

    def take(self, size: int, count: int) -> list[int]:
        """Return the numbers of the next parts, up to `count` and `size` words, but at least one block."""
        numbers: list[int] = []
        while self._waiting:
            size -= self._measure(self._waiting[0])
            if numbers and (size < 0 or len(numbers) + len(self._waiting[0]) > count):
                break
            numbers += self._waiting.popleft()
        return numbers

    def _measure(self, numbers: Sequence[int]) -> int:
        """Return the number of words of these parts."""
        return sum(self.parts[number].size for number in numbers)

    def count_texts(self, numbers: Sequence[int]) -> int:
        """Return the number of texts to which these parts belong."""
        return len({self._text_numbers[number] for number in numbers})

    def compute(self, numbers: Sequence[int]) -> Result | None:
        """Predict the entities of these parts; return those of all texts once all parts are computed."""
        results = self.recogniser.compute([self.parts[number] for number in numbers])
        for number, entities in zip(numbers, results, strict=True):
            self._entities[number] = entities
        with self._lock:
            self._missing -= len(numbers)
            if self._missing:
                return None
        return self.merge(self._entities)

    def merge(self, entities: Sequence[Sequence[Entity]]) -> Result:
        """Return the entities of each text from those of all parts."""
        results, rest = [], iter(entities)
        for text, own in zip(self.texts, self._prepared, strict=True):
            sentences = [self.recogniser.merge(one, [next(rest) for _ in one.parts]) for one in own]
            results.append(Document(text, sentences, [one.words for one in own]))
        return results
