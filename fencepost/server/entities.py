"""A question about texts, from its bytes to its answer."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError
from starlette.requests import ClientDisconnect

from fencepost.runtime.prediction.found import entity_object
from fencepost.runtime.recogniser import Span
from fencepost.server.batching import Batcher, Full, Limits, NotAtWork
from fencepost.server.metrics import Metrics
from fencepost.server.schema import Question
from fencepost.server.work import TooManyWords

_GONE = 499  # as proxies have it for a client that did not wait; nobody reads it
_PROBLEMS = 50  # of a request that are told
_MANY_ENTITIES = 500  # an answer with more is written in a thread, while the event loop serves others


class Entities:
    """Answers questions with what a model finds."""

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
            return refusal(408, f"the body did not come within {limits.timeout:g} s")
        except ClientDisconnect:
            return Response(status_code=_GONE)
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return refusal(415, "send JSON, with the header Content-Type: application/json")
        try:
            question = _checked(body, limits, self._types)
        except ValidationError as error:
            return JSONResponse({"detail": _problems(error)}, 422)
        found = await _found(self._batcher, request, question)
        if isinstance(found, Response):
            return found
        texts = question.all_texts
        self._metrics.texts.inc(len(texts))
        self._metrics.characters.inc(sum(map(len, texts)))
        if sum(map(len, found)) > _MANY_ENTITIES:
            return await asyncio.to_thread(_answer, found, question, self._metrics)
        return _answer(found, question, self._metrics)


def _checked(body: bytes, limits: Limits, types: Sequence[str]) -> Question:
    """The question, if it is one. Pydantic parses it in one go; it also refuses halves of characters."""
    question = Question.model_validate_json(body)
    problems: list[InitErrorDetails] = []
    if len(question.all_texts) > limits.texts:
        told = PydanticCustomError("too_many", "a request has at most {most} texts", {"most": limits.texts})
        problems.append({"type": told, "loc": ("texts",), "input": None})
    for place, text in enumerate(question.all_texts):
        if len(text) > limits.characters:
            told = PydanticCustomError(
                "too_long", "a text has at most {most} characters", {"most": limits.characters}
            )
            where = ("text",) if question.text is not None else ("texts", place)
            problems.append({"type": told, "loc": where, "input": None})
    for place, type_ in enumerate(question.types or ()):
        if type_ not in types:
            told = PydanticCustomError(
                "unknown", "the model has no such type; it has {types}", {"types": ", ".join(types)}
            )
            problems.append({"type": told, "loc": ("types", place), "input": None})
    if problems:
        raise ValidationError.from_exception_data("Question", problems[:_PROBLEMS])
    return question


def _problems(error: ValidationError) -> list[dict[str, Any]]:
    """As FastAPI tells them, but without the text itself, which may be long."""
    count = error.error_count()
    if count > _PROBLEMS:  # to tell them all would take longer than to answer
        return [{"loc": ["body"], "msg": f"{count:,} things are wrong with this request", "type": "too_many"}]
    return [
        {"loc": ["body", *one["loc"]], "msg": one["msg"], "type": one["type"]}
        for one in error.errors(include_url=False, include_input=False, include_context=False)
    ]


async def _found(batcher: Batcher, request: Request, question: Question) -> list[list[Span]] | Response:
    """The entities, or why there are none. When nobody waits any more, nothing is computed."""
    work = asyncio.ensure_future(batcher.find(question.all_texts, flat=question.flat))
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            return Response(status_code=_GONE)
        return work.result()
    except TooManyWords as error:
        return refusal(413, _too_many_words(error))
    except Full as full:
        return refusal(429, str(full), {"Retry-After": str(full.retry_after)})
    except TimeoutError:
        told = f"there was no answer within {batcher.limits.timeout:g} s; send less at a time, or try later"
        return refusal(503, told)
    except NotAtWork:
        return refusal(503, "the model is not at work")
    except Exception as error:  # noqa: BLE001 - whatever the model raised; it is in the log
        return refusal(500, f"the model failed on a text of this request ({type(error).__name__})")
    finally:
        work.cancel()
        gone.cancel()


def _too_many_words(error: TooManyWords) -> str:
    what = "a text has" if error.of == "text" else "the texts of a request have together"
    return (
        f"too many words: {what} at most {error.limit:,} words (a rare or long one counts as several); "
        "send less at a time"
    )


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _answer(found: Sequence[Sequence[Span]], question: Question, metrics: Metrics) -> Response:
    """Return the entities that were asked for as JSON, and count them."""
    wanted = None if question.types is None else set(question.types)
    counts: Counter[str] = Counter()
    results = []
    for spans in found:
        kept = [
            one
            for one in map(entity_object, spans)
            if one["score"] >= question.min_confidence and (wanted is None or one["type"] in wanted)
        ]
        counts.update(one["type"] for one in kept)
        results.append({"entities": kept})
    for type_, count in counts.items():
        metrics.entities.labels(type_).inc(count)
    return Response(json.dumps({"results": results}, ensure_ascii=False), media_type="application/json")


def refusal(status: int, detail: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"detail": detail}, status, headers)
