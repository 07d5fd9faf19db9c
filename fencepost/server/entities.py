"""Answers to `POST /v1/entities`, from the body of the request to the response."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError
from starlette.requests import ClientDisconnect

from fencepost.server.batching import Batcher
from fencepost.server.metrics import Metrics
from fencepost.server.request import Limits, NotReady, QueueFull, Result, TooManyWords
from fencepost.server.schema import MIN_CONFIDENCE_TAGS, EntitiesRequest

_DISCONNECTED = (499, "the client has disconnected")  # a status for logs, as in proxies
_MAX_PROBLEMS = 50  # maximum number of errors that a response describes
_MANY_ENTITIES = 500  # a response with more is written in a thread, so as not to block the event loop


class Entities:
    """Handler of requests for the entities of texts."""

    def __init__(self, batcher: Batcher, types: Mapping[str, Sequence[str]], metrics: Metrics) -> None:
        """Answer with the recognisers of `batcher`; `types` has the name and the types of each, in order."""
        self._batcher = batcher
        self._types = types
        self._metrics = metrics

    async def answer(self, request: Request) -> Response:
        limits = self._batcher.limits
        try:
            async with asyncio.timeout(limits.timeout):
                body = await request.body()
        except TimeoutError:
            raise HTTPException(408, f"the body was not received within {limits.timeout:g} s") from None
        except ClientDisconnect:
            raise HTTPException(*_DISCONNECTED) from None
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise HTTPException(415, "send JSON, with the header Content-Type: application/json")
        try:
            query = _parse(body, limits, self._types)
        except ValidationError as error:
            raise RequestValidationError(_describe(error)) from None
        model = 0 if query.model is None else list(self._types).index(query.model)
        result = await _predict(self._batcher, request, query, model)
        texts = query.all_texts
        self._metrics.texts.inc(len(texts))
        self._metrics.characters.inc(sum(map(len, texts)))
        if sum(map(len, result)) > _MANY_ENTITIES:
            return await asyncio.to_thread(_make_response, result, query, self._metrics)
        return _make_response(result, query, self._metrics)


def _parse(body: bytes, limits: Limits, models: Mapping[str, Sequence[str]]) -> EntitiesRequest:
    """Return the query in a body; raise `ValidationError` if it is invalid."""
    query = EntitiesRequest.model_validate_json(body)  # also refuses lone surrogates
    problems: list[InitErrorDetails] = []

    def add(location: tuple[str | int, ...], kind: Any, message: Any, **context: object) -> None:
        error = PydanticCustomError(kind, message, context)
        problems.append({"type": error, "loc": location, "input": None})

    if len(query.all_texts) > limits.texts:
        add(("texts",), "too_many", "a request may have at most {most} texts", most=limits.texts)
    for number, text in enumerate(query.all_texts):
        if len(text) > limits.characters:
            location = ("text",) if query.text is not None else ("texts", number)
            add(location, "too_long", "a text may have at most {most} characters", most=limits.characters)
    name = next(iter(models)) if query.model is None else query.model
    if name not in models:
        message = "the server has no such model; it has {models}"
        add(("model",), "unknown", message, models=", ".join(models))
    types = models.get(name)
    by_type = query.min_confidence if isinstance(query.min_confidence, dict) else {}
    fields: list[tuple[tuple[str | int, ...], str]] = [(("min_confidence", name), name) for name in by_type]
    fields += [(("types", number), type_) for number, type_ in enumerate(query.types or ())]
    for place, type_ in fields:
        if types is not None and type_ not in types:
            message = "the model has no such type; it has {types}"
            add(place, "unknown", message, types=", ".join(types))
    if problems:
        raise ValidationError.from_exception_data("EntitiesRequest", problems[:_MAX_PROBLEMS])
    return query


def _describe(error: ValidationError) -> list[dict[str, Any]]:
    """Return the problems in the format of FastAPI, without the text itself, which may be long."""
    count = error.error_count()
    if count > _MAX_PROBLEMS:  # describing them all would take too long
        return [{"loc": ["body"], "msg": f"this request has {count:,} errors", "type": "too_many"}]
    return [
        {
            "loc": ["body", *(part for part in one["loc"] if part not in MIN_CONFIDENCE_TAGS)],
            "msg": one["msg"],
            "type": one["type"],
        }
        for one in error.errors(include_url=False, include_input=False, include_context=False)
    ]


async def _predict(batcher: Batcher, request: Request, query: EntitiesRequest, model: int) -> Result:
    """Return the entities of the texts; raise `HTTPException` after an error or if the client disconnects."""
    prediction = asyncio.ensure_future(batcher.predict(query.all_texts, flat=query.flat, model=model))
    disconnect = asyncio.ensure_future(_wait_for_disconnect(request))
    try:
        await asyncio.wait((prediction, disconnect), return_when=asyncio.FIRST_COMPLETED)
    finally:
        disconnect.cancel()
        is_unfinished = prediction.cancel()
    if is_unfinished:
        raise HTTPException(*_DISCONNECTED)
    try:
        return prediction.result()
    except TooManyWords as error:
        raise HTTPException(413, str(error)) from None
    except QueueFull as error:
        raise HTTPException(429, str(error), {"Retry-After": str(error.retry_after)}) from None
    except TimeoutError:
        message = f"not answered within {batcher.limits.timeout:g} s; send less text, or try again later"
        raise HTTPException(503, message) from None
    except NotReady as error:
        raise HTTPException(503, str(error)) from None
    except Exception as error:  # noqa: BLE001 - an error of the model, which has been logged
        message = f"the model failed on a text of this request ({type(error).__name__})"
        raise HTTPException(500, message) from None


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _make_response(result: Result, query: EntitiesRequest, metrics: Metrics) -> Response:
    """Return the requested entities as JSON, and count them."""
    types = None if query.types is None else set(query.types)
    counts: Counter[str] = Counter()
    results = []
    for document in result:
        entities = [
            entity
            for entity in document.to_dict(query.offsets)["entities"]
            if entity["score"] >= query.get_min_confidence(entity["type"])
            and (types is None or entity["type"] in types)
        ]
        counts.update(entity["type"] for entity in entities)
        results.append({"entities": entities})
    for type_, count in counts.items():
        metrics.entities.labels(type_).inc(count)
    return Response(json.dumps({"results": results}, ensure_ascii=False), media_type="application/json")
