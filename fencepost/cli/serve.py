"""`fencepost serve`: an HTTP server of a model, with a page to try it on."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from fencepost.cli.frame import Quiet, command, say
from fencepost.cli.models import MODEL, LinesName, ModelOptions, saved_config
from fencepost.data.files import read_text
from fencepost.errors import UsageError, require_extra
from fencepost.runtime.threads import count_cores, read_omp_threads

TOKEN = "FENCEPOST_TOKEN"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Names of the machine itself."""

_TOKEN_BYTES = 10_000  # of the longest file that may hold a token
_limit = partial(typer.Option, rich_help_panel="Limits")
_access = partial(typer.Option, rich_help_panel="Access")


@command("serve")
def serve(
    options: ModelOptions,
    model: Annotated[
        Path | None,
        typer.Argument(metavar="MODEL", help="The folder of a model; unless set, the one that ships."),
    ] = None,
    host: Annotated[
        str,
        typer.Option("--host", help="Address to listen at. Without a token, this machine's own only."),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port; 0 is any that is free.")
    ] = 8000,
    lines: Annotated[
        LinesName | None,
        typer.Option(
            "--lines",
            help="Line breaks that end a sentence: all (break), only blank lines (join), or those of lists, "
            "forms and tables, but not of wrapped paragraphs (auto). Default: the model's.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        _access(
            "--token-file",
            metavar="FILE",
            help=f"Answer only requests with the token in this file (or in the variable {TOKEN}).",
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        _access(
            "--allow-origin",
            metavar="URL",
            help="Let the pages of this site ask from browsers, as https://example.org; repeatable.",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        _access(
            "--allow-host",
            metavar="NAME",
            help="Answer to this name too, as a proxy sends it; repeatable. With a token: any, unless set.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        _limit(
            "--workers",
            min=1,
            max=64,
            help="Batches computed at once, by --threads threads each; unless set, one a core, up to 4.",
        ),
    ] = None,
    max_batch: Annotated[int, _limit("--max-batch", min=1, help="Texts computed together.")] = 128,
    max_wait: Annotated[
        float, _limit("--max-wait", min=0, max=1000, help="Milliseconds that a text waits for others.")
    ] = 5,
    max_queue: Annotated[
        int, _limit("--max-queue", min=1, help="Texts that wait; a request with more gets 429.")
    ] = 1024,
    max_texts: Annotated[int, _limit("--max-texts", min=1, help="Texts of one request.")] = 256,
    max_characters: Annotated[
        int, _limit("--max-characters", min=1, help="Characters of one text.")
    ] = 100_000,
    max_words: Annotated[
        int,
        _limit(
            "--max-words",
            min=1,
            help="Words of one text, a rare or long one counted as several; a request has four times as many "
            "at most. More gets 413.",
        ),
    ] = 25_000,
    max_body: Annotated[
        int, _limit("--max-body", min=1, help="Bytes of a request's body; more gets 413.")
    ] = 1 << 20,
    timeout: Annotated[
        float,
        _limit(
            "--timeout",
            min=0.1,
            max=3600,
            help="Seconds until a request without an answer gets 503; a shutdown may take as long.",
        ),
    ] = 30,
    quiet: Quiet = False,
) -> None:
    """Answer requests for entities over HTTP; the page at / shows them.

    Example: fencepost serve my-model --port 8000
    """
    with require_extra("serve"):
        import uvicorn  # noqa: F401

        from fencepost.server import Limits, make_app
        from fencepost.server.run import is_loopback, listen, run, share_cores
    from fencepost.runtime.loading import SHIPPED

    token = _token(token_file)
    if token is None and not is_loopback(host):
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
    workers, threads = share_cores(read_omp_threads() or count_cores(), workers, options.threads)
    recogniser = replace(options, threads=threads).load(folder, lines)
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
    with listen(host, port) as (listener, address):
        greeting = f"serving {folder.resolve().name} ({recogniser.engine}) at {address} - Ctrl-C stops it"
        run(app, listener, timeout, lambda: say(greeting, quiet=quiet))
    say("stopped", quiet=quiet)
    if app.state.batcher.is_computing:  # a thread cannot be stopped, and Python would wait for its end
        os._exit(0)


def _token(file: Path | None) -> str | None:
    """Read the token from the file or the environment; all users of the machine could see it in a command."""
    token = read_text(file, limit=_TOKEN_BYTES).strip() if file else os.environ.get(TOKEN)
    if token is not None and not re.fullmatch(r"[!-~]{8,}", token):
        raise UsageError(
            f"{f'--token-file {file}' if file else TOKEN}: a token has at least 8 letters, digits or signs, "
            "and no spaces"
        )
    return token


def _hosts(allowed: Sequence[str], host: str, token: str | None) -> set[str] | None:
    """Return the names that the server answers to; None is any."""
    for name in allowed:
        if not re.fullmatch(r"[\w.-]+|[0-9a-fA-F:.]+", name):
            raise UsageError(f"--allow-host {name}: give a name or an address, without a port or a path")
    return {*LOOPBACK, host, *allowed} if token is None or allowed else None


def _origin(url: str) -> str:
    if not re.fullmatch(r"https?://[^/\s]+/?", url):
        raise UsageError(f"--allow-origin {url}: give the beginning of an address, as https://example.org")
    return url.rstrip("/")
