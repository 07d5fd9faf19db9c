"""Texts of many requests, computed together: a bounded queue, a bounded wait, a few threads for the model."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

from fencepost.runtime import Recogniser, Span
from fencepost.server.metrics import Metrics

logger = logging.getLogger(__name__)

_CHARACTERS = 100_000
"""A batch of several texts has no more, so that nobody waits for the long texts of others for long."""

_SLOWEST_RETRY = 60
"""Nobody is told to come back later than in so many seconds."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the server takes on.

    `queue` texts wait at most, and `queue_characters`; a request has `texts` of `characters` each and `body`
    bytes at most, and is answered within `timeout` seconds or not at all. A batch has up to `batch` texts,
    and begins at most `wait` seconds after the first of them has come, unless `workers` batches are being
    computed already.
    """

    workers: int = 1
    batch: int = 128
    wait: float = 0.005
    queue: int = 1024
    queue_characters: int = 16_000_000
    texts: int = 256
    characters: int = 100_000
    body: int = 1 << 20
    timeout: float = 30.0


class Full(Exception):
    """There is no room for these texts now; `retry_after` seconds later there may be."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"the queue is full; try again in {retry_after} s")
        self.retry_after = retry_after


class NotAtWork(Exception):
    """The server has ended, or has not begun."""


@dataclass(slots=True)
class _Waiting:
    """A text that waits for its entities; `flat` as in the request, None as the model is."""

    text: str
    flat: bool | None
    future: asyncio.Future[list[Span]]
    since: float = field(default_factory=time.monotonic)


class Batcher:
    """Takes texts from coroutines and gives them to the model by the batch."""

    def __init__(self, recogniser: Recogniser, limits: Limits, metrics: Metrics) -> None:
        self._recognisers = {
            None: recogniser,
            True: recogniser.using(select="flat"),
            False: recogniser.using(select="nested"),
        }
        self.limits = limits
        self._metrics = metrics
        self._queue: deque[_Waiting] = deque()
        self._characters = 0  # of the texts that wait
        self._rate = 100.0  # texts a second of one worker; what was seen takes over soon
        self._idle = limits.workers
        self._more = asyncio.Event()
        self._full = asyncio.Event()  # as many as a batch takes
        self._threads = ThreadPoolExecutor(limits.workers, "model")
        self._loop: asyncio.Future[list[None]] | None = None
        self._closing = False

    @property
    def ready(self) -> bool:
        return self._loop is not None and not self._loop.done()

    async def __aenter__(self) -> Self:
        self._loop = asyncio.gather(*(self._work() for _ in range(self.limits.workers)))
        return self

    async def __aexit__(self, *_: object) -> None:
        """What has been taken is finished first."""
        self._closing = True
        self._more.set()
        if self._loop is not None:
            await self._loop
        self._threads.shutdown()

    async def find(self, texts: Sequence[str], *, flat: bool | None = None) -> list[list[Span]]:
        """The entities of each text; raises what the model raised, `Full`, `NotAtWork` or `TimeoutError`."""
        if not self.ready:
            raise NotAtWork
        characters = sum(map(len, texts))
        if (
            len(self._queue) + len(texts) > self.limits.queue
            or self._characters + characters > self.limits.queue_characters
        ):
            raise Full(self._retry_after(len(texts)))
        loop = asyncio.get_running_loop()
        waiting = [_Waiting(text, flat, loop.create_future()) for text in texts]
        self._queue.extend(waiting)
        self._characters += characters
        self._metrics.queue.set(len(self._queue))
        self._more.set()
        if len(self._queue) >= self.limits.batch:
            self._full.set()
        try:
            async with asyncio.timeout(self.limits.timeout):
                return list(await asyncio.gather(*(one.future for one in waiting)))
        finally:  # if one fails, nobody waits for the others
            for one in waiting:
                one.future.cancel()

    def _retry_after(self, texts: int) -> int:
        seconds = (len(self._queue) + texts) / (self._rate * self.limits.workers)
        return max(1, min(_SLOWEST_RETRY, math.ceil(seconds)))

    async def _work(self) -> None:
        """One worker: batch by batch, until the end. While one is computed, the next one gathers."""
        loop = asyncio.get_running_loop()
        while not self._closing or self._queue:
            await self._more.wait()
            await self._gathered()
            batch = self._taken()
            if not batch:
                continue
            start = time.monotonic()
            self._idle -= 1
            try:
                found = await loop.run_in_executor(self._threads, self._computed, batch)
            finally:
                self._idle += 1
            seconds = time.monotonic() - start
            self._rate += 0.2 * (len(batch) / max(seconds, 1e-6) - self._rate)
            self._metrics.batch_texts.observe(len(batch))
            self._metrics.batch_seconds.observe(seconds)
            for one, entities in zip(batch, found, strict=True):
                if one.future.done():  # nobody waits any more
                    continue
                if isinstance(entities, Exception):
                    one.future.set_exception(entities)
                else:
                    one.future.set_result(entities)

    async def _gathered(self) -> None:
        """Until there is a whole batch, or the first text has waited long enough."""
        rest = self._queue[0].since + self.limits.wait - time.monotonic() if self._queue else 0
        if len(self._queue) < self.limits.batch and rest > 0 and not self._closing:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._full.wait(), rest)

    def _taken(self) -> list[_Waiting]:
        """The first of the queue that fit into a batch and are still wanted.

        Workers that are idle share what there is.
        """
        batch: list[_Waiting] = []
        characters = 0
        most = min(self.limits.batch, math.ceil(len(self._queue) / self._idle))
        while self._queue and len(batch) < most:
            length = len(self._queue[0].text)
            if batch and characters + length > _CHARACTERS:
                break
            one = self._queue.popleft()
            self._characters -= length
            if not one.future.done():
                batch.append(one)
                characters += length
        if not self._queue and not self._closing:
            self._more.clear()
        if len(self._queue) < self.limits.batch:
            self._full.clear()
        self._metrics.queue.set(len(self._queue))
        return batch

    def _computed(self, batch: Sequence[_Waiting]) -> list[list[Span] | Exception]:
        """In a thread of its own: the entities of each text, or what went wrong with it."""
        found: dict[int, list[Span] | Exception] = {}
        for flat in {one.flat for one in batch}:
            places = [place for place, one in enumerate(batch) if one.flat is flat]
            found |= zip(places, self._of_group([batch[place].text for place in places], flat), strict=True)
        return [found[place] for place in range(len(batch))]

    def _of_group(self, texts: Sequence[str], flat: bool | None) -> list[list[Span] | Exception]:
        """If the model fails, each text alone: one that is bad must not spoil the others."""
        recogniser = self._recognisers[flat]
        try:
            return [document.spans for document in recogniser.annotate(texts)]
        except Exception as error:
            if len(texts) == 1:
                logger.exception("the model failed on a text of %d characters", len(texts[0]))
                self._metrics.model_errors.inc()
                return [error]
            return [found for text in texts for found in self._of_group([text], flat)]
