"""Texts of many requests, computed together: a bounded queue, fair turns, a few threads for the model.

An ordinary request is computed as a whole, with others that have come. A long one is computed in slices.
While ordinary requests wait, they and the slices take turns, and where there are several workers, one does no
slices for as long as ordinary requests come: nobody waits for the long texts of others.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self, TypeVar

from fencepost.runtime.recogniser import Recogniser, Span
from fencepost.server.metrics import Metrics
from fencepost.server.work import TooManyWords, Unwanted, Work

T = TypeVar("T")
logger = logging.getLogger(__name__)

_ORDINARY = 512
"""Words of the largest request that is computed as a whole, as the model counts them."""

_ORDINARY_CHARACTERS = 8 * _ORDINARY
"""A request with more characters is not even tried as an ordinary one."""

_TOGETHER = 2_048
"""Words of ordinary requests above which no other is added to a batch."""

_SLICE = 128
"""Words of a long request that are computed at a time."""

_LONG_AT_ONCE = 4
"""Number of long requests, at least, that are computed by turns; others wait, unsplit, to save memory."""

_RECENT = 2.0
"""Seconds after an ordinary request for which one of several workers is kept free of slices."""

_SLOWEST_RETRY = 60
"""Seconds after which, at most, a refused client is asked to try again."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the server takes on.

    `queue` texts wait at most, and `queue_characters`. A request has at most `texts` of `characters` and
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


class NotAtWork(Exception):
    """The server has ended, or has not begun."""


@dataclass(slots=True, eq=False)
class _Request:
    """The texts of one request, and the future of their entities."""

    recogniser: Recogniser
    texts: Sequence[str]
    characters: int
    future: asyncio.Future[list[list[Span]]]
    is_counted: bool = False  # among those that wait
    since: float = field(default_factory=time.monotonic)

    def is_wanted(self) -> bool:
        return not self.future.done()

    def finish(self, result: list[list[Span]] | Exception) -> None:
        if self.future.done():
            return
        if isinstance(result, Exception):
            self.future.set_exception(result)
        else:
            self.future.set_result(result)


