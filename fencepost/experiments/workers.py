"""Tasks one after another, or in several processes; one that fails costs no other."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Generic, TypeVar

import torch

from fencepost.errors import FencepostError, describe_error

T = TypeVar("T")
CONTEXT = multiprocessing.get_context("spawn")  # a fork would share what libraries have locked
PATIENCE = 5.0  # seconds until a process that does not end is killed


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a task was not done; `details` is where in the program that was, if nobody foresaw it."""

    message: str
    details: str = ""

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """Return the failure that an exception means; to be called where it is handled."""
        if isinstance(error, FencepostError):
            return cls(str(error))
        return cls(f"{type(error).__name__}: {describe_error(error)}", traceback.format_exc())


@dataclass(frozen=True, slots=True)
class Ended(Generic[T]):
    """A task that is done, or has failed."""

    task: T
    seconds: float
    failure: Failure | None = None


def one_by_one(work: Callable[[T], None], tasks: Sequence[T]) -> Generator[Ended[T], None, None]:
    """In this process."""
    for task in tasks:
        yield _attempt(work, task)


def in_processes(
    work: Callable[[T], None], tasks: Sequence[T], count: int
) -> Generator[Ended[T], None, None]:
    """In so many processes, which share the threads that this one would have; each does task after task.

    All of them end with the iterator, and with this process, however that ends: at once, so a task must
    bear it. Ctrl-C is heard by this process alone.
    """
    waiting, team = deque(tasks), list[_Worker[T]]()
    threads = max(1, torch.get_num_threads() // count)
    try:
        while waiting or team:
            while waiting and len(team) < count:
                team.append(_Worker(threads))
                team[-1].begin(work, waiting.popleft())
            ready = wait([worker.connection for worker in team])
            for worker in [worker for worker in team if worker.connection in ready]:
                ended = worker.ended()
                if waiting and worker.process.is_alive():
                    worker.give(waiting.popleft())
                else:
                    team.remove(worker)
                    worker.stop()
                yield ended
    finally:
        for worker in team:
            worker.process.terminate()
        for worker in team:
            worker.stop()


class _Worker(Generic[T]):
    """A process, and the task that it has."""

    def __init__(self, threads: int) -> None:
        self.connection, theirs = CONTEXT.Pipe()
        self.process = CONTEXT.Process(target=_serve, args=(theirs, threads), daemon=True)
        with _deaf_to_ctrl_c():
            self.process.start()
        theirs.close()  # so that the connection ends when the process does

    def begin(self, work: Callable[[T], None], task: T) -> None:
        """The work may have much data with it, which takes a while to go over: Ctrl-C is heard by now."""
        self.task, self.since = task, time.monotonic()
        with suppress(ConnectionError):
            self.connection.send(work)
        self.give(task)

    def give(self, task: T) -> None:
        self.task, self.since = task, time.monotonic()
        with suppress(ConnectionError):  # it has died meanwhile: `ended` will tell
            self.connection.send(task)

    def ended(self) -> Ended[T]:
        """What came of the task; the process may have died of it."""
        try:
            seconds, failure = self.connection.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            return Ended(self.task, time.monotonic() - self.since, Failure(_death(self.process.exitcode)))
        return Ended(self.task, seconds, failure)

    def stop(self) -> None:
        self.connection.close()
        self.process.join(PATIENCE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def _serve(connection: Connection, threads: int) -> None:
    """What a process does: tasks, until there are no more."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(threads)
    with suppress(EOFError, ConnectionError):
        work = connection.recv()
        while True:
            ended = _attempt(work, connection.recv())
            connection.send((ended.seconds, ended.failure))


def _end_with_parent() -> None:
    """A process whose parent was killed would go on alone, beside those of the next sweep."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _attempt(work: Callable[[T], None], task: T) -> Ended[T]:
    start, failure = time.monotonic(), None
    try:
        work(task)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other tasks are not to blame
        failure = Failure.of(error)
    return Ended(task, time.monotonic() - start, failure)


def _death(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        hint = ", perhaps since the memory was used up" if -code == signal.SIGKILL else ""
        return f"its process was killed ({name}){hint}"
    return f"its process ended with code {code}"


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """For processes that start meanwhile: they inherit it."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may; and only there Ctrl-C is heard
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
