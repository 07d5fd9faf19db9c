"""The HTTP API: `POST /v1/entities`, what it runs on, whether it is well, and the page at `/`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse
from fastapi.routing import APIRoute
from fastapi.staticfiles import StaticFiles
from jinja2 import Environment, PackageLoader
from starlette.middleware.cors import CORSMiddleware
from starlette.types import Receive, Scope, Send

from fencepost import __version__
from fencepost.runtime.recogniser import Recogniser
from fencepost.server.batching import Batcher, Limits
from fencepost.server.entities import Entities, refusal
from fencepost.server.guard import Guard
from fencepost.server.metrics import Metrics
from fencepost.server.schema import Answer, ModelFacts, Problems, Question, Refusal, RequestLimits

_PAGE = Path(__file__).parent / "page"
_REFUSALS: dict[int | str, dict[str, Any]] = {
    401: {"model": Refusal, "description": "The token is missing or wrong."},
    413: {"model": Refusal, "description": "The body, or the number of words, is too large."},
    415: {"model": Refusal, "description": "The body is not said to be JSON."},
    422: {"model": Problems, "description": "The request is wrong, and in which field."},
    429: {"model": Refusal, "description": "The queue is full; `Retry-After` says when to try again."},
    500: {"model": Refusal, "description": "The model failed on this text."},
    408: {"model": Refusal, "description": "The body did not come in time."},
    503: {"model": Refusal, "description": "There was no answer in time."},
}


def make_app(
    recogniser: Recogniser,
    *,
    name: str,
    method: str,
    limits: Limits | None = None,
    token: str | None = None,
    origins: Sequence[str] = (),
    hosts: Collection[str] | None = None,
) -> FastAPI:
    """The server of one model, as an ASGI application.

    With a `token`, requests must bear it. Pages of `origins` may ask from browsers, unless none of others.
    `hosts` are the names that the server answers to; unless set, any.
    """
    limits = limits or Limits()
    metrics = Metrics()
    batcher = Batcher(recogniser, limits, metrics)
    facts = ModelFacts(
        name=name,
        method=method,
        engine=recogniser.engine,
        language=recogniser.language,
        types=list(recogniser.types),
        select=recogniser.settings["select"],
        version=__version__,
        limits=RequestLimits(
            texts=limits.texts,
            characters=limits.characters,
            words=limits.words,
            request_words=limits.request_words,
            body=limits.body,
        ),
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with batcher:
            yield

    app = FastAPI(
        title="Fencepost",
        version=__version__,
        description="Named entity recognition that gets entity boundaries right.",
        lifespan=lifespan,
        docs_url=None,  # FastAPI's own pages load programs from elsewhere
        redoc_url=None,
    )
    app.state.batcher = batcher
    _add_api(app, Entities(batcher, recogniser.types, metrics), facts)
    app.include_router(_health(batcher, metrics))
    _add_pages(app)
    paths = ("/v1/entities", "/v1/model", "/healthz", "/readyz", "/metrics", "/")
    app.add_middleware(Guard, metrics=metrics, paths=paths, body=limits.body, token=token, hosts=hosts)
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type"],
            expose_headers=["retry-after"],
        )
    return app


class _Direct(APIRoute):
    """Calls its endpoint with the request; what FastAPI does around that takes longer than the answer."""

    def __init__(self, path: str, endpoint: Callable[[Request], Awaitable[Response]], **options: Any) -> None:
        super().__init__(path, endpoint, **options)

        async def answered(scope: Scope, receive: Receive, send: Send) -> None:
            response = await endpoint(Request(scope, receive))
            await response(scope, receive, send)

        self.app = answered


def _add_api(app: FastAPI, found: Entities, facts: ModelFacts) -> None:
    async def entities(request: Request) -> Response:
        """Each text's entities, by character offsets. Requests that come together are computed together."""
        return await found.answer(request)

    app.router.add_api_route(
        "/v1/entities",
        entities,
        methods=["POST"],
        summary="Find the entities of texts",
        responses={200: {"model": Answer}, **_REFUSALS},
        openapi_extra={"requestBody": _body_schema()},
        route_class_override=_Direct,
    )

    @app.get("/v1/model", summary="What runs here", responses={401: _REFUSALS[401]})
    async def model() -> ModelFacts:
        return facts


def _health(batcher: Batcher, metrics: Metrics) -> APIRouter:
    router = APIRouter()

    @router.head("/healthz", include_in_schema=False)
    @router.get("/healthz", summary="Whether the process lives")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @router.head("/readyz", include_in_schema=False)
    @router.get("/readyz", summary="Whether requests are answered", responses={503: {"model": Refusal}})
    async def readyz() -> Response:
        if batcher.ready:
            return JSONResponse({"status": "ready"})
        return refusal(503, "the model is not at work")

    @router.get("/metrics", summary="Counters, for Prometheus", response_class=Response)
    async def counters() -> Response:
        return Response(metrics.page(), media_type=metrics.content_type)

    return router


def _add_pages(app: FastAPI) -> None:
    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(_docs(app.openapi()))

    @app.head("/", include_in_schema=False)
    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(_PAGE / "index.html")

    app.mount("/page", StaticFiles(directory=_PAGE))


def _body_schema() -> dict[str, Any]:
    return {
        "required": True,
        "content": {"application/json": {"schema": Question.model_json_schema()}},
    }


def _docs(schema: dict[str, Any]) -> str:
    """The API on one page, that loads nothing from anywhere."""
    environment = Environment(loader=PackageLoader("fencepost.server"), autoescape=True)
    return environment.get_template("docs.html").render(api=schema)
