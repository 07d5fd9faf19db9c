"""Access and limits of requests, headers of answers, metrics, and the description of the API."""

import asyncio
import json
import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

import fencepost
from tests.server.conftest import Capitals, asking, get, post, recogniser

TOKEN = "let-me-in-please"
EVERYTHING = ("/v1/model", "/metrics", "/openapi.json", "/docs", "/", "/page/app.js", "/healthz", "/readyz")


def test_body_above_the_limit_is_refused():
    body = json.dumps({"text": "x" * 100})
    size = len(body)

    async def chunks(count):
        for at in range(0, len(body), count):
            yield body[at : at + count].encode()

    for content in (lambda: body, lambda: chunks(30)):  # with and without a Content-Length
        for limit, status in ((size, 200), (size - 1, 413)):
            answer = asking(
                lambda client, content=content: client.post(
                    "/v1/entities", content=content(), headers={"content-type": "application/json"}
                ),
                limits={"body": limit},
            )
            assert answer.status_code == status
    assert answer.json()["detail"] == f"the body is too large: at most {size - 1:,} bytes are accepted"


def test_refuses_requests_without_the_token():
    async def talk(client):
        answers = {}
        for name, header in {
            "none": None,
            "wrong": "Bearer let-me-in",
            "other": f"Basic {TOKEN}",
            "empty": "Bearer ",
            "strange": "Bearer \u00e9",
            "right": f"Bearer {TOKEN}",
            "small": f"bearer {TOKEN}",
        }.items():
            headers = {} if header is None else {"authorization": header.encode("latin-1")}
            answers[name] = await client.post("/v1/entities", json={"text": "ROME"}, headers=headers)
        return answers

    answers = asking(talk, token=TOKEN)
    statuses = {name: answer.status_code for name, answer in answers.items()}
    refused = dict.fromkeys(("none", "wrong", "other", "empty", "strange"), 401)
    assert statuses == {**refused, "right": 200, "small": 200}
    assert answers["none"].headers["www-authenticate"] == "Bearer"


def test_page_and_health_checks_need_no_token():
    async def talk(client):
        return {path: (await client.get(path)).status_code for path in EVERYTHING}

    closed = ("/v1/model", "/metrics", "/openapi.json", "/docs")
    assert asking(talk, token=TOKEN) == {path: 401 if path in closed else 200 for path in EVERYTHING}
    assert asking(talk) == dict.fromkeys(EVERYTHING, 200)


def test_refuses_a_missing_token_before_reading_the_body():
    read = []

    async def talk(client):
        async def chunks():
            read.append(1)
            yield b"{}"

        return await client.post("/v1/entities", content=chunks(), headers={"expect": "100-continue"})

    assert asking(talk, token=TOKEN).status_code == 401
    assert not read


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8000", 200),
        ("127.0.0.1:8000", 200),
        ("[::1]:8000", 200),
        ("ner.example.org", 421),
        ("localhost.example.org", 421),
        ("localhost.", 200),
        ("localhost:", 200),
        ("", 421),
        ("[127.0.0.1]evil.com", 421),
        ("[::1]x", 421),
        ("[::1", 421),
        ("[::1]:8000:x", 421),
        ("127.0.0.1:80@evil", 421),
        ("evil@localhost", 421),
        ("localhost:evil", 421),
        ("localhost/evil.com", 421),
        ("localhost, evil.com", 421),
        ("localhost evil.com", 421),
        ("::1", 421),
        ("localhost..", 421),
    ],
)
def test_refuses_other_host_names(host, status):
    hosts = {"localhost", "127.0.0.1", "::1"}
    assert get("/v1/model", {"host": host}, hosts=hosts).status_code == status
    assert get("/v1/model", {"host": host}).status_code == 200


def test_refuses_two_host_headers():
    headers = [("host", "localhost"), ("host", "evil.com")]
    hosts = {"localhost"}
    for pair in (headers, headers[::-1], headers[:1] * 2):
        assert get("/v1/model", pair, hosts=hosts).status_code == 421


def test_schema_accepts_what_the_server_accepts():
    schema = get("/openapi.json").json()["paths"]["/v1/entities"]["post"]["requestBody"]
    schema = schema["content"]["application/json"]["schema"]
    assert [one["required"] for one in schema["oneOf"]] == [["text"], ["texts"]]
    validator = pytest.importorskip("jsonschema").Draft202012Validator(schema)
    values = {"text": ("a", None, 5), "texts": (["a"], None, "a")}
    for text in (*values["text"], ...):
        for texts in (*values["texts"], ...):
            fields = {"text": text, "texts": texts, "flat": True}
            body = {name: value for name, value in fields.items() if value is not ...}
            assert validator.is_valid(body) == (post(body).status_code == 200), body


