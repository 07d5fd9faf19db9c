"""Whether the memory of `fencepost serve` stays bounded when every request brings new words.

    python -m benchmarks.serve_memory [MODEL] [--requests 20000]

The server is a process of its own; its resident memory is read from `/proc`, so Linux is needed. `ratio` is
the memory after all requests to that after the first 1,000.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import string
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.common import machine, report, say
from benchmarks.serve_load import Client, Server, serving

_FIRST, _CLIENTS = 1_000, 16
MOST = 1.3
"""The largest ratio that is accepted."""


def new_words(count: int) -> Iterator[str]:
    """Yield texts of `count` words that were never seen before."""
    dice = random.Random(0)
    while True:
        words = ("".join(dice.choices(string.ascii_letters, k=dice.randint(4, 12))) for _ in range(count))
        yield f"{' '.join(words)}."


async def send(server: Server, texts: Iterator[str], requests: int) -> None:
    """One text a request, over a few connections that are kept."""
    rest = iter(range(requests))

    async def ask() -> None:
        client = Client(server)
        for _ in rest:
            await client.ask([next(texts)])
        client.close()

    await asyncio.gather(*(ask() for _ in range(_CLIENTS)))


def resident(process: int) -> int:
    """Return the resident memory of a process, in kB."""
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", help="a model's folder; unless set, the one that ships")
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--words", type=int, default=20, help="in each request")
    arguments = parser.parse_args()
    texts = new_words(arguments.words)
    memory: dict[int, int] = {}
    with serving(arguments.model) as server:
        for count in range(0, arguments.requests, _FIRST):
            asyncio.run(send(server, texts, min(_FIRST, arguments.requests - count)))
            memory[count + _FIRST] = resident(server.process)
            say(f"{count + _FIRST:,} requests: {memory[count + _FIRST]:,} kB")
    first, *_, last = memory.values()
    result = {
        "first_kb": first,
        "last_kb": last,
        "peak_kb": max(memory.values()),
        "ratio": round(last / first, 3),
    }
    report({**machine(), "requests": arguments.requests, "words": arguments.words, **result, "most": MOST})
    if last / first > MOST:
        sys.exit(1)


if __name__ == "__main__":
    main()
