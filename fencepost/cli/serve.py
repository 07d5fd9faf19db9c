"""`fencepost serve`: a model behind HTTP, with a page to try it on."""

from __future__ import annotations

import os
import re
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.cli.frame import INTERRUPTED, Quiet, command, say
from fencepost.cli.models import Changes, EngineName, Threads, load_recogniser, saved_config
from fencepost.errors import FencepostError, UsageError

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI

TOKEN = "FENCEPOST_TOKEN"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Names of the machine itself."""

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
    max_body: MaxBody = 1 << 20,
    timeout: Timeout = 30,
    quiet: Quiet = False,
) -> None:
    """Answer requests for entities over HTTP; the page at / shows them.

    fencepost serve MODEL --port 8000
    """
    with _installed():
        import uvicorn  # noqa: F401

        from fencepost.server import Limits, make_app
    from fencepost.loading import SHIPPED

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
            body=max_body,
            timeout=timeout,
        ),
        token=token,
        origins=[_origin(one) for one in allow_origin or ()],
        hosts=_hosts(allow_host or (), host, token),
    )
    with _listening(host, port) as listener:
        at = f"[{host}]" if ":" in host else host
        say(
            f"serving {folder.resolve().name} ({recogniser.engine}) at "
            f"http://{at}:{listener.getsockname()[1]} - Ctrl-C stops it",
            quiet=quiet,
        )
        _run(app, listener, timeout)
    say("stopped", quiet=quiet)


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


@contextmanager
def _installed() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "fencepost":
            raise
        raise UsageError(
            f"this needs {error.name}, which is not installed: pip install 'fencepost[serve]'"
        ) from None


def _token(file: Path | None) -> str | None:
    """From the file, or the environment; a token in the command would be seen by all users of the machine."""
    try:
        token = file.read_text(encoding="utf-8").strip() if file else os.environ.get(TOKEN)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--token-file {file}: cannot be read: {error}") from None
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
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"--host {host} --port {port}: cannot listen there: {reason}") from None
    with listener:
        yield listener


def _run(app: FastAPI, listener: socket.socket, timeout: float) -> None:
    """Until a signal; requests that were taken are answered first."""
    import uvicorn

    _allow_connections()
    config = uvicorn.Config(
        app,
        backlog=_BACKLOG,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,  # longer than proxies keep theirs, which else find them closed
        timeout_graceful_shutdown=max(1, round(timeout)),
    )
    server = uvicorn.Server(config)
    server.capture_signals = lambda: _signals(server)  # type: ignore[method-assign]
    with suppress(SystemExit):
        server.run(sockets=[listener])
    if not server.started:
        raise FencepostError("the server could not be started; what is above says why")
    if server.force_exit:  # a second Ctrl-C; the model may still be at work, and would be waited for
        typer.echo("stopped at once", err=True)
        os._exit(INTERRUPTED)


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
    """As uvicorn's own, but a signal is what ends this command well, so it is not raised again at the end."""
    before = {one: signal.signal(one, server.handle_exit) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
