"""Answers a question about texts, from the bytes of the request to the response."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError
from starlette.requests import ClientDisconnect

from fencepost.runtime.offsets import convert_offsets
from fencepost.runtime.prediction.results import make_entity_record
from fencepost.server.batching import Batcher
from fencepost.server.metrics import Metrics
from fencepost.server.request import Full, Limits, NotReady, Result, TooManyWords
from fencepost.server.schema import Question

_GONE = (499, "the client has hung up")  # as proxies log it; nobody reads this answer
_MOST_PROBLEMS = 50  # of a request that are described
_MANY_ENTITIES = 500  # a response with more is written in a thread, while the event loop serves others


class Entities:
    """Answers questions with the entities that a model finds."""

    def __init__(self, batcher: Batcher, types: Sequence[str], metrics: Metrics) -> None:
        self._batcher = batcher
        self._types = types
        self._metrics = metrics

    async def answer(self, request: Request) -> Response:
        limits = self._batcher.limits
        try:
            async with asyncio.timeout(limits.timeout):
                body = await request.body()
        except TimeoutError:
            raise HTTPException(408, f"the body did not come within {limits.timeout:g} s") from None
        except ClientDisconnect:
            raise HTTPException(*_GONE) from None
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise HTTPException(415, "send JSON, with the header Content-Type: application/json")
        try:
            question = _parse(body, limits, self._types)
        except ValidationError as error:
            raise RequestValidationError(_describe(error)) from None
        result = await _find(self._batcher, request, question)
        texts = question.all_texts
        self._metrics.texts.inc(len(texts))
        self._metrics.characters.inc(sum(map(len, texts)))
        if sum(map(len, result)) > _MANY_ENTITIES:
            return await asyncio.to_thread(_write, result, question, self._metrics)
        return _write(result, question, self._metrics)


def _parse(body: bytes, limits: Limits, types: Sequence[str]) -> Question:
    """Return the question, if it is valid. Pydantic parses the JSON too, and refuses lone surrogates."""
    question = Question.model_validate_json(body)
    problems: list[InitErrorDetails] = []

    def add(place: tuple[str | int, ...], kind: Any, message: Any, **context: object) -> None:
        error = PydanticCustomError(kind, message, context)
        problems.append({"type": error, "loc": place, "input": None})

    if len(question.all_texts) > limits.texts:
        add(("texts",), "too_many", "a request has at most {most} texts", most=limits.texts)
    for number, text in enumerate(question.all_texts):
        if len(text) > limits.characters:
            place = ("text",) if question.text is not None else ("texts", number)
            add(place, "too_long", "a text has at most {most} characters", most=limits.characters)
    for number, type_ in enumerate(question.types or ()):
        if type_ not in types:
            message = "the model has no such type; it has {types}"
            add(("types", number), "unknown", message, types=", ".join(types))
    if problems:
        raise ValidationError.from_exception_data("Question", problems[:_MOST_PROBLEMS])
    return question


def _describe(error: ValidationError) -> list[dict[str, Any]]:
    """Return the problems as FastAPI describes them, but without the text itself, which may be long."""
    count = error.error_count()
    if count > _MOST_PROBLEMS:  # to describe them all would take longer than to answer
        return [{"loc": ["body"], "msg": f"{count:,} things are wrong with this request", "type": "too_many"}]
    return [
        {"loc": ["body", *one["loc"]], "msg": one["msg"], "type": one["type"]}
        for one in error.errors(include_url=False, include_input=False, include_context=False)
    ]


async def _find(batcher: Batcher, request: Request, question: Question) -> Result:
    """Return the entities of the texts; stop when the client hangs up. Raises `HTTPException`."""
    work = asyncio.ensure_future(batcher.find(question.all_texts, flat=question.flat))
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()
        is_unfinished = work.cancel()
    if is_unfinished:
        raise HTTPException(*_GONE)
    try:
        return work.result()
    except TooManyWords as error:
        raise HTTPException(413, str(error)) from None
    except Full as error:
        raise HTTPException(429, str(error), {"Retry-After": str(error.retry_after)}) from None
    except TimeoutError:
        seconds = f"{batcher.limits.timeout:g} s"
        message = f"there was no answer within {seconds}; send less at a time, or try later"
        raise HTTPException(503, message) from None
    except NotReady as error:
        raise HTTPException(503, str(error)) from None
    except Exception as error:  # noqa: BLE001 - an error of the model, which is in the log
        message = f"the model failed on a text of this request ({type(error).__name__})"
        raise HTTPException(500, message) from None


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _write(result: Result, question: Question, metrics: Metrics) -> Response:
    """Return the entities that were asked for as JSON, and count them."""
    wanted = None if question.types is None else set(question.types)
    counts: Counter[str] = Counter()
    results = []
    for text, spans in zip(question.all_texts, result, strict=True):
        kept = [
            one
            for one in map(make_entity_record, convert_offsets(text, spans, question.offsets))
            if one["score"] >= question.min_confidence and (wanted is None or one["type"] in wanted)
        ]
        counts.update(one["type"] for one in kept)
        results.append({"entities": kept})
    for type_, count in counts.items():
        metrics.entities.labels(type_).inc(count)
    return Response(json.dumps({"results": results}, ensure_ascii=False), media_type="application/json")
