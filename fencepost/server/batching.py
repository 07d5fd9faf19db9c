"""Computes the texts of many requests together, with a bounded queue, fair turns and a few threads.

An ordinary request is computed as a whole, together with others. A long one is computed in slices. While
ordinary requests wait, they and the slices take turns, and one of several workers computes no slices for as
long as ordinary requests come: nobody waits for the long texts of others.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Self, TypeVar

from fencepost.runtime.recogniser import Recogniser
from fencepost.server.metrics import Metrics
from fencepost.server.request import Full, Limits, NotReady, Request, Result, TooManyWords, Unwanted

T = TypeVar("T")
logger = logging.getLogger(__name__)

_ORDINARY = 512  # most words, as the model counts them, of a request that is computed as a whole
_ORDINARY_CHARACTERS = 8 * _ORDINARY  # a request with more is long without trying
_TOGETHER = 2_048  # words of ordinary requests above which no other is added to a batch
_SLICE = 128  # words of a long request that are computed at a time
_LONG_AT_ONCE = 4  # fewest long requests that are computed by turns; others wait, unsplit, to save memory
_RECENT = 2.0  # seconds after an ordinary request for which one of several workers computes no slices
_SLOWEST_RETRY = 60  # most seconds after which a refused client is asked to try again


class Batcher:
    """Takes texts from coroutines and gives them to the model in batches.

    The event loop alone changes the queues; threads only compute.
    """

    def __init__(self, recogniser: Recogniser, limits: Limits, metrics: Metrics) -> None:
        self._recognisers = {
            None: recogniser,
            True: recogniser.with_options(select="flat"),
            False: recogniser.with_options(select="nested"),
        }
        self.limits = limits
        self.ready = False
        self._metrics = metrics
        self._ordinary: deque[Request] = deque()
        self._long: deque[Request] = deque()  # not yet split
        self._sliced: deque[Request] = deque()  # split, and computed by turns
        self._texts = self._characters = 0  # in the queues
        self._open: set[asyncio.Future[Result]] = set()
        self._turns: set[asyncio.Task[None]] = set()  # one for each worker that computes
        self._splits: set[asyncio.Task[None]] = set()  # one at most
        self._slices = 0  # being computed
        self._is_slice_next = False
        self._last_ordinary = -math.inf  # time of arrival
        self._timer: asyncio.TimerHandle | None = None
        self._rate = 100.0  # ordinary texts a second of one worker; an estimate until some were computed
        self._workers = ThreadPoolExecutor(limits.workers, "model")
        self._splitter = ThreadPoolExecutor(1, "splitter")  # splitting must not keep a worker busy
        self._running: set[Future[Any]] = set()

    @property
    def is_computing(self) -> bool:
        """Whether a thread still computes; one that has started cannot be stopped before its batch ends."""
        return bool(self._running)

    async def __aenter__(self) -> Self:
        self.ready = True
        return self

    async def __aexit__(self, *_: object) -> None:
        """Finish the requests that were accepted; each has its own timeout, so this takes no longer."""
        self.ready = False
        self._schedule()
        if self._open:
            await asyncio.wait(self._open)
        for queue in (self._ordinary, self._long, self._sliced):
            queue.clear()
        for task in self._turns | self._splits:
            task.cancel()
        for threads in (self._workers, self._splitter):
            threads.shutdown(wait=False, cancel_futures=True)

    async def find(self, texts: Sequence[str], *, flat: bool | None = None) -> Result:
        """Return the entities of each text.

        Raises what the model raised, `TooManyWords`, `Full`, `NotReady` or `TimeoutError`.
        """
        if not self.ready:
            raise NotReady
        request = Request(self._recognisers[flat], texts)
        if (
            self._texts + len(texts) > self.limits.queue
            or self._characters + request.characters > self.limits.queue_characters
        ):
            seconds = (self._texts + len(texts)) / (self._rate * self.limits.workers)
            raise Full(max(1, min(_SLOWEST_RETRY, math.ceil(seconds))))
        self._open.add(request.future)
        self._set_queued(request, True)
        if len(texts) <= self.limits.batch and request.characters <= _ORDINARY_CHARACTERS:
            self._ordinary.append(request)
            self._last_ordinary = request.since
        else:
            self._long.append(request)
        self._schedule()
        try:
            async with asyncio.timeout(self.limits.timeout):
                return await request.future
        finally:
            request.future.cancel()
            self._open.discard(request.future)
            self._set_queued(request, False)

    def _set_queued(self, request: Request, is_queued: bool) -> None:
        """Count the texts of a request among those in the queues, or not any more."""
        change = is_queued - request.is_queued
        request.is_queued = is_queued
        self._texts += change * len(request.texts)
        self._characters += change * request.characters
        self._metrics.queue.set(self._texts)

    # Who computes what: called whenever a request comes, a computation ends, or a wait is over

    def _schedule(self) -> None:
        """Give idle workers a turn each, and the splitter a long request."""
        is_due = len(self._turns) < self.limits.workers and self._is_due()
        while len(self._turns) < self.limits.workers:
            turn = self._next_turn(is_due=is_due)
            if turn is None:
                self._set_timer()
                break
            self._start(turn, self._turns)
        room = len(self._sliced) < max(_LONG_AT_ONCE, self.limits.workers)
        if self._long and room and not self._splits:
            self._start(self._split(self._long.popleft()), self._splits)

    def _start(self, turn: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]) -> None:
        def end(task: asyncio.Task[None]) -> None:
            tasks.discard(task)
            self._schedule()

        task = asyncio.create_task(turn)
        tasks.add(task)
        task.add_done_callback(end)

    def _is_due(self) -> bool:
        """Return whether ordinary requests make a whole batch, or the first has waited long enough."""
        if not self._ordinary:
            return False
        has_waited = time.monotonic() >= self._ordinary[0].since + self.limits.wait
        return has_waited or self._ordinary_texts >= self.limits.batch or not self.ready

    def _set_timer(self) -> None:
        """Schedule again when the first ordinary request is due, or the free worker may compute slices."""
        if self._timer is not None:
            self._timer.cancel()
        if self._ordinary or self._sliced:
            first, wait = self._last_ordinary, _RECENT
            if self._ordinary:
                first, wait = self._ordinary[0].since, self.limits.wait
            delay = max(0.0, first + wait - time.monotonic())
            self._timer = asyncio.get_running_loop().call_later(delay, self._schedule)

    @property
    def _ordinary_texts(self) -> int:
        return sum(len(one.texts) for one in self._ordinary)

    def _next_turn(self, *, is_due: bool) -> Coroutine[Any, Any, None] | None:
        """Return the computation of a slice if it is the turn of one, else of the ordinary requests."""
        if self._is_slice_next or not self._ordinary:
            while self._may_slice():
                request = self._sliced.popleft()
                numbers = request.take(_SLICE, self.limits.batch) if request.is_wanted else []
                if request.is_taken or not numbers:
                    self._set_queued(request, False)
                else:
                    self._sliced.append(request)
                if numbers:
                    self._is_slice_next = False
                    self._slices += 1
                    return self._compute_slice(request, numbers)
        if not is_due:
            return None
        self._is_slice_next = True
        if batch := self._take_ordinary():
            return self._compute_ordinary(batch)
        return self._next_turn(is_due=False)  # nobody waits for the ordinary requests any more

    def _may_slice(self) -> bool:
        """Return whether an idle worker may compute a slice."""
        is_last = self.limits.workers > 1 and self._slices >= self.limits.workers - 1
        is_kept_free = is_last and time.monotonic() < self._last_ordinary + _RECENT
        return bool(self._sliced) and not is_kept_free

    def _take_ordinary(self) -> list[Request]:
        """Remove the first ordinary requests that fit into a batch; idle workers share what there is."""
        batch: list[Request] = []
        idle = self.limits.workers - len(self._turns)
        rest = min(self.limits.batch, math.ceil(self._ordinary_texts / idle))
        while self._ordinary:
            request = self._ordinary[0]
            if batch and len(request.texts) > rest:
                break
            self._ordinary.popleft()
            self._set_queued(request, False)
            if request.is_wanted:
                batch.append(request)
                rest -= len(request.texts)
        return batch

    # Computations

    async def _in_thread(self, threads: ThreadPoolExecutor, compute: Callable[[], T]) -> T:
        running: Future[T] = threads.submit(compute)
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        return await asyncio.wrap_future(running)

    async def _split(self, request: Request) -> None:
        if not request.is_wanted:
            return
        split = partial(request.prepare, self.limits.words, self.limits.request_words)
        try:
            await self._in_thread(self._splitter, split)
        except Exception as error:  # noqa: BLE001 - the client gets it
            request.finish(self._log(error, request))
            return
        if request.is_taken:  # there is no word in the texts
            request.finish(request.merge([]))
        else:
            self._sliced.append(request)

    async def _compute_slice(self, request: Request, numbers: Sequence[int]) -> None:
        start = time.monotonic()
        try:
            result = await self._in_thread(self._workers, partial(request.compute, numbers))
            if result is not None:
                request.finish(result)
        except Exception as error:  # noqa: BLE001 - the client gets it
            request.finish(self._log(error, request))
        finally:
            self._slices -= 1
        self._observe(request.count_texts(numbers), start)

    async def _compute_ordinary(self, batch: Sequence[Request]) -> None:
        start = time.monotonic()
        results = await self._in_thread(self._workers, partial(self._compute_together, batch))
        texts = 0
        for request, result in reversed(list(zip(batch, results, strict=True))):
            if isinstance(result, TooManyWords):
                self._long.append(request)
            elif result is None:
                self._ordinary.appendleft(request)
            else:
                texts += len(request.texts)
                request.finish(result)
                continue
            self._set_queued(request, request.is_wanted)
        if texts:
            self._rate += 0.2 * (texts / max(time.monotonic() - start, 1e-6) - self._rate)
            self._observe(texts, start)

    def _observe(self, texts: int, start: float) -> None:
        self._metrics.batch_texts.observe(texts)
        self._metrics.batch_seconds.observe(time.monotonic() - start)

    def _compute_together(self, batch: Sequence[Request]) -> list[Result | Exception | None]:
        """Return the result of each request or its error; None if the batch was full without it."""
        results: dict[Request, Result | Exception | None] = dict.fromkeys(batch)
        ready: list[Request] = []
        for request in batch:
            if sum(one.size for one in ready) > _TOGETHER:
                break
            try:
                request.prepare(min(_ORDINARY, self.limits.words), min(_ORDINARY, self.limits.request_words))
                ready.append(request)
            except Exception as error:  # noqa: BLE001 - the client gets it
                results[request] = self._log(error, request)
        for recogniser in self._recognisers.values():
            if group := [one for one in ready if one.recogniser is recogniser]:
                results.update(zip(group, self._compute_group(group), strict=True))
        return list(results.values())

    def _compute_group(self, group: Sequence[Request]) -> list[Result | Exception]:
        """Compute requests of one recogniser; if that fails, each alone, so that no other one suffers."""
        try:
            found = iter(group[0].recogniser.compute([part for one in group for part in one.parts]))
            return [one.merge([next(found) for _ in one.parts]) for one in group]
        except Exception as error:  # noqa: BLE001 - the client gets it
            if len(group) > 1:
                return [result for one in group for result in self._compute_group([one])]
            return [self._log(error, group[0])]

    def _log(self, error: Exception, request: Request) -> Exception:
        """Log and count an error of the model."""
        if not isinstance(error, TooManyWords | Unwanted):
            logger.error("the model failed on a text of %d characters", request.characters, exc_info=error)
            self._metrics.model_errors.inc()
        return error
