"""`fencepost serve`: serve a model over HTTP, with a web page to try it."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fencepost.cli.frame import Quiet, command, say
from fencepost.cli.groups import argument, option
from fencepost.cli.models import MODEL, LinesName, ModelOptions, try_read_config
from fencepost.data.files import read_text
from fencepost.errors import UsageError, require_extra
from fencepost.runtime.threads import count_cores, read_omp_threads

TOKEN = "FENCEPOST_TOKEN"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Host names of the local machine."""

_TOKEN_BYTES = 10_000  # maximum size of a token file
_LIMITS, _ACCESS = "Limits", "Access"


@command("serve")
def serve(
    options: ModelOptions,
    models: list[Path] | None = argument(
        "MODEL...",
        "Folders or names of models; requests choose one. Default: the shipped model, names.",
        None,
    ),
    host: str = option("127.0.0.1", "Address to listen on; without a token, only a local one."),
    port: int = option(8000, "Port to listen on; 0 chooses a free one.", min=0, max=65535),
    lines: LinesName | None = option(
        None,
        "Line breaks that end a sentence: all (break), only blank lines (join), or those in lists, "
        "forms and tables, but not in wrapped paragraphs (auto). Default: that of the model.",
        panel=MODEL,
    ),
    token_file: Path | None = option(
        None,
        f"Accept only requests with the token in this file (or in the variable {TOKEN}).",
        panel=_ACCESS,
        metavar="FILE",
    ),
    allow_origin: list[str] | None = option(
        None,
        "Allow requests from web pages of this site, for example https://example.org; repeatable.",
        panel=_ACCESS,
        metavar="URL",
    ),
    allow_host: list[str] | None = option(
        None,
        "Also accept requests for this host name, for example from a proxy; repeatable. Default "
        "with a token: any name.",
        panel=_ACCESS,
        metavar="NAME",
    ),
    workers: int | None = option(
        None,
        "Number of batches computed at once, with --threads threads each. Default: one per core, up to 4.",
        panel=_LIMITS,
        min=1,
        max=64,
    ),
    max_batch: int = option(128, "Maximum number of texts in a batch.", panel=_LIMITS, min=1),
    max_wait: float = option(
        5, "Maximum time in milliseconds that a text waits for others.", panel=_LIMITS, min=0, max=1000
    ),
    max_queue: int = option(
        1024, "Maximum number of waiting texts; requests above it get status 429.", panel=_LIMITS, min=1
    ),
    max_texts: int = option(256, "Maximum number of texts per request.", panel=_LIMITS, min=1),
    max_characters: int = option(100_000, "Maximum number of characters per text.", panel=_LIMITS, min=1),
    max_words: int = option(
        25_000,
        "Maximum number of words per text; rare or long words count as several. A request may have "
        "four times as many. Requests above these limits get status 413.",
        panel=_LIMITS,
        min=1,
    ),
    max_body: int = option(
        1 << 20,
        "Maximum number of bytes of a request body; a larger one gets status 413.",
        panel=_LIMITS,
        min=1,
    ),
    timeout: float = option(
        30,
        "Maximum time in seconds for a request, which then gets status 503, and for a shutdown.",
        panel=_LIMITS,
        min=0.1,
        max=3600,
    ),
    quiet: Quiet = False,
) -> None:
    """Serve one or more models over HTTP, with a page at / to try them.

    Example: fencepost serve my-model --port 8000
    """
    with require_extra("serve"):
        import uvicorn  # noqa: F401

        from fencepost.server import Limits, make_app
        from fencepost.server.run import is_loopback, listen, run, share_cores
    from fencepost.runtime.loading import find_model

    token = _read_token(token_file)
    if token is None and not is_loopback(host):
        raise UsageError(
            f"--host {host}: other machines could send requests; set a token (--token-file or the variable "
            f"{TOKEN}), or listen on 127.0.0.1"
        )
    if max_queue < max_texts:
        raise UsageError(
            f"--max-queue {max_queue} is less than --max-texts {max_texts}, so a full request would never "
            "fit; increase the one or decrease the other"
        )
    folders = [find_model(one) for one in models or (None,)]
    names = _name_models(folders)
    workers, threads = share_cores(read_omp_threads() or count_cores(), workers, options.threads)
    recognisers = [replace(options, threads=threads).load(folder, lines) for folder in folders]
    for recogniser in recognisers:
        recogniser("This is Ada.")  # the first prediction is slower
    sys.setswitchinterval(0.001)  # seconds after which a thread that splits a text lets others run
    gc.freeze()  # the garbage collector need not scan the model, which would stop all threads
    methods = [try_read_config(folder)["method"]["name"] for folder in folders]
    app = make_app(
        recognisers[0],
        name=names[0],
        method=methods[0],
        others=list(zip(recognisers, names, methods, strict=True))[1:],
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
        origins=[_parse_origin(one) for one in allow_origin or ()],
        hosts=_list_hosts(allow_host or (), host, token),
    )
    with listen(host, port) as (listener, address):
        list_ = ", ".join(f"{name} ({one.engine})" for name, one in zip(names, recognisers, strict=True))
        greeting = f"serving {list_} at {address} (press Ctrl-C to stop)"
        run(app, listener, timeout, lambda: say(greeting, quiet=quiet))
    say("stopped", quiet=quiet)
    if app.state.batcher.is_computing:  # Python would wait for the thread, which cannot be stopped
        os._exit(0)


def _name_models(folders: Sequence[Path]) -> list[str]:
    """Return a name for each model: that of its folder, or the paths if two folders have the same name."""
    names = [folder.resolve().name for folder in folders]
    if len(set(names)) < len(names):
        names = [str(folder) for folder in folders]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"the model {name} is given more than once; give each model once")
    return names


def _read_token(file: Path | None) -> str | None:
    """Return the token in the file or the environment; in the command, other users could see it."""
    token = read_text(file, limit=_TOKEN_BYTES) if file else os.environ.get(TOKEN)
    token = None if token is None else token.strip()  # a file ends with a line end
    if token is not None and not re.fullmatch(r"[!-~]{8,}", token):
        raise UsageError(
            f"{f'--token-file {file}' if file else TOKEN}: a token has at least 8 ASCII letters, digits or "
            "punctuation characters, and no spaces"
        )
    return token


def _list_hosts(allowed: Sequence[str], host: str, token: str | None) -> set[str] | None:
    """Return the host names that the server accepts; None for any."""
    for name in allowed:
        if not re.fullmatch(r"[\w.-]+|[0-9a-fA-F:.]+", name):
            raise UsageError(f"--allow-host {name}: give a host name or an address, without a port or a path")
    return {*LOOPBACK, host, *allowed} if token is None or allowed else None


def _parse_origin(url: str) -> str:
    if not re.fullmatch(r"https?://[^/\s]+/?", url):
        raise UsageError(f"--allow-origin {url}: give a scheme and a host, for example https://example.org")
    return url.rstrip("/")
