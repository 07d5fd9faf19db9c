"""Run tasks one after another or in several processes; a task that fails does not affect the others."""

from __future__ import annotations

import gc
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
from multiprocessing.process import BaseProcess
from typing import Generic, TypeVar

import torch

from fencepost.data.output import WriteError
from fencepost.errors import FencepostError, describe_error

T = TypeVar("T")
CONTEXT = multiprocessing.get_context("spawn")  # a forked process would inherit the locks of libraries
PATIENCE = 5.0  # seconds until a process that does not end is killed


@dataclass(frozen=True, slots=True)
class Failure:
    """Reason why a task failed; `details` is the traceback of an unexpected error."""

    message: str
    details: str = ""


@dataclass(frozen=True, slots=True)
class TaskResult(Generic[T]):
    """Result of a finished task: its duration, and its failure if it failed."""

    task: T
    seconds: float
    failure: Failure | None = None


def run_task(work: Callable[[T], None], task: T) -> TaskResult[T]:
    """Run a task in this process; return an exception as its failure.

    Raises `WriteError`, because the next task would fail on a full disk as well.
    """
    start, failure = time.monotonic(), None
    try:
        work(task)
    except WriteError:
        raise
    except FencepostError as error:
        failure = Failure(str(error))
    except Exception as error:  # noqa: BLE001 - the other tasks can still run
        failure = Failure(f"{type(error).__name__}: {describe_error(error)}", traceback.format_exc())
    finally:
        gc.collect()  # a trainer has reference cycles, and the next task needs its memory
    return TaskResult(task, time.monotonic() - start, failure)


def run_in_processes(
    work: Callable[[T], None], tasks: Sequence[T], count: int
) -> Generator[TaskResult[T], None, None]:
    """Run tasks in `count` processes, which share the threads of this one; yield the results.

    The processes are terminated when the iterator is closed or this process ends, so a task must be able to
    resume. Only this process receives Ctrl-C.
    """
    waiting, running = deque(tasks), dict[Connection, tuple[T, float]]()
    processes: dict[Connection, BaseProcess] = {}
    threads = max(1, torch.get_num_threads() // count)
    try:
        while waiting or running:
            while waiting and len(running) < count:
                idle = next((one for one in processes if one not in running), None)
                connection = idle or _start_process(processes, threads)
                task = waiting.popleft()
                running[connection] = task, time.monotonic()
                with suppress(ConnectionError):  # if the process has died, `_receive` reports it
                    connection.send((work, task))
            ready = wait(list(running))
            for connection in [one for one in running if one in ready]:
                yield _receive(connection, *running.pop(connection), processes)
    finally:
        for process in processes.values():
            process.terminate()
        for process in processes.values():
            process.join(PATIENCE)
            if process.is_alive():
                process.kill()
                process.join()


def _start_process(processes: dict[Connection, BaseProcess], threads: int) -> Connection:
    connection, theirs = CONTEXT.Pipe()
    processes[connection] = CONTEXT.Process(target=_serve, args=(theirs, threads), daemon=True)
    with _ignore_ctrl_c():
        processes[connection].start()
    theirs.close()  # so that the connection ends when the process does
    return connection


def _receive(
    connection: Connection, task: T, since: float, processes: dict[Connection, BaseProcess]
) -> TaskResult[T]:
    """Return the result of a task, or a failure if its process has died."""
    try:
        seconds, failure = connection.recv()
    except (EOFError, ConnectionResetError):
        process = processes.pop(connection)
        connection.close()
        process.join()
        seconds, failure = time.monotonic() - since, Failure(_describe_exit(process.exitcode))
    if isinstance(failure, WriteError):
        raise failure
    return TaskResult(task, seconds, failure)


def _serve(connection: Connection, threads: int) -> None:
    """Run the tasks that the parent sends, until it closes the connection."""
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    torch.set_num_threads(threads)
    with suppress(EOFError, ConnectionError):
        while True:
            work, task = connection.recv()
            try:
                result = run_task(work, task)
                connection.send((result.seconds, result.failure))
            except WriteError as error:
                connection.send((0.0, error))


def _exit_with_parent() -> None:
    """Exit when the parent is killed, so that the next command does not run beside this process."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _describe_exit(code: int | None) -> str:
    if code is not None and code < 0:
        hint = ", perhaps because it ran out of memory" if -code == signal.SIGKILL else ""
        return f"its process was killed ({signal.Signals(-code).name}){hint}"
    return f"its process ended with code {code}"


@contextmanager
def _ignore_ctrl_c() -> Iterator[None]:
    """Ignore Ctrl-C, also in processes that are started meanwhile."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set a handler, and only it receives Ctrl-C
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
