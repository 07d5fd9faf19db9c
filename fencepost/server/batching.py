"""Computation of the texts of many requests in batches, with a bounded queue, fair scheduling and threads.

An ordinary request is computed as a whole, together with others. A long one is computed in slices. Ordinary
requests and slices alternate, and while ordinary requests arrive, one of several workers computes no slices:
so no request waits for the long texts of others.
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
from fencepost.server.request import Cancelled, Limits, NotReady, QueueFull, Request, Result, TooManyWords

T = TypeVar("T")
logger = logging.getLogger(__name__)

_ORDINARY = 512  # maximum size, in words as the model counts them, of a request that is computed as a whole
_ORDINARY_CHARACTERS = 8 * _ORDINARY  # a request with more is long, whatever its number of words
_BATCH = 2_048  # words of ordinary requests after which none is added to a batch
_SLICE = 128  # words of a long request that are computed at a time
_MIN_SLICED = 4  # long requests that are computed in turn; others are not split yet, to save memory
_RECENT = 2.0  # seconds after an ordinary request in which one of several workers computes no slices
_MAX_RETRY = 60  # maximum number of seconds after which a refused client should try again


class Batcher:
    """Queue of texts from coroutines, which are computed in batches by threads.

    Only the event loop changes the queues; threads only compute.
    """

    def __init__(
        self, recogniser: Recogniser, limits: Limits, metrics: Metrics, others: Sequence[Recogniser] = ()
    ) -> None:
        self._recognisers = {
            (number, flat): one if flat is None else one.with_options(select="flat" if flat else "nested")
            for number, one in enumerate((recogniser, *others))
            for flat in (None, True, False)
        }
        self.limits = limits
        self.ready = False
        self._metrics = metrics
        self._ordinary: deque[Request] = deque()
        self._long: deque[Request] = deque()  # not yet split
        self._sliced: deque[Request] = deque()  # split, and computed in turn
        self._texts = self._characters = 0  # in the queues
        self._open: set[asyncio.Future[Result]] = set()
        self._turns: set[asyncio.Task[None]] = set()  # one for each busy worker
        self._splits: set[asyncio.Task[None]] = set()  # at most one
        self._slices = 0  # being computed
        self._is_slice_next = False
        self._last_ordinary = -math.inf  # time of arrival
        self._timer: asyncio.TimerHandle | None = None
        self._rate = 100.0  # ordinary texts per second and worker; an estimate until some were computed
        self._workers = ThreadPoolExecutor(limits.workers, "model")
        self._splitter = ThreadPoolExecutor(1, "splitter")  # so that splitting does not occupy a worker
        self._running: set[Future[Any]] = set()

    @property
    def is_computing(self) -> bool:
        """Whether a thread is computing; a batch cannot be stopped once it has started."""
        return bool(self._running)

    async def __aenter__(self) -> Self:
        self.ready = True
        return self

    async def __aexit__(self, *_: object) -> None:
        """Finish the accepted requests, which takes no longer than their timeout."""
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

    async def predict(self, texts: Sequence[str], *, flat: bool | None = None, model: int = 0) -> Result:
        """Return the entities of each text; `model` 0 is the first recogniser, 1 the first of the others.

        Raises `TooManyWords`, `QueueFull`, `NotReady`, `TimeoutError` or an exception of the model.
        """
        if not self.ready:
            raise NotReady
        request = Request(self._recognisers[model, flat], texts)
        if (
            self._texts + len(texts) > self.limits.queue
            or self._characters + request.characters > self.limits.queue_characters
        ):
            seconds = (self._texts + len(texts)) / (self._rate * self.limits.workers)
            raise QueueFull(max(1, min(_MAX_RETRY, math.ceil(seconds))))
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
        """Add the texts of a request to the counts of queued texts, or remove them."""
        change = is_queued - request.is_queued
        request.is_queued = is_queued
        self._texts += change * len(request.texts)
        self._characters += change * request.characters
        self._metrics.queue.set(self._texts)

    # Scheduling: called whenever a request arrives, a computation ends, or the timer fires

    def _schedule(self) -> None:
        """Start a computation on each idle worker, and split a long request."""
        is_due = len(self._turns) < self.limits.workers and self._is_due()
        while len(self._turns) < self.limits.workers:
            turn = self._take_turn(is_due=is_due)
            if turn is None:
                self._set_timer()
                break
            self._start(turn, self._turns)
        has_room = len(self._sliced) < max(_MIN_SLICED, self.limits.workers)
        if self._long and has_room and not self._splits:
            self._start(self._split(self._long.popleft()), self._splits)

    def _start(self, turn: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]) -> None:
        def end(task: asyncio.Task[None]) -> None:
            tasks.discard(task)
            self._schedule()

        task = asyncio.create_task(turn)
        tasks.add(task)
        task.add_done_callback(end)

    def _is_due(self) -> bool:
        """Return whether the ordinary requests fill a batch, or the first has waited long enough."""
        if not self._ordinary:
            return False
        has_waited = time.monotonic() >= self._ordinary[0].since + self.limits.wait
        return has_waited or self._ordinary_texts >= self.limits.batch or not self.ready

    def _set_timer(self) -> None:
        """Schedule again when the first ordinary request is due, or when all workers may compute slices."""
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

    def _take_turn(self, *, is_due: bool) -> Coroutine[Any, Any, None] | None:
        """Return the next computation, of a slice or of ordinary requests; None if none is due."""
        if self._is_slice_next or not self._ordinary:
            while self._may_slice():
                request = self._sliced.popleft()
                numbers = request.take(_SLICE, self.limits.batch) if request.is_pending else []
                if not request.has_parts or not numbers:
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
        return self._take_turn(is_due=False)  # all ordinary requests were cancelled

    def _may_slice(self) -> bool:
        """Return whether an idle worker may compute a slice."""
        is_last = self.limits.workers > 1 and self._slices >= self.limits.workers - 1
        is_reserved = is_last and time.monotonic() < self._last_ordinary + _RECENT
        return bool(self._sliced) and not is_reserved

    def _take_ordinary(self) -> list[Request]:
        """Remove and return the first ordinary requests that fit into a batch; idle workers share them."""
        batch: list[Request] = []
        idle = self.limits.workers - len(self._turns)
        rest = min(self.limits.batch, math.ceil(self._ordinary_texts / idle))
        while self._ordinary:
            request = self._ordinary[0]
            if batch and len(request.texts) > rest:
                break
            self._ordinary.popleft()
            self._set_queued(request, False)
            if request.is_pending:
                batch.append(request)
                rest -= len(request.texts)
        return batch

    # Computations

    async def _run(self, threads: ThreadPoolExecutor, compute: Callable[[], T]) -> T:
        future: Future[T] = threads.submit(compute)
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        return await asyncio.wrap_future(future)

    async def _split(self, request: Request) -> None:
        if not request.is_pending:
            return
        split = partial(request.prepare, self.limits.words, self.limits.request_words)
        try:
            await self._run(self._splitter, split)
        except Exception as error:  # noqa: BLE001 - the client gets it
            request.finish(self._log(error, request))
            return
        if request.has_parts:
            self._sliced.append(request)
        else:  # the texts have no words
            request.finish(request.merge([]))

    async def _compute_slice(self, request: Request, numbers: Sequence[int]) -> None:
        start = time.monotonic()
        try:
            result = await self._run(self._workers, partial(request.compute, numbers))
            if result is not None:
                request.finish(result)
        except Exception as error:  # noqa: BLE001 - the client gets it
            request.finish(self._log(error, request))
        finally:
            self._slices -= 1
        self._observe(request.count_texts(numbers), start)

    async def _compute_ordinary(self, batch: Sequence[Request]) -> None:
        start = time.monotonic()
        results = await self._run(self._workers, partial(self._compute_batch, batch))
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
            self._set_queued(request, request.is_pending)
        if texts:
            self._rate += 0.2 * (texts / max(time.monotonic() - start, 1e-6) - self._rate)
            self._observe(texts, start)

    def _observe(self, texts: int, start: float) -> None:
        self._metrics.batch_texts.observe(texts)
        self._metrics.batch_seconds.observe(time.monotonic() - start)

    def _compute_batch(self, batch: Sequence[Request]) -> list[Result | Exception | None]:
        """Return the result or the error of each request; None if the batch was full before it."""
        results: dict[Request, Result | Exception | None] = dict.fromkeys(batch)
        ready: list[Request] = []
        for request in batch:
            if sum(one.size for one in ready) > _BATCH:
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
        """Compute requests of one recogniser together; if that fails, compute each separately."""
        try:
            entities = iter(group[0].recogniser.compute([part for one in group for part in one.parts]))
            return [one.merge([next(entities) for _ in one.parts]) for one in group]
        except Exception as error:  # noqa: BLE001 - the client gets it
            if len(group) > 1:
                return [result for one in group for result in self._compute_group([one])]
            return [self._log(error, group[0])]

    def _log(self, error: Exception, request: Request) -> Exception:
        """Log and count an error if it is one of the model, and return it."""
        if not isinstance(error, TooManyWords | Cancelled):
            logger.error("the model failed on a text of %d characters", request.characters, exc_info=error)
            self._metrics.model_errors.inc()
        return error
