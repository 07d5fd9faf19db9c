"""Middleware that checks the host name, the token and the size of every request, and counts the responses."""

from __future__ import annotations

import asyncio
import hmac
import json
import re
import time
from collections.abc import Collection
from contextlib import suppress

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fencepost.server.metrics import Metrics

CONTENT_SECURITY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = (
    (b"content-security-policy", CONTENT_SECURITY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)
_PROTECTED = ("/v1/", "/metrics", "/openapi.json", "/docs")
_HOST = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[a-z0-9_.-]+))(?::[0-9]{0,5})?")
_DRAIN_SECONDS = 5.0
"""Time that a client has to send the rest of a body that is refused."""


class Guard:
    """Middleware that refuses requests for another host, without the token, or with too large a body."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        metrics: Metrics,
        paths: Collection[str],
        body: int,
        token: str | None,
        hosts: Collection[str] | None,
    ) -> None:
        """Wrap `app`; `paths` are counted by name, `body` is in bytes, and `hosts` may be None for any."""
        self._app = app
        self._metrics = metrics
        self._paths = frozenset(paths)
        self._body = body
        self._too_large = f"the body is too large: at most {body:,} bytes are accepted"
        self._token = token
        self._hosts = None if hosts is None else frozenset(host.lower().removesuffix(".") for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        try:
            await self._check(scope, receive, send_with_headers)
        finally:
            path = scope["path"] if scope["path"] in self._paths else "other"
            self._metrics.requests.labels(path, status).inc()
            self._metrics.seconds.labels(path).observe(time.perf_counter() - start)

    async def _check(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        rest = None if "expect" in headers else receive  # a client that waits for 100 Continue sends no body
        if self._hosts is not None and _read_host(headers) not in self._hosts:
            message = "this server does not have that host name; start it with --allow-host to add one"
            await self._refuse(send, rest, 421, message)
        elif not self._is_allowed(scope["path"], headers.get("authorization", "")):
            await self._refuse(send, rest, 401, "the header Authorization: Bearer TOKEN is missing or wrong")
        elif int(headers.get("content-length", 0)) > self._body:
            await self._refuse(send, rest, 413, self._too_large)
        else:
            await self._forward(scope, receive, send)

    def _is_allowed(self, path: str, authorization: str) -> bool:
        if self._token is None or not path.startswith(_PROTECTED):
            return True
        kind, _, token = authorization.partition(" ")
        return kind.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), self._token.encode())

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application, and refuse a body of unknown length once it is too large."""
        size = 0

        async def receive_bounded() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self._body:
                raise _TooLarge
            return message

        try:
            await self._app(scope, receive_bounded, send)
        except _TooLarge:
            await self._refuse(send, receive, 413, self._too_large)

    async def _refuse(self, send: Send, rest: Receive | None, status: int, detail: str) -> None:
        """Send a refusal, and read the rest of the body: else a client that is sending gets no response."""
        body = json.dumps({"detail": detail}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        if status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": True})
        if rest is not None:
            await _drain(rest, 8 * self._body)
        await send({"type": "http.response.body", "body": b""})


class _TooLarge(Exception):
    """Body that is longer than allowed."""


def _read_host(headers: Headers) -> str | None:
    """Return the host name in the header Host; None if it is malformed.

    It is in lower case, without the port, the brackets of an IPv6 address, and a dot at the end.
    """
    values = headers.getlist("host")
    match = _HOST.fullmatch(values[0].lower()) if len(values) == 1 else None
    return match and (match["address"] or match["name"].removesuffix("."))


async def _drain(receive: Receive, limit: int) -> None:
    """Read the rest of a body, within limits of time and size."""
    size = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_SECONDS):
            while size <= limit:
                message = await receive()
                size += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return
