"""How `fencepost serve` bears load: throughput against `pipe`, latency at half load, and nothing mixed up.

    python -m benchmarks.serve_load [MODEL] [--requests 10000]
    python -m benchmarks.serve_load [MODEL] --hostile

The server is a process of its own on the loopback interface; this process asks. Both share the cores, so
what asking costs is lost to the server. Each text is a sentence of the sample.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import fencepost
from benchmarks.common import machine, report, say
from fencepost.data import read

Found = list[dict[str, Any]]
_CONNECTING = 200  # at a time


@dataclass
class Server:
    """Where it listens, the number of its process, and how often it said 429."""

    port: int
    process: int
    refused: int = 0


@contextmanager
def serving(model: str | None, *options: str) -> Iterator[Server]:
    """Run a server in another process, and stop it with SIGTERM at the end."""
    command = [
        sys.executable,
        "-m",
        "fencepost",
        "serve",
        *([model] if model else []),
        "--port",
        "0",
        *options,
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr
        line = process.stderr.readline()
        threading.Thread(target=process.stderr.read, daemon=True).start()  # else it waits for a reader
        yield Server(int(line.partition("http://")[2].split()[0].rpartition(":")[2]), process.pid)
    finally:
        process.terminate()
        assert process.wait(60) == 0, "the server did not end well"


@dataclass
class Client:
    """One connection, which is kept."""

    server: Server
    streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = field(default=None)

    async def ask(self, texts: Sequence[str]) -> list[Found]:
        """Return the entities of each text; after a 429, wait for the time in `Retry-After` and try again."""
        body = json.dumps({"texts": texts}).encode()
        while True:
            status, headers, answer = await self.exchange(body)
            if status == 200:
                return [result["entities"] for result in json.loads(answer)["results"]]
            assert status == 429, (status, answer)
            self.server.refused += 1
            await asyncio.sleep(int(headers["retry-after"]) * random.uniform(0.5, 1.5))

    async def exchange(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        if self.streams is None:
            self.streams = await asyncio.open_connection("127.0.0.1", self.server.port)
        reader, writer = self.streams
        writer.write(
            b"POST /v1/entities HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        return int(first.split()[1]), headers, await reader.readexactly(int(headers["content-length"]))

    def close(self) -> None:
        if self.streams is not None:
            self.streams[1].close()


def direct(recogniser: fencepost.Recogniser, texts: Sequence[str]) -> list[Found]:
    return [
        [
            {"start": e.start, "end": e.end, "type": e.type, "score": round(e.score, 4), "text": e.text}
            for e in entities
        ]
        for entities in recogniser.pipe(texts)
    ]


async def closed_loop(server: Server, texts: Sequence[str], clients: int, per_request: int) -> float:
    """Texts a second, when each client asks again as soon as it has its answer."""
    requests = iter([texts[at : at + per_request] for at in range(0, len(texts), per_request)])

    async def one() -> None:
        client = Client(server)
        for request in requests:
            await client.ask(request)
        client.close()

    start = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(clients)))
    return len(texts) / (time.perf_counter() - start)


async def open_loop(server: Server, texts: Sequence[str], rate: float, seconds: float) -> list[float]:
    """Return the latencies, in seconds, of requests at random times, `rate` per second on average."""
    dice, idle, latencies = random.Random(0), [Client(server) for _ in range(64)], list[float]()

    async def one(text: str) -> None:
        start = time.perf_counter()
        client = idle.pop() if idle else Client(server)
        await client.ask([text])
        latencies.append(time.perf_counter() - start)
        idle.append(client)

    requests, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        requests.append(asyncio.create_task(one(dice.choice(texts))))
        await asyncio.sleep(dice.expovariate(rate))
    await asyncio.gather(*requests)
    for client in idle:
        client.close()
    return latencies


async def all_at_once(server: Server, texts: Sequence[str]) -> list[Found]:
    """Send each text over its own connection, all open at the same time, and return the entities."""
    door = asyncio.Semaphore(_CONNECTING)
    clients = [Client(server) for _ in texts]

    async def connect(client: Client) -> None:
        async with door:
            client.streams = await asyncio.open_connection("127.0.0.1", server.port)

    await asyncio.gather(*map(connect, clients))
    answers = await asyncio.gather(*(client.ask([text]) for client, text in zip(clients, texts, strict=True)))
    for client in clients:
        client.close()
    return [answer for (answer,) in answers]


def speed(model: str | None, texts: Sequence[str], rounds: int) -> dict[str, Any]:
    """Server and `pipe` by turns; the ratio is that of the medians."""
    recogniser = fencepost.load(model)
    speeds: dict[str, list[float]] = {"pipe": [], "one text a request": [], "16 texts a request": []}
    direct(recogniser, texts[:64])
    with serving(model) as server:
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            start = time.perf_counter()
            direct(recogniser, texts)
            speeds["pipe"].append(len(texts) / (time.perf_counter() - start))
            speeds["one text a request"].append(asyncio.run(closed_loop(server, texts, 256, 1)))
            speeds["16 texts a request"].append(asyncio.run(closed_loop(server, texts, 32, 16)))
        medians = {name: statistics.median(values) for name, values in speeds.items()}
        half = medians["one text a request"] / 2
        latencies = sorted(asyncio.run(open_loop(server, texts, half, 20)))
    return {
        "texts_a_second": {name: round(value, 1) for name, value in medians.items()},
        "of_pipe": {
            name: round(value / medians["pipe"], 3) for name, value in medians.items() if name != "pipe"
        },
        "half_load": {
            "requests_a_second": round(half, 1),
            "requests": len(latencies),
            **{
                f"p{part}_ms": round(1000 * latencies[int(part / 100 * (len(latencies) - 1))], 1)
                for part in (50, 90, 99)
            },
        },
    }


async def one_by_one(server: Server, texts: Sequence[str]) -> list[float]:
    """Return the latencies, in seconds, of requests that come one after the other."""
    client, latencies = Client(server), list[float]()
    for text in texts:
        start = time.perf_counter()
        await client.ask([text])
        latencies.append(time.perf_counter() - start)
    client.close()
    return latencies


async def beside_long_ones(server: Server, texts: Sequence[str], long: str) -> tuple[list[float], int]:
    """Return the latencies of requests beside two long ones, and how many of these were not finished."""
    clients = [Client(server) for _ in range(2)]
    body = json.dumps({"text": long}).encode()
    requests = [asyncio.create_task(client.exchange(body)) for client in clients]
    await asyncio.sleep(1)  # so that they are being computed
    latencies = await one_by_one(server, texts)
    unfinished = sum(not one.done() for one in requests)
    for one, client in zip(requests, clients, strict=True):
        one.cancel()
        client.close()
    return latencies, unfinished


def hostile(model: str | None, texts: Sequence[str], rounds: int) -> dict[str, Any]:
    """Latencies beside two requests of 100,000 characters and words, and when nothing else is computed."""
    times: dict[str, list[float]] = {"idle": [], "beside": []}
    unfinished = 0
    with serving(model, "--max-words", "100000", "--timeout", "120") as server:
        asyncio.run(one_by_one(server, texts))
        for number in range(rounds):
            say(f"two long requests, round {number + 1} of {rounds}")
            times["idle"] += asyncio.run(one_by_one(server, texts))
            latencies, left = asyncio.run(beside_long_ones(server, texts, "a-" * 50_000))
            times["beside"] += latencies
            unfinished += left
            asyncio.run(asyncio.sleep(2))  # what was computed last ends
    p99 = {name: sorted(values)[int(0.99 * (len(values) - 1))] for name, values in times.items()}
    return {
        "requests": len(times["beside"]),
        "long_requests_unfinished": unfinished,
        **{f"p99_ms_{name}": round(1000 * value, 1) for name, value in p99.items()},
        "p99_ratio": round(p99["beside"] / p99["idle"], 2),
    }


def mixed_up(model: str | None, texts: Sequence[str]) -> dict[str, Any]:
    """Whether each of many requests, all open at once, gets its own answer.

    Sentences are computed one by one here, so that not even rounding depends on what shares a batch: the
    answers are to be known exactly.
    """
    alone = "predict.batch_size=1"
    expected = direct(fencepost.load(model, settings={"batch_size": 1}), texts)
    distinct = len({json.dumps(answer) for answer in expected})
    say(f"{len(texts):,} requests at once")
    with serving(model, "--set", alone, "--timeout", "600") as server:
        answers = asyncio.run(all_at_once(server, texts))
        refused = server.refused
    return {
        "requests": len(texts),
        "distinct_answers": distinct,
        "wrong": sum(answer != known for answer, known in zip(answers, expected, strict=True)),
        "answers_429_before": refused,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", help="a model's folder; unless set, the one that ships")
    parser.add_argument("--requests", type=int, default=10_000, help="that are open at once")
    parser.add_argument("--texts", type=int, default=2_000, help="for the throughput, in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--hostile", action="store_true", help="only the latencies beside two requests of 100,000 words"
    )
    arguments = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 100_000), most))
    sample = [s.text for part in ("train", "dev", "test") for s in read(f"sample:{part}")]
    texts = [sample[at % len(sample)] for at in range(arguments.texts)]
    if arguments.hostile:
        report({**machine(), "hostile": hostile(arguments.model, texts[:50], arguments.rounds)})
        return
    numbered = [f"{sample[at % len(sample)]} ({at} Elm Street)" for at in range(arguments.requests)]
    result: dict[str, Any] = {
        **machine(),
        "speed": speed(arguments.model, texts, arguments.rounds),
        "all_at_once": mixed_up(arguments.model, numbered),
    }
    report(result)
    if result["all_at_once"]["wrong"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
