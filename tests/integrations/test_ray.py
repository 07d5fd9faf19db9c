"""`predict --engine ray`, on a local Ray with two workers."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet, scalar, table
from typer.testing import CliRunner, Result

from fencepost.cli import app, predict_ray
from fencepost.errors import UsageError
from fencepost.integrations import ray as on_ray
from fencepost.integrations.ray import Worker
from fencepost.runtime.prediction.folder import PartFile
from tests.cli.conftest import heed_ctrl_c
from tests.integrations.mortal import Mortal
from tests.runtime import models

TEXTS = [" ".join(sentence.words) for sentence in models.sentences(60, seed=1)]
NAMES = ("a.txt", "b.jsonl", "c.parquet")
PART = 8


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return models.saved(models.trained(), tmp_path_factory.mktemp("trained"), int8=True)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> Path:
    """Folder with a file of each kind, which have several parts if parts are small."""
    folder = tmp_path_factory.mktemp("inputs")
    texts = [text.replace("\n", " ") for text in TEXTS]
    (folder / "a.txt").write_bytes(("\ufeff" + "\r\n".join(texts)).encode())
    lines = [json.dumps({"id": number, "text": text}) for number, text in enumerate(TEXTS)]
    lines[9:9] = ["", '{"text": 3}', '"a string"', "\ufeffno JSON"]
    (folder / "b.jsonl").write_text("\n".join(lines), encoding="utf-8")
    columns = table({"id": range(60), "text": TEXTS, "when": [scalar(0, "timestamp[s]")] * 60})
    parquet.write_table(columns, folder / "c.parquet", row_group_size=13)
    return folder


@pytest.fixture(scope="module")
def ray() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        on_ray._import_ray(None)
        on_ray._start(None, 2)
        import ray

        yield
        ray.shutdown()


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch) -> None:
    monkeypatch.setattr("fencepost.runtime.chunks.TEXTS", PART)


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(app, ["predict", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(scope="module")
def single(model, inputs, tmp_path_factory) -> dict[str, bytes]:
    """Output of one process for each shard."""
    folder = tmp_path_factory.mktemp("single")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fencepost.runtime.chunks.TEXTS", PART)
        for name in NAMES:
            arguments = ["--input", inputs / name, "--output", folder / f"{name}.jsonl"]
            run(model, *arguments, "--engine", "int8", "--skip-invalid")
    return {name: (folder / f"{name}.jsonl").read_bytes() for name in NAMES}


def make_command(model: Path, inputs: Path, output: Path) -> list[object]:
    return [
        *(model, "--engine", "ray:int8", "--input", inputs, "--output", output),
        *("--skip-invalid", "--workers", 2),
    ]


def check(output: Path, single: dict[str, bytes]) -> dict[str, Any]:
    """Assert that output and manifest match those of one process, and return the manifest."""
    manifest: dict[str, Any] = json.loads((output / "manifest.json").read_text())
    assert {path.name for path in output.iterdir()} == {
        "manifest.json",
        *(shard["output"] for shard in manifest["shards"]),
    }
    for name, shard in zip(NAMES, manifest["shards"], strict=True):
        content = (output / shard["output"]).read_bytes()
        assert content == single[name]
        assert shard["sha256"] == hashlib.sha256(content).hexdigest()
        assert shard["bytes"] == len(content)
        records = [json.loads(line) for line in content.splitlines()]
        assert shard["texts"] == len(records)
        assert shard["entities"] == sum(len(record["entities"]) for record in records) > 10
        assert Path(shard["input"]).name == name
    return manifest


@pytest.mark.slow
def test_output_equals_that_of_one_process(ray, model, inputs, single, tmp_path):
    result = run(*make_command(model, inputs, tmp_path / "out"))
    manifest = check(tmp_path / "out", single)
    assert [shard["parts"] for shard in manifest["shards"]] == [8, 8, 8]
    assert [shard["rejected"] for shard in manifest["shards"]] == [0, 2, 0]
    assert (manifest["texts"], manifest["rejected"]) == (181, 2)
    assert manifest["model"]["engine"] == "int8"
    assert manifest["model"]["settings"]["select"] == "nested"
    assert not result.stdout
    *notes, last = result.stderr.splitlines()
    assert len(notes) == 3
    assert "b.jsonl:11: skipped: 'text' is missing" in notes[0]
    assert "b.jsonl:13: skipped: not JSON" in notes[1]
    assert "c.parquet: what JSON cannot represent is not in the output: column 'when' (timestamp" in notes[2]
    assert last.startswith("181 texts, ")
    assert "(3 files)" in last


@pytest.mark.slow
def test_killed_worker_has_no_effect_on_the_output(ray, model, inputs, single, tmp_path, monkeypatch):
    monkeypatch.setattr(on_ray, "Worker", Mortal)
    died = []
    assemble = predict_ray.OutputFolder.assemble

    def watched(self, shard, parts):
        died.append((self.unfinished / "died").exists())
        return assemble(self, shard, parts)

    monkeypatch.setattr(predict_ray.OutputFolder, "assemble", watched)
    result = run(*make_command(model, inputs, tmp_path / "out"))
    assert any(died)
    assert "1 part repeated because a worker died" in result.stderr
    assert not result.stdout
    assert [path.name for path in (tmp_path / "out" / "unfinished").iterdir()] == ["died"]  # not its own
    shutil.rmtree(tmp_path / "out" / "unfinished")
    check(tmp_path / "out", single)


@pytest.mark.slow
def test_interrupted_job_is_resumed(ray, model, inputs, single, tmp_path, monkeypatch):
    output = tmp_path / "out"
    arguments = make_command(model, inputs, output)

    def stop(progress):
        if progress.texts > 60:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(predict_ray, "predict", lambda *arguments: on_ray.predict(*arguments[:-1], stop))
        message = run(*arguments, code=130).stderr
    assert (
        f"interrupted; finished parts are in {output}; continue with the same command and --resume" in message
    )
    assert not (output / "manifest.json").exists()

    assert "use --resume to continue or --force to overwrite it" in run(*arguments, code=2).stderr
    other = run(*arguments, "--resume", "--min-confidence", 0.5, code=2).stderr
    assert "was made with other options, so it cannot be continued; use --force to overwrite it" in other

    parts = sorted((output / "unfinished").glob("*.part"))
    parts[0].write_bytes(parts[0].read_bytes()[:-5])
    rows_sent = []
    results = on_ray._results

    def watched(rows, options, workers):
        rows_sent.extend(rows)
        return results(rows, options, workers)

    monkeypatch.setattr(on_ray, "_results", watched)
    run(*arguments, "--resume")
    assert str(parts[0]) in {row["output"] for row in rows_sent}
    assert len(rows_sent) < 20
    check(output, single)
    assert "already complete" in run(*arguments, "--resume").stderr

    damaged, missing, _ = sorted(output.glob("part-*"))
    damaged.write_bytes(damaged.read_bytes().replace(b"Ada", b"Bob"))
    missing.unlink()
    monkeypatch.setattr(on_ray, "_results", lambda rows, options, _: map(Worker(options), rows))
    message = run(*arguments, "--resume").stderr
    for path in (damaged, missing):
        assert f"{path}: missing or changed, so it is written again" in message
    check(output, single)


def test_refuses_more_threads_than_any_reported_node_has(monkeypatch):
    """The nodes are simulated; the slow test below uses Ray itself."""
    nodes = [
        {"Alive": True, "Resources": {"CPU": 2.0}},
        {"Alive": True, "Resources": {}},
        {"Alive": False, "Resources": {"CPU": 8.0}},
    ]
    monkeypatch.setattr("ray.nodes", lambda: nodes)
    on_ray._check_threads(2)
    with pytest.raises(UsageError, match=r"--threads 3: .* the largest has only 2 processors for Ray"):
        on_ray._check_threads(3)


@pytest.mark.slow
def test_refuses_more_threads_than_any_machine_has(ray, model, inputs, tmp_path):
    message = run(*make_command(model, inputs, tmp_path / "out"), "--threads", 3, code=2).stderr
    assert (
        "--threads 3: a worker runs on one machine, but the largest has only 2 processors for Ray" in message
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_ctrl_c_leaves_no_processes(model, inputs, tmp_path):
    script = (
        "from fencepost.cli import main; from fencepost.runtime import chunks; chunks.TEXTS = 1\n"
        "import os, signal; from fencepost.integrations.ray import Progress\n"
        "Progress.__setattr__ = lambda *_: os.kill(os.getpid(), signal.SIGINT)  # when a part is done\n"
        "main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, "predict", *map(str, make_command(model, inputs, tmp_path / "out"))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_ctrl_c,
        start_new_session=True,
    )
    out, messages = process.communicate(timeout=120)
    assert process.returncode == 130, messages
    assert "continue with the same command and --resume" in messages
    assert "Traceback" not in messages
    assert not out
    deadline = time.monotonic() + 30
    while (left := of_session(process.pid)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert left == []


def of_session(leader: int) -> list[str]:
    """Return the running processes in the session of this leader."""
    names = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, rest = status.read_text().rsplit(")", 1)
        except OSError:
            continue
        state, _, _, session, *_ = rest.split()
        if int(session) == leader and state != "Z":
            names.append(name)
    return names


# Without Ray


def row(path: Path, output: Path, **changes: Any) -> dict[str, Any]:
    known = {"shard": 0, "part": 0, "start": 0, "end": 9, "texts": 2, "text_column": "text"}
    size = path.stat().st_size if path.exists() else 8
    fields = {"path": str(path), "kind": "text", "size": size, "output": str(output), "offsets": "characters"}
    return {**known, **fields, **changes}


def test_part_that_kills_workers_is_reported(model, tmp_path):
    (tmp_path / "in.txt").write_text("Ada\nLondon\n")
    of_part = row(tmp_path / "in.txt", tmp_path / "0.part", end=11)
    for _ in range(on_ray.MAX_TRIES):
        PartFile(tmp_path / "0.part").count_try()
    worker = Worker({"path": str(model), "engine": "onnx"})
    problem = worker(of_part)["problem"]
    assert "in.txt: 4 workers died while predicting 2 texts, from 0 to 11 (bytes)" in problem
    (tmp_path / "0.tries").unlink()
    assert worker(of_part) == {"shard": 0, "part": 0, "texts": 2, "tries": 1, "problem": ""}
    assert not (tmp_path / "0.tries").exists()


def test_worker_reports_problems(model, tmp_path):
    (tmp_path / "in.txt").write_text("Ada\nLondon\n")
    worker = Worker({"path": str(model), "engine": "onnx"})
    output = tmp_path / "0.part"
    assert (
        "nowhere.txt: cannot be read: No such file"
        in worker(row(tmp_path / "nowhere.txt", output))["problem"]
    )
    assert "has changed since" in worker(row(tmp_path / "in.txt", output, size=3))["problem"]
    assert "has changed since" in worker(row(tmp_path / "in.txt", output, end=3))["problem"]
    assert not output.exists()
    nowhere = Worker({"path": str(tmp_path), "engine": "onnx"})
    assert "not a model folder" in nowhere(row(tmp_path / "in.txt", output))["problem"]


def test_refuses_the_address_of_a_ray_client():
    with pytest.raises(UsageError, match="on a machine of the cluster, with --ray-address auto"):
        on_ray.check_ready("ray://head:10001")