def test_other_origins_are_refused_unless_allowed():
    headers = {"origin": "https://example.org", "access-control-request-method": "POST"}

    async def talk(client):
        before = await client.options("/v1/entities", headers=headers)
        during = await client.get("/v1/model", headers={"origin": "https://example.org"})
        other = await client.get("/v1/model", headers={"origin": "https://example.com"})
        return [answer.headers.get("access-control-allow-origin") for answer in (before, during, other)]

    assert asking(talk) == [None, None, None]
    let = ["https://example.org"]
    assert asking(talk, origins=let) == ["https://example.org", "https://example.org", None]
    # a browser first sends a preflight request without the token
    assert asking(talk, origins=let, token=TOKEN)[0] == "https://example.org"


def test_every_answer_has_security_headers():
    for path in ("/", "/v1/model", "/nowhere"):
        headers = get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
        assert headers["x-content-type-options"] == "nosniff"


def test_files_outside_the_page_are_not_served():
    async def talk(client):
        paths = ("/page/../app.py", "/page/%2e%2e/app.py", "/page/..%2fapp.py", "/page//etc/passwd", "/page/")
        return [(await client.get(path)).status_code for path in paths]

    assert set(asking(talk)) == {404}


def test_prometheus_can_read_the_metrics():
    async def talk(client):
        await client.post("/v1/entities", json={"texts": ["ADA in ROME", "OSLO"]})
        await client.post("/v1/entities", json={"text": 5})
        await client.get("/some/path")
        await client.get("/another")
        return await client.get("/metrics")

    answer = asking(talk)
    assert answer.headers["content-type"].startswith("text/plain")
    values = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    assert values["fencepost_requests_total", "/v1/entities", "200"] == 1
    assert values["fencepost_requests_total", "/v1/entities", "422"] == 1
    assert values["fencepost_requests_total", "other", "404"] == 2  # paths from outside are not labels
    assert values["fencepost_texts_total",] == 2
    assert values["fencepost_characters_total",] == 15
    assert values["fencepost_entities_total", "LOC"] == 2
    assert values["fencepost_entities_total", "PER"] == 1
    assert values["fencepost_queue_texts",] == 0
    assert values["fencepost_batch_texts_sum",] == 2
    assert values["fencepost_request_seconds_count", "/v1/entities"] == 2
    assert values["process_resident_memory_bytes",] > 1e6


def test_models_are_described():
    double = {
        "name": "double",
        "method": "none",
        "engine": "double",
        "language": "en",
        "lines": "auto",
        "types": ["LOC", "ORG", "PER"],
        "select": "nested",
    }
    others = [(recogniser(Capitals()), "second", "diffusion")]
    assert get("/v1/model", limits={"texts": 7, "body": 99}, others=others).json() == {
        **double,
        "models": [double, {**double, "name": "second", "method": "diffusion"}],
        "version": fencepost.__version__,
        "limits": {
            "texts": 7,
            "characters": 100_000,
            "words": 25_000,
            "request_words": 100_000,
            "body": 99,
        },
    }


def test_api_is_documented_without_external_resources():
    schema = get("/openapi.json").json()
    assert set(schema["paths"]) == {"/v1/entities", "/v1/model", "/healthz", "/readyz", "/metrics"}
    operation = schema["paths"]["/v1/entities"]["post"]
    body = operation["requestBody"]["content"]["application/json"]["schema"]
    assert set(body["properties"]) == {
        *("text", "texts", "min_confidence", "types", "flat", "model", "offsets"),
    }
    for example in body["examples"]:
        assert post(example).status_code == 200
    assert set(operation["responses"]) == {"200", "401", "408", "413", "415", "422", "429", "500", "503"}
    page = get("/docs").text
    assert "POST /v1/entities" in page
    for name in schema["components"]["schemas"]:
        assert f'id="{name}"' in page
    assert not re.findall(r"https?:|//", page.partition("</title>")[2])
    assert "<script" not in page


def test_head_requests_are_answered():
    async def talk(client):
        return [(await client.head(path)).status_code for path in ("/", "/healthz", "/readyz")]

    assert asking(talk) == [200, 200, 200]


def test_chunk_size_of_a_body_has_no_effect():
    body = json.dumps({"text": "ROME " * 30}).encode()

    async def talk(client):
        async def chunks(size):
            for at in range(0, len(body), size):
                yield body[at : at + size]
                await asyncio.sleep(0)

        headers = {"content-type": "application/json"}
        return [
            (await client.post("/v1/entities", content=chunks(size), headers=headers)).json()
            for size in (1, 7, 1000)
        ]

    one, *others = asking(talk)
    assert len(one["results"][0]["entities"]) == 30
    assert all(other == one for other in others)
