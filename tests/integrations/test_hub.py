"""Models to the hub and back, with the client of the hub and a small local hub."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.parse import parse_qs, unquote, urlsplit

import huggingface_hub
import pytest
from huggingface_hub import ModelCard, constants, errors

import fencepost
from fencepost import DataError, Recogniser, UsageError
from fencepost.integrations import hub
from fencepost.runtime.card import NAME
from fencepost.runtime.loading import SHIPPED, load
from tests.methods.running import recogniser_of
from tests.runtime import models

TOKEN = "hf_of_a_test"
SENTENCE = "Ada met Charles in London"
GRAPHS = {"onnx/encoder.onnx", "onnx/encoder.int8.onnx", "onnx/spans.onnx", "onnx/export.json"}
ALL = {"README.md", "SHA256SUMS", "config.json", "model.safetensors", "vocabulary.json", *GRAPHS}


class Hub(ThreadingHTTPServer):
    """Hub of repositories with branches, each a list of files; writing needs the token."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.branches: dict[tuple[str, str], dict[str, bytes]] = {}
        self.repositories: list[dict[str, Any]] = []
        self.commits: list[dict[str, Any]] = []
        self.fetched: list[str] = []

    def files(self, name: str, revision: str) -> dict[str, bytes] | None:
        for (one, branch), files in self.branches.items():
            if one == name and revision in (branch, sha(files)):
                return files
        return None

    def add(self, name: str, folder: Path, branch: str = "main") -> None:
        self.branches[name, branch] = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file()
        }


def sha(files: dict[str, bytes]) -> str:
    content = hashlib.sha1(usedforsecurity=False)
    for path in sorted(files):
        content.update(path.encode())
        content.update(files[path])
    return content.hexdigest()


