"""`fencepost serve`, as a process: it starts, answers, refuses unsafe options, and stops cleanly."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from typer.testing import CliRunner

from fencepost.cli import app
from fencepost.cli.serve import _read_token
from fencepost.runtime.loading import SHIPPED
from fencepost.server.run import share_cores


@contextmanager
def serving(*options: str, **environment: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [sys.executable, "-m", "fencepost", "serve", "--port", "0", *options]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}, start_new_session=True
    )
    try:
        assert process.stderr
        line = process.stderr.readline()
        address = re.search(r"http://\S+", line)
        assert address, line + process.stderr.read()
        yield address[0], process
    finally:
        process.kill()
        process.communicate()


def ask(address: str, texts: Sequence[str], token: str | None = None, **options: str) -> list[list[str]]:
    headers = {"content-type": "application/json"}
    if token:
        headers["authorization"] = f"Bearer {token}"
    request = urllib.request.Request(  # noqa: S310
        f"{address}/v1/entities", json.dumps({"texts": texts, **options}).encode(), headers
    )
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        results = json.load(answer)["results"]
    return [[entity["text"] for entity in result["entities"]] for result in results]


def test_answers_accepted_requests_before_stopping():
    texts = ["Ada Lovelace was born in London."] * 250
    with serving() as (address, process):
        _check_that_other_host_names_are_refused(address)
        answers: list[list[list[str]]] = []
        thread = threading.Thread(target=lambda: answers.append(ask(address, texts)))
        thread.start()
        while _value(address, "fencepost_batch_texts_count") < 1:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        thread.join(60)
        assert len(answers[0]) == len(texts)
        assert all("Ada Lovelace" in one for one in answers[0])
        assert process.wait(60) == 0
        assert process.stderr
        assert process.stderr.read() == "stopped\n"


def _check_that_other_host_names_are_refused(address: str) -> None:
    request = urllib.request.Request(f"{address}/v1/model", headers={"host": "ner.example.org"})  # noqa: S310
    with pytest.raises(urllib.error.HTTPError, match="421") as refused:
        urllib.request.urlopen(request, timeout=60)  # noqa: S310
    refused.value.close()
    port = int(address.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:  # like a request to a proxy
        connection.sendall(b"GET http://localhost/v1/model HTTP/1.1\r\nHost: evil.com\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 421 ")


def _value(address: str, name: str) -> float:
    with urllib.request.urlopen(f"{address}/metrics", timeout=60) as page:  # noqa: S310
        (value,) = re.findall(rf"^{name} (\S+)$", page.read().decode(), re.MULTILINE)
    return float(value)


def test_token_allows_listening_on_all_addresses(tmp_path):
    (tmp_path / "token").write_text("open-sesame\n")
    with serving("--host", "0.0.0.0", "--token-file", str(tmp_path / "token")) as (  # noqa: S104
        address,
        process,
    ):
        address = address.replace("0.0.0.0", "127.0.0.1")  # noqa: S104
        assert ask(address, ["Ada was here."], "open-sesame") == [["Ada"]]
        with pytest.raises(urllib.error.HTTPError, match="401") as refused:
            ask(address, ["Ada was here."])
        refused.value.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def test_several_models_are_served_by_name(tmp_path):
    (tmp_path / "second").symlink_to(SHIPPED)
    with serving("names", str(tmp_path / "second")) as (address, _):
        with urllib.request.urlopen(f"{address}/v1/model", timeout=60) as answer:  # noqa: S310
            models = json.load(answer)["models"]
        # both folders have the same name, so the models are named by their paths
        assert [one["name"] for one in models] == [str(SHIPPED), str(tmp_path / "second")]
        for one in models:
            assert ask(address, ["Ada was here."], model=one["name"]) == [["Ada"]]


def send(address: str, body: dict[str, Any], times: int = 1) -> socket.socket:
    """Return a connection with this number of sent requests, whose answers have not been read."""
    content = json.dumps(body).encode()
    lines = (
        "POST /v1/entities HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
    )
    head = "".join(f"{line}\r\n" for line in (*lines, ""))
    connection = socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=60)
    connection.sendall((head.encode() + content) * times)
    return connection


def test_signal_right_after_the_start_stops_it_cleanly():
    with serving() as (_, process):
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert process.stderr
        assert process.stderr.read() == "stopped\n"


def test_hang_ups_and_a_second_signal_print_no_traceback():
    with serving() as (address, process):
        for pause in (0, 0.02, 0.1):
            with send(address, {"text": "Ada was here. " * 20}, times=3):
                time.sleep(pause)
        busy = [send(address, {"text": "Ada was here. " * 5000}) for _ in range(3)]
        while _value(address, "fencepost_queue_texts") < 3:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr
        assert process.stderr.read() == "stopped immediately\n"
        for connection in busy:
            connection.close()


def test_shutdown_is_limited_by_the_timeout():
    """A computation that takes longer is cancelled."""
    with serving("--timeout", "2", "--max-words", "100000", "--workers", "1") as (address, process):
        with send(address, {"text": "a-" * 20_000}) as connection:
            deadline = time.monotonic() + 30
            while _value(address, "fencepost_batch_texts_count") < 1 and time.monotonic() < deadline:
                time.sleep(0.01)
            process.send_signal(signal.SIGTERM)
            start = time.monotonic()
            assert process.wait(60) == 0
            assert time.monotonic() - start < 20
            assert b"503" in connection.recv(1000).partition(b"\r\n")[0]
        assert process.stderr
        assert process.stderr.read() == "stopped\n"


@pytest.fixture
def refusal(monkeypatch):
    monkeypatch.delenv("FENCEPOST_TOKEN", raising=False)

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(app, ["serve", *arguments])
        assert result.exit_code == 2
        return result.stderr

    return run


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::"])  # noqa: S104
def test_refuses_other_hosts_without_a_token(refusal, host):
    assert f"--host {host}: other machines could send requests; set a token" in refusal("--host", host)


def test_listens_on_other_loopback_addresses():
    with serving("--host", "127.0.0.2") as (address, _):
        assert ask(address, ["Ada was here."]) == [["Ada"]]
        _check_that_refusals_are_sent_during_an_upload(address)


def _check_that_refusals_are_sent_during_an_upload(address: str) -> None:
    """`urllib` closes the connection, and sends all of the body before it reads."""
    for kind, body in (("application/json", b" " * 5_000_000), ("text/plain", b" " * 900_000)):
        request = urllib.request.Request(f"{address}/v1/entities", body, {"content-type": kind})  # noqa: S310
        with pytest.raises(urllib.error.HTTPError, match=r"41[35]") as refused:
            urllib.request.urlopen(request, timeout=60)  # noqa: S310
        refused.value.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--max-queue", "10"], "--max-queue 10 is less than --max-texts 256"),
        (["names", "names"], "is given more than once"),
        (["--allow-host", "ner.example.org:8000"], "without a port"),
        (["--allow-origin", "example.org"], "for example https://example.org"),
        (["--allow-origin", "https://example.org/page"], "for example https://example.org"),
    ],
)
def test_refuses_invalid_options(refusal, arguments, message):
    assert message in refusal(*arguments)


def test_refuses_invalid_tokens(refusal, tmp_path, monkeypatch):
    file = tmp_path / "token"
    assert "cannot be read" in refusal("--token-file", str(file))
    for bad in ("", "short", "with a space in it", "ünicode-letters"):
        file.write_text(bad, encoding="utf-8")
        assert "a token has at least 8" in refusal("--token-file", str(file))
    monkeypatch.setenv("FENCEPOST_TOKEN", "short")
    assert "FENCEPOST_TOKEN: a token has at least 8" in refusal()


def test_a_line_end_after_the_token_does_not_count(tmp_path, monkeypatch):
    """A Kubernetes secret that was made from a file has its line end, in the variable too."""
    file = tmp_path / "token"
    file.write_text("let-me-in-please\n", encoding="utf-8")
    monkeypatch.setenv("FENCEPOST_TOKEN", "let-me-in-please\n")
    assert _read_token(file) == _read_token(None) == "let-me-in-please"


def test_reports_a_port_in_use(refusal):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        assert f"--port {port}: cannot listen on this address: Address already in use" in refusal(
            "--port", port
        )


def test_reports_a_folder_without_a_model(refusal, tmp_path):
    assert "not a model folder" in refusal(str(tmp_path))


def test_names_missing_packages(refusal, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert "pip install 'fencepost[serve]'" in refusal()


@pytest.mark.parametrize(
    ("cores", "workers", "threads", "expected"),
    [
        (2, None, None, (2, 1)),
        (1, None, None, (1, 1)),
        (16, None, None, (4, 4)),
        (6, None, None, (4, 1)),
        (8, None, 8, (1, 8)),
        (8, None, 3, (2, 3)),
        (8, 2, None, (2, 4)),
        (2, 3, None, (3, 1)),
        (2, 3, 5, (3, 5)),
    ],
)
def test_cores_are_shared_among_workers(cores, workers, threads, expected):
    assert share_cores(cores, workers, threads) == expected
