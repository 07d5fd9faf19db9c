"""A server in this process: its application is called directly, without a network."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx

from fencepost.data.entity import Entity, Sentence
from fencepost.runtime.recogniser import Part, Recogniser
from fencepost.server import Limits, make_app
from tests.runtime.doubles import Double


class Capitals:
    """Finder of words in capitals, with confidences by length, which can wait and fail on demand."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()
        self.start_event = threading.Event()

    def __call__(self, sentence: Sentence) -> Iterable[Entity]:
        self.start_event.set()
        assert self.open.wait(20)
        for place, word in enumerate(sentence.words):
            if word == "POISON":
                raise RuntimeError("the weights are no numbers")
            if word.isupper():
                yield Entity(place, place + 1, "LOC" if len(word) > 3 else "PER", len(word) / 10)


class Counted(Recogniser):
    """Recogniser that records which sentences, or windows of them, were computed together."""

    batches: list[list[str]]

    def compute(self, parts: Sequence[Part]) -> list[list[Entity]]:
        self.batches.append([" ".join(part.sentence.words) for part in parts])
        return super().compute(parts)


def recogniser(finds: Callable[[Sentence], Iterable[Entity]]) -> Counted:
    double = Counted(Double(finds, select="nested"))
    double.batches = []
    return double


@asynccontextmanager
async def served(model: Recogniser, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    options["limits"] = Limits(**options.pop("limits", {}))
    app = make_app(model, name="double", method="none", **options)
    async with app.router.lifespan_context(app):
        if isinstance(model, Counted):
            model.batches.clear()  # those of the warm-up
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield client


def asking(
    talk: Callable[[httpx.AsyncClient], Awaitable[Any]], model: Recogniser | None = None, **options: Any
) -> Any:
    """Run `talk` with a client of a server and return its result."""

    async def run() -> Any:
        async with served(model or recogniser(Capitals()), **options) as client:
            return await talk(client)

    return asyncio.run(run())


def post(body: Any, model: Recogniser | None = None, **options: Any) -> httpx.Response:
    return asking(lambda client: client.post("/v1/entities", json=body), model, **options)


def get(path: str, headers: dict[str, str] | None = None, **options: Any) -> httpx.Response:
    return asking(lambda client: client.get(path, headers=headers or {}), **options)