class Answer(BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, *_: Any) -> None: ...

    def say(self, status: int, body: Any, **headers: str) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for key, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(key.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/([^/]+))?", path):
            name, kind, revision = match[1], match[2], match[3] or "main"
            files = self.server.files(name, revision)
            if files is None:
                known = any(one == name for one, _ in self.server.branches)
                code = "RevisionNotFound" if known else "RepoNotFound"
                self.say(404, {"error": "not here"}, X_Error_Code=code)
            elif kind == "tree":
                one = [{"type": "file", "path": p, "size": len(c), "oid": "0" * 40} for p, c in files.items()]
                self.say(200, one)
            else:
                siblings = [{"rfilename": p} for p in files]
                self.say(200, {"id": name, "sha": sha(files), "siblings": siblings})
        elif match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            files = self.server.files(match[1], match[2]) or {}
            if self.command == "GET":
                self.server.fetched.append(match[3])
            content = files[match[3]]
            etag = hashlib.sha1(content, usedforsecurity=False).hexdigest()
            self.say(200, content, X_Repo_Commit=sha(files), ETag=f'"{etag}"')
        else:
            self.say(404, {"error": f"unknown: {path}"})

    do_HEAD = do_GET  # noqa: N815

    def do_POST(self) -> None:
        address = urlsplit(self.path)
        path, options = unquote(address.path), parse_qs(address.query)
        body = self.body()
        if self.headers.get("Authorization") != f"Bearer {TOKEN}" and path != "/api/validate-yaml":
            self.say(401, {"error": "Invalid username or password."})
        elif path == "/api/validate-yaml":
            self.say(200, {"errors": [], "warnings": []})
        elif path == "/api/repos/create":
            self.create(json.loads(body))
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/(branch|preupload|commit)/([^/]+)", path):
            getattr(self, match[2])(match[1], match[3], body, options)
        else:
            self.say(404, {"error": f"unknown: {path}"})

    def body(self) -> bytes:
        if "Content-Length" in self.headers:
            return self.rfile.read(int(self.headers["Content-Length"]))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def create(self, request: dict[str, Any]) -> None:
        name = f"{request['organization']}/{request['name']}"
        self.server.repositories.append(request)
        there = (name, "main") in self.server.branches
        self.server.branches.setdefault((name, "main"), {".gitattributes": b""})
        self.say(409 if there else 200, {"url": f"{self.server.url}/{name}", "name": name})

    def branch(self, name: str, branch: str, *_: Any) -> None:
        self.server.branches[name, branch] = dict(self.server.branches[name, "main"])
        self.say(200, {})

    def preupload(self, name: str, branch: str, body: bytes, _: Any) -> None:
        files = json.loads(body)["files"]
        self.say(
            200,
            {"files": [{"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in files]},
        )

    def commit(self, name: str, branch: str, body: bytes, options: dict[str, list[str]]) -> None:
        lines = [json.loads(line) for line in body.splitlines()]
        files = {
            line["value"]["path"]: base64.b64decode(line["value"]["content"])
            for line in lines
            if line["key"] == "file"
        }
        deleted = {line["value"]["path"] for line in lines if line["key"] == "deletedFile"}
        commit = {"name": name, "branch": branch, "files": files, "deleted": deleted, **lines[0]["value"]}
        self.server.commits.append({**commit, "proposed": "create_pr" in options})
        answer = {"success": True, "commitOid": "1" * 40, "commitUrl": f"{self.server.url}/{name}/commit/111"}
        if "create_pr" in options:
            answer["pullRequestUrl"] = f"{self.server.url}/{name}/discussions/1"
        else:
            there = self.server.branches[name, branch]
            left = {path: content for path, content in there.items() if path not in deleted}
            self.server.branches[name, branch] = left | files
        self.say(200, answer)


@pytest.fixture
def server(tmp_path, monkeypatch) -> Iterator[Hub]:
    hub_here = Hub()
    thread = threading.Thread(target=hub_here.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setattr(constants, "ENDPOINT", hub_here.url)
    monkeypatch.setattr(
        constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub_here.url + "/{repo_id}/resolve/{revision}/{filename}"
    )
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    yield hub_here
    hub_here.shutdown()
    thread.join()
    hub_here.server_close()


@pytest.fixture(autouse=True)
def isolated_from_the_user(tmp_path, monkeypatch) -> None:
    """Hide token and cache of the user, and prevent requests to the real hub."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    huggingface_hub.utils.disable_progress_bars()


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """Exported model folder like after a training run."""
    folder = tmp_path_factory.mktemp("hub") / "model"
    models.saved(models.trained(), folder, int8=True)
    for name in ("run.yaml", "data.json", "metrics.jsonl", "report.html", "extra.py", "old.bin", "x.pkl"):
        (folder / name).write_text("not of the model")
    (folder / "tensorboard").mkdir()
    (folder / "tensorboard" / "events").write_text("neither")
    (folder / "README.md").write_text(f"---\nlibrary_name: fencepost\n---\n# {NAME}\n")
    return folder


def predict(recogniser: Recogniser) -> list[Any]:
    return [(span.start, span.end, span.type, span.score) for span in recogniser(SENTENCE)]


def files_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


# Folders


@pytest.mark.parametrize("engine", ["pytorch", "onnx", "int8"])
def test_save_pretrained_copies_exactly_the_model(trained, tmp_path, engine):
    original = load(trained, engine=engine)
    original.save_pretrained(tmp_path / "a" / "copy")
    copy = tmp_path / "a" / "copy"
    assert files_in(copy) == ALL
    assert {name: (copy / name).read_bytes() for name in ALL} == {n: (trained / n).read_bytes() for n in ALL}
    again = Recogniser.from_pretrained(copy, engine=engine)
    assert again.engine == engine
    assert predict(again) == predict(original) != []


def test_from_pretrained_loads_a_folder(trained):
    recogniser = Recogniser.from_pretrained(str(trained), engine="onnx", min_confidence=0.3, types=["PER"])
    assert {span.type for span in recogniser(SENTENCE)} == {"PER"}
    assert recogniser.folder == trained


def test_model_in_memory_is_saved_with_a_card(tmp_path):
    original = recogniser_of(models.trained())
    assert original.folder is None
    original.save_pretrained(tmp_path / "model")
    assert files_in(tmp_path / "model") == ALL - GRAPHS
    assert predict(Recogniser.from_pretrained(tmp_path / "model")) == predict(original)
    assert "has not been scored" in (tmp_path / "model" / "README.md").read_text()


def test_options_of_a_recogniser_are_not_saved(trained, tmp_path):
    other = load(trained).with_options(select="flat", min_confidence=0.9, types=["PER"])
    other.save_pretrained(tmp_path / "model")
    assert load(tmp_path / "model").settings == load(trained).settings != other.settings


def test_graphs_without_export_facts_are_not_copied(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "half")
    (tmp_path / "half" / "onnx" / "export.json").unlink()
    load(tmp_path / "half").save_pretrained(tmp_path / "model")
    assert files_in(tmp_path / "model") == ALL - GRAPHS


def test_saves_only_to_a_new_or_empty_folder(trained, tmp_path):
    recogniser = load(trained)
    (tmp_path / "empty").mkdir()
    recogniser.save_pretrained(tmp_path / "empty")
    for path in (tmp_path / "empty", tmp_path / "empty" / "config.json"):
        with pytest.raises(UsageError, match="already exists and is not an empty folder; give another name"):
            recogniser.save_pretrained(path)
    with pytest.raises(UsageError, match="cannot be written: Not a directory"):
        recogniser.save_pretrained(tmp_path / "empty" / "config.json" / "model")


def test_interrupted_save_leaves_no_model(trained, tmp_path, monkeypatch):
    copyfile, count = shutil.copyfile, iter(range(3))

    def interrupted(*args: Any) -> Any:
        if next(count, None) is None:
            raise KeyboardInterrupt
        return copyfile(*args)

    monkeypatch.setattr(shutil, "copyfile", interrupted)
    with pytest.raises(KeyboardInterrupt):
        load(trained).save_pretrained(tmp_path / "model")
    assert files_in(tmp_path / "model") == set()
    monkeypatch.undo()
    load(trained).save_pretrained(tmp_path / "model")
    assert files_in(tmp_path / "model") == ALL


def test_refuses_to_save_a_model_whose_files_are_gone(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "model")
    recogniser = load(tmp_path / "model", engine="onnx")
    shutil.rmtree(tmp_path / "model")
    with pytest.raises(UsageError, match="no longer in the folder it was loaded from"):
        recogniser.save_pretrained(tmp_path / "copy")


def test_saved_files_follow_the_umask(trained, tmp_path):
    before = os.umask(0o027)
    try:
        load(trained).save_pretrained(tmp_path / "model")
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "model").rglob("*") if path.is_file()} == {
        0o640
    }


# To the hub


def test_model_is_pushed_as_one_commit(server, trained):
    address = load(trained).push_to_hub("me/model", token=TOKEN, private=True, commit_message="The first one")
    assert address == f"{server.url}/me/model/commit/111"
    assert [(one["organization"], one["name"], one["visibility"]) for one in server.repositories] == [
        ("me", "model", "private")
    ]
    (commit,) = server.commits
    assert (commit["name"], commit["branch"], commit["summary"]) == ("me/model", "main", "The first one")
    assert not commit["proposed"]
    assert commit["files"].keys() == ALL
    assert all(commit["files"][name] == (trained / name).read_bytes() for name in ALL - {"README.md"})
    assert commit["files"]["README.md"].decode() == "---\nlibrary_name: fencepost\n---\n# me/model\n"


def test_push_removes_old_model_files_and_keeps_others(server, trained, tmp_path):
    load(trained).push_to_hub("me/model", token=TOKEN)
    others = {"LICENSE", "onnx/deeper/graph.onnx", ".gitattributes"}
    server.branches["me/model", "main"] |= dict.fromkeys(others, b"mine")
    recogniser_of(models.trained()).push_to_hub("me/model", token=TOKEN)
    assert server.commits[1]["deleted"] == GRAPHS
    assert server.branches["me/model", "main"].keys() == {*(ALL - GRAPHS), *others}


def test_pushes_to_a_branch_or_as_a_pull_request(server, trained):
    recogniser = load(trained)
    recogniser.push_to_hub("me/model", token=TOKEN, branch="next")
    assert server.branches["me/model", "next"].keys() >= ALL
    assert server.branches["me/model", "main"].keys() == {".gitattributes"}
    address = recogniser.push_to_hub("me/model", token=TOKEN, create_pr=True)
    assert address == f"{server.url}/me/model/discussions/1"
    assert [commit["proposed"] for commit in server.commits] == [False, True]
    with pytest.raises(UsageError, match="create_pr is for the branch main, not 'next'"):
        recogniser.push_to_hub("me/model", token=TOKEN, branch="next", create_pr=True)
    with pytest.raises(UsageError, match="commit_message is empty"):
        recogniser.push_to_hub("me/model", token=TOKEN, commit_message="")


def test_push_can_add_metadata(server, trained):
    facts = {"license": "apache-2.0", "language": "en", "datasets": ["me/data"]}
    load(trained).push_to_hub("me/model", token=TOKEN, metadata=facts)
    card = ModelCard(server.commits[0]["files"]["README.md"].decode())
    assert card.data.to_dict() == {"library_name": "fencepost", **facts}
    assert card.text == "# me/model\n"
    with pytest.raises(UsageError, match="not valid YAML"):
        load(trained).push_to_hub("me/model", token=TOKEN, metadata={"license": object()})
    for wrong in (["mit"], "mit", []):
        with pytest.raises(UsageError, match=f"must be a dictionary like .*, not {type(wrong).__name__}"):
            load(trained).push_to_hub("me/model", token=TOKEN, metadata=wrong)


def test_card_with_a_byte_order_mark_is_pushed_and_latin_1_is_refused(server, trained, tmp_path):
    load(trained).save_pretrained(tmp_path / "model")
    card = tmp_path / "model" / "README.md"
    card.write_text("---\nlicense: mit\n---\n# Größe\n", encoding="utf-8-sig")
    load(tmp_path / "model").push_to_hub("me/model", token=TOKEN)
    assert server.commits[0]["files"]["README.md"].decode() == "---\nlicense: mit\n---\n# Größe\n"
    card.write_text("# Größe\n", encoding="latin-1")
    with pytest.raises(DataError, match=r"README\.md: this file is not UTF-8 \(at byte 4\)"):
        load(tmp_path / "model").push_to_hub("me/model", token=TOKEN)
    assert len(server.commits) == 1


def test_shipped_model_keeps_its_card(server):
    fencepost.load().push_to_hub("me/english", token=TOKEN)
    card = ModelCard(server.commits[0]["files"]["README.md"].decode())
    assert card.text.strip() == (SHIPPED / "README.md").read_text().strip()
    assert card.data.library_name == "fencepost"
    assert server.commits[0]["files"].keys() == files_in(SHIPPED)


@pytest.mark.parametrize("front", ["- a\n- b\n", "a: [\n"])
def test_refuses_a_card_with_invalid_metadata(server, trained, tmp_path, front):
    load(trained).save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "README.md").write_text(f"---\n{front}---\n# Mine\n")
    with pytest.raises(UsageError, match=r"README.md: its metadata, or the given .*not valid YAML"):
        load(tmp_path / "model").push_to_hub("me/model", token=TOKEN, metadata={"license": "mit"})
    assert server.repositories == []


def test_missing_write_access_suggests_to_log_in(server, trained):
    for token in (None, "hf_of_somebody_else"):
        with pytest.raises(UsageError, match=r"^me/model: the hub refuses: .*401.*hf auth login") as caught:
            load(trained).push_to_hub("me/model", token=token)
        assert "hf_of" not in str(caught.value)
    assert server.commits == []


@pytest.mark.parametrize("name", ["", "a b", "../model", "a/b/c", "me/model.git", "me/..", "/etc"])
def test_refuses_invalid_hub_names(trained, name):
    with pytest.raises(UsageError, match="a name on the hub has the form owner/name"):
        load(trained).push_to_hub(name, token=TOKEN)


def test_push_without_network_is_reported(trained):
    with pytest.raises(
        UsageError, match=r"^me/model: the hub cannot be reached, or its client has failed: \S"
    ):
        load(trained).push_to_hub("me/model", token=TOKEN)


# From the hub


def test_pushed_model_is_loaded_with_the_same_predictions(server, trained):
    original = load(trained)
    original.push_to_hub("me/model", token=TOKEN)
    again = Recogniser.from_pretrained("me/model", engine=original.engine)
    assert predict(again) == predict(original)
    assert again.folder is not None
    assert files_in(again.folder) == ALL
    assert sorted(server.fetched) == sorted(ALL)  # each file once


def test_fetches_only_the_files_of_a_model(server, trained):
    server.add("you/model", trained)
    server.branches["you/model", "main"] |= {
        "pytorch_model.bin": b"x",
        "model.py": b"x",
        "onnx/evil.py": b"x",
        "onnx/deeper/graph.onnx": b"x",
        "onnx/../../../../outside.onnx": b"x",
        "sub/config.json": b"x",
        "config.json.py": b"x",
    }
    folder = hub.fetch("you/model")
    assert files_in(folder) == set(server.fetched) == ALL


def test_fetched_model_is_cached_and_can_be_saved(server, trained, tmp_path, monkeypatch):
    server.add("you/model", trained)
    first = Recogniser.from_pretrained("you/model")
    server.branches.clear()
    again = Recogniser.from_pretrained("you/model", local_files_only=True)
    assert predict(again) == predict(first)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # where no server answers
    assert predict(Recogniser.from_pretrained("you/model")) == predict(first)
    again.save_pretrained(tmp_path / "copy")
    assert not any(path.is_symlink() for path in (tmp_path / "copy").rglob("*"))
    assert files_in(tmp_path / "copy") == ALL


@pytest.mark.parametrize("listed", [True, False])
def test_refuses_an_incomplete_cache(server, trained, listed):
    """This holds even if the cache has no list of files, by which the client would notice."""
    server.add("you/model", trained)
    if listed:
        huggingface_hub.snapshot_download("you/model", allow_patterns=["config.json"])
    else:
        huggingface_hub.hf_hub_download("you/model", "config.json")
    with pytest.raises(
        UsageError, match=r"^you/model: .*(not completely in the cache|in the cache is incomplete)"
    ):
        Recogniser.from_pretrained("you/model", local_files_only=True)
    assert predict(Recogniser.from_pretrained("you/model")) != []


def test_uses_cache_dir_and_revision(server, trained, tmp_path):
    server.branches["you/model", "main"] = {"config.json": b"{}"}
    server.add("you/model", trained, "small")
    recogniser = Recogniser.from_pretrained("you/model", revision="small", cache_dir=tmp_path / "mine")
    assert recogniser.types == load(trained).types
    assert recogniser.folder.is_relative_to(tmp_path / "mine")
    with pytest.raises(UsageError, match=r"^you/model: there is no such revision"):
        Recogniser.from_pretrained("you/model", revision="large")


def test_token_is_sent_to_the_hub(server, trained, monkeypatch):
    server.add("you/model", trained)
    tokens = set()
    say = Answer.say

    def noted(self: Answer, *args: Any, **headers: Any) -> None:
        tokens.add(self.headers.get("Authorization"))
        say(self, *args, **headers)

    monkeypatch.setattr(Answer, "say", noted)
    Recogniser.from_pretrained("you/model", token=TOKEN)
    assert tokens == {f"Bearer {TOKEN}"}


@pytest.mark.parametrize(
    "config", [None, b"{", b"[]", b'{"model_type": "bert"}', b'{"types": 1, "config": {}}', b'{"types": []}']
)
def test_refuses_other_repositories_before_downloading_weights(server, config):
    files = {"model.safetensors": b"x" * 1000, "tokenizer.json": b"{}"}
    server.branches["you/bert", "main"] = files if config is None else {**files, "config.json": config}
    with pytest.raises(UsageError, match=r"^you/bert: this is not a fencepost model .* --encoder"):
        Recogniser.from_pretrained("you/bert")
    assert "model.safetensors" not in server.fetched


def test_refuses_a_damaged_model(server, trained):
    server.add("you/model", trained)
    server.branches["you/model", "main"]["onnx/encoder.onnx"] = b"x"
    with pytest.raises(
        DataError, match=r"checksums of these files .* do not match: onnx/encoder.onnx \(changed"
    ):
        Recogniser.from_pretrained("you/model", engine="onnx")
    del server.branches["you/model", "main"]["SHA256SUMS"]
    with pytest.raises(DataError, match="the graph cannot be loaded"):
        Recogniser.from_pretrained("you/model", engine="onnx")


def test_reports_models_missing_on_the_hub(server):
    with pytest.raises(
        UsageError, match=r"^you/model: there is no such folder, and the hub has no such model"
    ):
        Recogniser.from_pretrained("you/model")


@pytest.mark.parametrize(
    "name", ["./no/such/folder", "/no/such/folder", "a b", "me/../you", "a\0b", "x" * 300]
)
def test_invalid_name_is_reported_as_such(name):
    with pytest.raises(UsageError) as caught:
        Recogniser.from_pretrained(name)
    assert "there is no such folder, and a name on the hub has the form owner/name" in str(caught.value)


def test_reports_a_missing_network(monkeypatch):
    with pytest.raises(
        UsageError, match=r"^you/model: .*not completely in the cache.* cannot be reached \(\S|is incomplete"
    ):
        Recogniser.from_pretrained("you/model")
    with pytest.raises(UsageError, match=r"hub cannot be reached \(local_files_only is set\)"):
        Recogniser.from_pretrained("you/model", local_files_only=True)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UsageError, match=r"hub cannot be reached \(.*HF_HUB_OFFLINE"):
        Recogniser.from_pretrained("you/model")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            errors.GatedRepoError("gated", response=Mock(headers={}, status_code=403)),
            "access must be requested on the model.s page; then log in",
        ),
        (OSError(28, "No space left on device"), "its client has failed: .*No space left"),
        (TimeoutError(), "its client has failed: TimeoutError"),
    ],
)
def test_other_errors_are_explained(monkeypatch, error, message):
    def fails(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fails)
    with pytest.raises(UsageError, match=f"^you/model: .*{message}"):
        Recogniser.from_pretrained("you/model")


def test_names_the_missing_hub_client(monkeypatch, trained):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for ask in (
        lambda: Recogniser.from_pretrained("you/model"),
        lambda: load(trained).push_to_hub("me/model"),
    ):
        with pytest.raises(UsageError, match=r"pip install 'fencepost\[hub\]'"):
            ask()
    assert Recogniser.from_pretrained(trained).types  # a folder needs none
