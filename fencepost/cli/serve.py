"""`fencepost serve`: a model behind HTTP, with a page to try it on."""

from __future__ import annotations

import gc
import logging
import math
import os
import re
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.cli.frame import INTERRUPTED, Quiet, command, say
from fencepost.cli.models import Changes, EngineName, Threads, load_recogniser, saved_config
from fencepost.data.files import read_text
from fencepost.errors import FencepostError, UsageError, describe_error, require_extra

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI

TOKEN = "FENCEPOST_TOKEN"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Names of the machine itself."""

_TOKEN_BYTES = 10_000  # of the longest file that may hold a token
_BACKLOG = 4096  # connections that wait to be taken
_WORKERS = 4  # at most, unless told otherwise: each takes memory for what it computes
_LIMITS, _ACCESS = "Limits", "Access"

ModelFolder = Annotated[
    Path | None,
    typer.Argument(metavar="MODEL", help="The folder of a model; unless set, that which ships."),
]
Host = Annotated[
    str,
    typer.Option("--host", help="The address to listen at. Without a token, this machine's own only."),
]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0 is any that is free.")]
Engine = Annotated[
    EngineName, typer.Option("--engine", help="What computes: auto, int8, onnx or pytorch, as in predict.")
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help=f"Answer only who bears the token in this file (or in the variable {TOKEN}).",
        rich_help_panel=_ACCESS,
    ),
]
Origins = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-origin",
        metavar="URL",
        help="Let the pages of this site ask from browsers, as https://example.org; repeatable.",
        rich_help_panel=_ACCESS,
    ),
]
Hosts = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-host",
        metavar="NAME",
        help="Answer to this name too, as a proxy passes it on; repeatable. With a token: any, unless set.",
        rich_help_panel=_ACCESS,
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        max=64,
        help="Batches computed at once, by --threads threads each; unless set, one a core, up to 4.",
        rich_help_panel=_LIMITS,
    ),
]
MaxBatch = Annotated[
    int,
    typer.Option("--max-batch", min=1, help="Texts computed together.", rich_help_panel=_LIMITS),
]
MaxWait = Annotated[
    float,
    typer.Option(
        "--max-wait",
        min=0,
        max=1000,
        help="Milliseconds that a text waits for others.",
        rich_help_panel=_LIMITS,
    ),
]
MaxQueue = Annotated[
    int,
    typer.Option(
        "--max-queue", min=1, help="Texts that wait; who brings more gets 429.", rich_help_panel=_LIMITS
    ),
]
MaxTexts = Annotated[
    int, typer.Option("--max-texts", min=1, help="Texts of one request.", rich_help_panel=_LIMITS)
]
MaxCharacters = Annotated[
    int, typer.Option("--max-characters", min=1, help="Characters of one text.", rich_help_panel=_LIMITS)
]
MaxWords = Annotated[
    int,
    typer.Option(
        "--max-words",
        min=1,
        help="Words of one text, a rare or long one counted as several; a request has four times as many at "
        "most. More gets 413.",
        rich_help_panel=_LIMITS,
    ),
]
MaxBody = Annotated[
    int,
    typer.Option(
        "--max-body", min=1, help="Bytes of a request's body; more gets 413.", rich_help_panel=_LIMITS
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        min=0.1,
        max=3600,
        help="Seconds until a request without an answer gets 503; as long may a shutdown take.",
        rich_help_panel=_LIMITS,
    ),
]


@command("serve")
def serve(
    model: ModelFolder = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    engine: Engine = "auto",
    threads: Threads = None,
    changes: Changes = None,
    token_file: TokenFile = None,
    allow_origin: Origins = None,
    allow_host: Hosts = None,
    workers: Workers = None,
    max_batch: MaxBatch = 128,
    max_wait: MaxWait = 5,
    max_queue: MaxQueue = 1024,
    max_texts: MaxTexts = 256,
    max_characters: MaxCharacters = 100_000,
    max_words: MaxWords = 25_000,
    max_body: MaxBody = 1 << 20,
    timeout: Timeout = 30,
    quiet: Quiet = False,
) -> None:
    """Answer requests for entities over HTTP; the page at / shows them.

    fencepost serve MODEL --port 8000
    """
    with require_extra("serve"):
        import uvicorn  # noqa: F401

        from fencepost.server import Limits, make_app
    from fencepost.runtime.loading import SHIPPED

    token = _token(token_file)
    if token is None and not _is_loopback(host):
        raise UsageError(
            f"--host {host}: others could ask then; set a token (--token-file, or the variable {TOKEN}), "
            "or listen at 127.0.0.1"
        )
    if max_queue < max_texts:
        raise UsageError(
            f"--max-queue {max_queue}: a request of --max-texts {max_texts} would never fit; lower one or "
            "raise the other"
        )
    folder = model or SHIPPED
    workers, threads = _shared(_cores(), workers, threads)
    recogniser = load_recogniser(folder, engine, changes, threads)
    recogniser("This is Ada.")  # the first time takes longer, and nobody waits yet
    sys.setswitchinterval(0.001)  # seconds that a thread which splits a text may keep the others waiting
    gc.freeze()  # what is loaded stays: to look through it again and again would stop all threads
    app = make_app(
        recogniser,
        name=folder.resolve().name,
        method=saved_config(folder)["method"]["name"],
        limits=Limits(
            workers=workers,
            batch=max_batch,
            wait=max_wait / 1000,
            queue=max_queue,
            queue_characters=max(Limits().queue_characters, max_body),
            texts=max_texts,
            characters=max_characters,
            words=max_words,
            body=max_body,
            timeout=timeout,
        ),
        token=token,
        origins=[_origin(one) for one in allow_origin or ()],
        hosts=_hosts(allow_host or (), host, token),
    )
    with _listening(host, port) as listener:
        at = f"[{host}]" if ":" in host else host
        address = f"http://{at}:{listener.getsockname()[1]}"
        greeting = f"serving {folder.resolve().name} ({recogniser.engine}) at {address} - Ctrl-C stops it"
        _run(app, listener, timeout, lambda: say(greeting, quiet=quiet))
    say("stopped", quiet=quiet)
    if app.state.batcher.is_computing:  # a thread cannot be stopped, and Python would wait for its end
        os._exit(0)


def _cores() -> int:
    """That this process may use, or as many as `OMP_NUM_THREADS` says."""
    told = os.environ.get("OMP_NUM_THREADS", "")
    if told.isdecimal() and int(told):
        return int(told)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _shared(cores: int, workers: int | None, threads: int | None) -> tuple[int, int]:
    """Workers, and threads of each: on two cores, two workers were faster than two threads."""
    if workers is None:
        workers = min(_WORKERS, max(1, cores // (threads or 1)))
    return workers, threads or max(1, cores // workers)


def _token(file: Path | None) -> str | None:
    """From the file, or the environment; a token in the command would be seen by all users of the machine."""
    token = read_text(file, limit=_TOKEN_BYTES).strip() if file else os.environ.get(TOKEN)
    if token is not None and (
        len(token) < 8 or not token.isascii() or not token.isprintable() or " " in token
    ):
        raise UsageError(
            f"{f'--token-file {file}' if file else TOKEN}: a token has at least 8 letters, digits or signs, "
            "and no spaces"
        )
    return token


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _hosts(allowed: Sequence[str], host: str, token: str | None) -> set[str] | None:
    """The names that the server answers to; None is any."""
    for name in allowed:
        if not re.fullmatch(r"[\w.-]+|[0-9a-fA-F:.]+", name):
            raise UsageError(f"--allow-host {name}: give a name or an address, without a port or a path")
    return {*LOOPBACK, host, *allowed} if token is None or allowed else None


def _origin(url: str) -> str:
    if not re.fullmatch(r"https?://[^/\s]+/?", url):
        raise UsageError(f"--allow-origin {url}: give the beginning of an address, as https://example.org")
    return url.rstrip("/")


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family)
    except (OSError, UnicodeError) as error:
        message = f"--host {host} --port {port}: cannot listen there: {describe_error(error)}"
        raise UsageError(message) from None
    with listener:
        yield listener


def _run(app: FastAPI, listener: socket.socket, timeout: float, greet: Callable[[], None]) -> None:
    """Serve until a signal; requests that were taken are answered first, within `timeout` seconds."""
    import uvicorn

    _allow_connections()
    config = uvicorn.Config(
        app,
        backlog=_BACKLOG,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,  # longer than proxies keep theirs, which else find them closed
        timeout_graceful_shutdown=math.ceil(timeout),
    )
    logging.getLogger("uvicorn.error").addFilter(_is_failure)
    server = uvicorn.Server(config)
    server.capture_signals = nullcontext  # type: ignore[method-assign, assignment]
    with _signals(server), suppress(SystemExit):
        greet()  # from now on a signal ends the command as documented
        server.run(sockets=[listener])
    if not server.started:
        raise FencepostError("the server could not be started; what is above says why")


def _is_failure(record: logging.LogRecord) -> bool:
    """Return whether a message is not only about a client that hung up, or a request ended by a shutdown."""
    from asyncio import CancelledError

    error = record.exc_info[1] if record.exc_info else None
    hung_up = isinstance(error, RuntimeError) and "handler is closed" in str(error)  # as uvloop has it
    return not (hung_up or isinstance(error, CancelledError | ConnectionError))


def _allow_connections() -> None:
    """As many open files as the system lets us have, for each connection is one."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@contextmanager
def _signals(server: uvicorn.Server) -> Iterator[None]:
    """End the server at the first signal, and the process at Ctrl-C after it.

    uvicorn installs its handlers later, and raises the signal again at the end.
    """

    def stop(signum: int, _: object) -> None:
        if server.should_exit and signum == signal.SIGINT:
            os.write(2, b"stopped at once\n")  # the handler may have interrupted a write to sys.stderr
            os._exit(INTERRUPTED)
        server.should_exit = True

    before = {one: signal.signal(one, stop) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
