"""What a request has to compute: the parts of its texts' sentences, and what is found in them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal

from fencepost.data.entity import Entity
from fencepost.runtime.recogniser import Annotated, Part, Prepared, Recogniser, Span


class TooManyWords(Exception):
    """A text, or all texts of a request together, have more than `limit` words."""

    def __init__(self, limit: int, of: Literal["text", "request"]) -> None:
        super().__init__(f"more than {limit:,} words in one {of}")
        self.limit, self.of = limit, of


class Unwanted(Exception):
    """Nobody waits for the result any more."""


class Work:
    """The texts of one request on their way through a recogniser.

    `prepare` is called once; then `take` by one thread, and `compute` by any number of threads at once.
    """

    def __init__(self, recogniser: Recogniser, texts: Sequence[str]) -> None:
        self.recogniser = recogniser
        self.size = 0
        self.parts: list[Part] = []
        self._texts = texts
        self._prepared: list[list[Prepared]] = []
        self._text_of: list[int] = []  # of each part
        self._waiting: deque[int] = deque()
        self._found: list[list[Entity]] = []
        self._missing = 0
        self._lock = threading.Lock()

    def prepare(self, text_limit: int, limit: int, is_wanted: Callable[[], bool]) -> None:
        """Split the texts into parts.

        Raises `TooManyWords` if one text has more than `text_limit` words or all have more than `limit`, and
        `Unwanted` if `is_wanted` is false after a sentence. Rare and long words count as several, as the
        model reads them.
        """
        for place, text in enumerate(self._texts):
            own: list[Prepared] = []
            size, rest = 0, limit - self.size
            for prepared in self.recogniser.prepare(text, min(text_limit, rest)):
                size += prepared.size
                if size > rest:
                    raise TooManyWords(limit, "request")
                if size > text_limit:
                    raise TooManyWords(text_limit, "text")
                if not is_wanted():
                    raise Unwanted
                own.append(prepared)
                self.parts += prepared.parts
                self._text_of += [place] * len(prepared.parts)
            self.size += size
            self._prepared.append(own)
        # parts of like size are computed together, the largest first
        self._waiting.extend(sorted(range(len(self.parts)), key=lambda at: -self.parts[at].size))
        self._found = [[] for _ in self.parts]
        self._missing = len(self.parts)

    @property
    def is_taken(self) -> bool:
        """Whether there is nothing more to take."""
        return not self._waiting

    def take(self, size: int, count: int) -> list[int]:
        """Remove parts from those that wait, at least one, and return their numbers."""
        taken: list[int] = []
        while self._waiting and len(taken) < count:
            size -= self.parts[self._waiting[0]].size
            if taken and size < 0:
                break
            taken.append(self._waiting.popleft())
        return taken

    def count_texts(self, numbers: Sequence[int]) -> int:
        """Return to how many texts these parts belong."""
        return len({self._text_of[number] for number in numbers})

    def compute(self, numbers: Sequence[int]) -> list[list[Span]] | None:
        """Find the entities of these parts; return those of the texts if no part is missing any more."""
        found = self.recogniser.compute([self.parts[number] for number in numbers])
        for number, entities in zip(numbers, found, strict=True):
            self._found[number] = entities
        with self._lock:
            self._missing -= len(numbers)
            if self._missing:
                return None
        return self.merge(self._found)

    def merge(self, found: Sequence[Sequence[Entity]]) -> list[list[Span]]:
        """Return the entities of each text from those of all parts."""
        results, rest = [], iter(found)
        for text, own in zip(self._texts, self._prepared, strict=True):
            sentences = [self.recogniser.merge(one, [next(rest) for _ in one.parts]) for one in own]
            results.append(Annotated(text, sentences, [one.words for one in own]).spans)
        return results