class Batcher:
    """Takes texts from coroutines and gives them to the model by the batch.

    The event loop alone changes the queues; threads only compute what they are given.
    """

    def __init__(self, recogniser: Recogniser, limits: Limits, metrics: Metrics) -> None:
        self._recognisers = {
            None: recogniser,
            True: recogniser.using(select="flat"),
            False: recogniser.using(select="nested"),
        }
        self.limits = limits
        self._metrics = metrics
        self._ordinary: deque[_Request] = deque()
        self._long: deque[_Request] = deque()  # not yet split
        self._sliced: deque[tuple[_Request, Work]] = deque()  # those that are computed by turns
        self._is_slice_next = False
        self._slices = 0  # that are being computed
        self._last_ordinary = -math.inf  # when it came
        self._texts = self._characters = 0  # that wait
        self._rate = 100.0  # ordinary texts a second of one worker, a guess until some were computed
        self._idle = limits.workers
        self._more = asyncio.Event()  # there may be something to compute
        self._full = asyncio.Event()  # there are as many ordinary texts as a batch takes
        self._to_split = asyncio.Event()  # there may be a long request to split, and room for its parts
        self._threads = ThreadPoolExecutor(limits.workers, "model")
        self._splitting = ThreadPoolExecutor(1, "splitter")
        self._running: set[Future[Any]] = set()
        self._open: set[asyncio.Future[list[list[Span]]]] = set()
        self._loop: asyncio.Future[list[None]] | None = None
        self._closing = False

    @property
    def ready(self) -> bool:
        return self._loop is not None and not self._loop.done() and not self._closing

    @property
    def is_computing(self) -> bool:
        """Whether a thread is still at work; one that has started cannot be stopped before its batch ends."""
        return bool(self._running)

    async def __aenter__(self) -> Self:
        workers = (self._work() for _ in range(self.limits.workers))
        self._loop = asyncio.gather(self._split_long(), *workers)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Finish what has been taken; each request has its own timeout, so this takes no longer."""
        self._closing = True
        if self._open:
            await asyncio.wait(self._open)
        if self._loop is not None:
            self._loop.cancel()
            with suppress(asyncio.CancelledError):
                await self._loop
        for threads in (self._threads, self._splitting):
            threads.shutdown(wait=False, cancel_futures=True)

    async def find(self, texts: Sequence[str], *, flat: bool | None = None) -> list[list[Span]]:
        """Return the entities of each text.

        Raises what the model raised, `TooManyWords`, `Full`, `NotAtWork` or `TimeoutError`.
        """
        if not self.ready:
            raise NotAtWork
        characters = sum(map(len, texts))
        if (
            self._texts + len(texts) > self.limits.queue
            or self._characters + characters > self.limits.queue_characters
        ):
            raise Full(self._retry_after(len(texts)))
        future: asyncio.Future[list[list[Span]]] = asyncio.get_running_loop().create_future()
        request = _Request(self._recognisers[flat], texts, characters, future)
        self._open.add(future)
        if len(texts) <= self.limits.batch and characters <= _ORDINARY_CHARACTERS:
            self._add_ordinary(request)
        else:
            self._add_long(request)
        try:
            async with asyncio.timeout(self.limits.timeout):
                return await future
        finally:
            future.cancel()
            self._open.discard(future)
            self._count_out(request)

    def _add_ordinary(self, request: _Request) -> None:
        self._count_in(request)
        self._ordinary.append(request)
        self._last_ordinary = request.since
        self._more.set()
        if self._ordinary_texts >= self.limits.batch:
            self._full.set()

    def _add_long(self, request: _Request) -> None:
        self._count_in(request)
        self._long.append(request)
        self._to_split.set()

    def _count_in(self, request: _Request) -> None:
        if request.is_wanted():
            request.is_counted = True
            self._change_counts(len(request.texts), request.characters)

    def _count_out(self, request: _Request) -> None:
        if request.is_counted:
            request.is_counted = False
            self._change_counts(-len(request.texts), -request.characters)

    def _change_counts(self, texts: int, characters: int) -> None:
        self._texts += texts
        self._characters += characters
        self._metrics.queue.set(self._texts)

    @property
    def _ordinary_texts(self) -> int:
        return sum(len(one.texts) for one in self._ordinary)

    def _retry_after(self, texts: int) -> int:
        seconds = (self._texts + texts) / (self._rate * self.limits.workers)
        return max(1, min(_SLOWEST_RETRY, math.ceil(seconds)))

    async def _in_thread(self, threads: ThreadPoolExecutor, compute: Callable[[], T]) -> T:
        running: Future[T] = threads.submit(compute)
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        return await asyncio.wrap_future(running)

    async def _split_long(self) -> None:
        """Split long requests, one at a time, in a thread of its own: it must not keep a worker busy."""
        while True:
            await self._to_split.wait()
            if not self._long or len(self._sliced) >= max(_LONG_AT_ONCE, self.limits.workers):
                self._to_split.clear()
                continue
            request = self._long.popleft()
            if not request.is_wanted():
                continue
            work = Work(request.recogniser, request.texts)
            limits = self.limits
            split = partial(work.prepare, limits.words, limits.request_words, request.is_wanted)
            try:
                await self._in_thread(self._splitting, split)
            except Exception as error:  # noqa: BLE001 - whoever asked gets it
                request.finish(self._reported(error, request))
                continue
            if work.is_taken:  # there is no word in the texts
                request.finish(work.merge([]))
                continue
            self._sliced.append((request, work))
            self._more.set()

    async def _work(self) -> None:
        """One worker: batch by batch. While one is computed, the next one gathers."""
        while True:
            await self._more.wait()
            if self._ordinary and not (self._is_slice_next and self._may_slice()):
                await self._gather()
            self._idle -= 1
            try:
                await self._take_turn()
            finally:
                self._idle += 1

    async def _gather(self) -> None:
        """Wait until there is a whole batch, or the first request has waited long enough."""
        rest = self._ordinary[0].since + self.limits.wait - time.monotonic()
        if rest > 0 and not self._full.is_set() and not self._closing:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._full.wait(), rest)

    async def _take_turn(self) -> None:
        """Compute a slice if it is the turn of one, else the ordinary requests that are there."""
        start = time.monotonic()
        texts = 0
        if self._is_slice_next or not self._ordinary:
            texts = await self._compute_slice()
        if not texts:
            texts = await self._compute_ordinary()
            if texts:
                self._rate += 0.2 * (texts / max(time.monotonic() - start, 1e-6) - self._rate)
        if texts:
            self._metrics.batch_texts.observe(texts)
            self._metrics.batch_seconds.observe(time.monotonic() - start)

    async def _compute_slice(self) -> int:
        """Compute a slice of the long request whose turn it is; return of how many texts."""
        while self._may_slice():
            request, work = self._sliced.popleft()
            numbers = work.take(_SLICE, self.limits.batch) if request.is_wanted() else []
            if work.is_taken or not numbers:
                self._count_out(request)
                self._to_split.set()
            else:
                self._sliced.append((request, work))
            if numbers:
                self._is_slice_next = False
                self._slices += 1
                self._clear_events()
                try:
                    found = await self._in_thread(self._threads, partial(work.compute, numbers))
                except Exception as error:  # noqa: BLE001 - whoever asked gets it
                    request.finish(self._reported(error, request))
                else:
                    if found is not None:
                        request.finish(found)
                self._slices -= 1
                self._more.set()
                return work.count_texts(numbers)
        self._clear_events()
        return 0

    def _may_slice(self) -> bool:
        """Whether a worker that is free may compute a slice."""
        is_last = self.limits.workers > 1 and self._slices >= self.limits.workers - 1
        is_kept_free = is_last and time.monotonic() < self._last_ordinary + _RECENT
        return bool(self._sliced) and not is_kept_free

    async def _compute_ordinary(self) -> int:
        """Compute ordinary requests together; return how many texts they have."""
        batch = self._take_ordinary()
        self._is_slice_next = True
        self._clear_events()
        if not batch:
            return 0
        results = await self._in_thread(self._threads, partial(self._compute_together, batch))
        texts = 0
        for request, result in reversed(list(zip(batch, results, strict=True))):
            if result is None:
                self._count_in(request)
                self._ordinary.appendleft(request)
                self._more.set()
            elif isinstance(result, TooManyWords):
                self._add_long(request)
            else:
                texts += len(request.texts)
                request.finish(result)
        return texts

    def _clear_events(self) -> None:
        if not self._ordinary and not self._may_slice():
            self._more.clear()
            if self._sliced:  # a worker that is kept free may compute one later
                asyncio.get_running_loop().call_later(_RECENT, self._more.set)
        if self._ordinary_texts < self.limits.batch:
            self._full.clear()

    def _take_ordinary(self) -> list[_Request]:
        """Remove the first ordinary requests that fit into a batch; idle workers share what there is."""
        batch: list[_Request] = []
        rest = min(self.limits.batch, math.ceil(self._ordinary_texts / (self._idle + 1)))
        while self._ordinary:
            rest -= len(self._ordinary[0].texts)
            if batch and rest < 0:
                break
            request = self._ordinary.popleft()
            self._count_out(request)
            if request.is_wanted():
                batch.append(request)
            else:
                rest += len(request.texts)
        return batch

    def _compute_together(self, requests: Sequence[_Request]) -> list[list[list[Span]] | Exception | None]:
        """In a thread: what is found for each request, or why not; None if there was too much before it."""
        results: dict[_Request, list[list[Span]] | Exception | None] = {}
        ready: dict[_Request, Work] = {}
        size = 0
        most = min(_ORDINARY, self.limits.words), min(_ORDINARY, self.limits.request_words)
        for request in requests:
            if size > _TOGETHER:
                results[request] = None
                continue
            work = Work(request.recogniser, request.texts)
            try:
                work.prepare(*most, request.is_wanted)
            except (TooManyWords, Unwanted) as error:
                results[request] = error
            except Exception as error:  # noqa: BLE001 - whoever asked gets it
                results[request] = self._reported(error, request)
            else:
                ready[request] = work
                size += work.size
        for recogniser in self._recognisers.values():
            if group := {one: work for one, work in ready.items() if one.recogniser is recogniser}:
                results |= self._compute_group(recogniser, group)
        return [results[request] for request in requests]

    def _compute_group(
        self, recogniser: Recogniser, group: dict[_Request, Work]
    ) -> dict[_Request, list[list[Span]] | Exception]:
        """If the model fails, each request alone: one that is bad must not spoil the others."""
        try:
            found = iter(recogniser.compute([part for work in group.values() for part in work.parts]))
            return {one: work.merge([next(found) for _ in work.parts]) for one, work in group.items()}
        except Exception as error:  # noqa: BLE001 - it is reported, or whoever asked gets it
            if len(group) == 1:
                (request,) = group
                return {request: self._reported(error, request)}
            return {
                one: result
                for request, work in group.items()
                for one, result in self._compute_group(recogniser, {request: work}).items()
            }

    def _reported(self, error: Exception, request: _Request) -> Exception:
        """Log an error of the model, and count it."""
        if not isinstance(error, TooManyWords | Unwanted):
            logger.error("the model failed on a text of %d characters", request.characters, exc_info=error)
            self._metrics.model_errors.inc()
        return error
