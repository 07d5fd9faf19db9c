"""Running of the server until a signal stops it: sockets, signals and numbers of workers."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from ipaddress import ip_address

import uvicorn
from fastapi import FastAPI

from fencepost.errors import FencepostError, UsageError, describe_error

INTERRUPTED = 130  # exit code after Ctrl-C, as in shells

_BACKLOG = 4096  # connections that wait to be accepted
_MAX_WORKERS = 4  # default maximum; each worker needs memory for its batch


def share_cores(cores: int, workers: int | None, threads: int | None) -> tuple[int, int]:
    """Return the number of workers, and the number of threads of each.

    By default, there are as many workers as possible, each with an equal share of the cores.
    """
    if workers is None:
        workers = min(_MAX_WORKERS, max(1, cores // (threads or 1)))
    return workers, threads or max(1, cores // workers)


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached only from this machine."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


@contextmanager
def listen(host: str, port: int) -> Iterator[tuple[socket.socket, str]]:
    """Yield a listening socket and its URL; raise `UsageError` if it cannot be opened."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family)
    except (OSError, UnicodeError) as error:
        message = f"--host {host} --port {port}: cannot listen on this address: {describe_error(error)}"
        raise UsageError(message) from None
    with listener:
        name = f"[{host}]" if ":" in host else host
        yield listener, f"http://{name}:{listener.getsockname()[1]}"


def run(app: FastAPI, listener: socket.socket, timeout: float, greet: Callable[[], None]) -> None:
    """Serve until a signal, then answer the accepted requests within `timeout` seconds.

    `greet` is called before serving, when signals are already handled.
    """
    _raise_file_limit()
    config = uvicorn.Config(
        app,
        backlog=_BACKLOG,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,  # longer than that of proxies, so that they never use a closed connection
        timeout_graceful_shutdown=math.ceil(timeout),
    )
    logging.getLogger("uvicorn.error").addFilter(_is_failure)
    server = uvicorn.Server(config)
    server.capture_signals = nullcontext  # type: ignore[method-assign, assignment]
    with _handle_signals(server), suppress(SystemExit):
        greet()
        server.run(sockets=[listener])
    if not server.started:
        raise FencepostError("the server could not be started; see the messages above")


def _is_failure(record: logging.LogRecord) -> bool:
    """Return whether a message is about an error other than a disconnected client or a shutdown."""
    error = record.exc_info[1] if record.exc_info else None
    is_closed = isinstance(error, RuntimeError) and "handler is closed" in str(error)  # raised by uvloop
    return not (is_closed or isinstance(error, asyncio.CancelledError | ConnectionError))


def _raise_file_limit() -> None:
    """Allow as many open files as the system permits, since each connection is one."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@contextmanager
def _handle_signals(server: uvicorn.Server) -> Iterator[None]:
    """Stop the server at the first signal, and the process at a further Ctrl-C.

    This replaces the handlers of uvicorn, which are installed later and raise the signal again at the end.
    """

    def stop(signum: int, _: object) -> None:
        if server.should_exit and signum == signal.SIGINT:
            os.write(2, b"stopped immediately\n")  # not by sys.stderr: a write to it may be interrupted here
            os._exit(INTERRUPTED)
        server.should_exit = True

    before = {one: signal.signal(one, stop) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
