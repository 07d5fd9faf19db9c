"""Nothing leaves the machine: no command opens a connection or leaves a file in the user's home folder.

Each command runs under `strace` with an empty home folder. Debian's `strace` is needed; where it is missing
these tests are skipped, unless `FENCEPOST_STRACE=required` is set, as CI does.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import httpx
import pytest

from fencepost.data import read, write
from tests.cli.conftest import heed_ctrl_c

FENCEPOST = (sys.executable, "-c", "from fencepost.cli import main; main()")
NETWORK_CALLS = "connect,sendto,sendmsg,sendmmsg"
DATA = ("--train", "data.jsonl", "--dev", "data.jsonl")
TINY = ("--encoder", "scratch", "--epochs", "1", "--set", "encoder.lstm.size=8", "--set", "method.size=8")
EXPECTED = re.compile(r"\.(cache|config)/(matplotlib|fontconfig)/|\.ray/auth_token$")
"""Matplotlib's list of local fonts, and the token by which processes of Ray authenticate."""

IDLE = 8
"""Seconds to wait with a loaded model; onnxruntime looked up its collector within 6."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return _new_folder(tmp_path / "home")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with some data, and a model that was trained on it under observation."""
    folder = tmp_path_factory.mktemp("privacy")
    write(islice(read("sample:train"), 20), folder / "data.jsonl")
    (folder / "texts.txt").write_text("Ada Lovelace was born in London.\n")
    home = _new_folder(folder / "home")
    _check(folder, home, (*FENCEPOST, "train", *DATA, "--test", "data.jsonl", "--out", "model", *TINY))
    return folder


def _new_folder(path: Path) -> Path:
    path.mkdir()
    return path


def _check(folder: Path, home: Path, command: Sequence[str]) -> None:
    """Run a command in a folder; fail if it fails, opens a connection or writes into the home folder."""
    with _start(folder, home, command, stdout=subprocess.PIPE) as process:
        output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    _check_traces(folder, home)


def _start(folder: Path, home: Path, command: Sequence[str], **options: object) -> subprocess.Popen[str]:
    if shutil.which("strace") is None:
        assert os.environ.get("FENCEPOST_STRACE") != "required", "strace is not installed"
        pytest.skip("strace is not installed")
    names = {"PATH", "PYTHONPATH", "OMP_NUM_THREADS", "COVERAGE_PROCESS_CONFIG"}
    environment = {name: value for name, value in os.environ.items() if name in names}
    observed = ["strace", "-f", "--seccomp-bpf", "-qq", "-e", f"trace={NETWORK_CALLS}", "-o", "network.log"]
    return subprocess.Popen(
        [*observed, *command],
        cwd=folder,
        env={**environment, "HOME": str(home), "TMPDIR": str(_temporary(folder))},
        stderr=subprocess.STDOUT,
        text=True,
        **options,
    )


def _temporary(folder: Path) -> Path:
    path = folder / "tmp"
    path.mkdir(exist_ok=True)
    return path


def _check_traces(folder: Path, home: Path) -> None:
    calls = (folder / "network.log").read_text(errors="replace").splitlines()
    assert [call for call in calls if _leaves_the_machine(call)] == []
    files = [path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file()]
    assert [name for name in files if not EXPECTED.match(name)] == []


def _leaves_the_machine(call: str) -> bool:
    """Return whether a system call is a look-up, or connects to an address that is not loopback."""
    if "sa_family=AF_INET" not in call:
        return False
    address = re.search(r'inet_addr\("([^"]+)"\)|inet_pton\(AF_INET6, "([^"]+)"', call)
    assert address is not None, call
    loopback = (address[1] or address[2]).startswith(("127.", "::1", "::ffff:127."))
    return not loopback or "port=htons(53)" in call


def test_detects_name_look_ups_and_external_connections() -> None:
    address = 'connect(7, {sa_family=AF_INET, sin_port=htons(%d), sin_addr=inet_addr("%s")}, 16) = 0'
    assert _leaves_the_machine(address % (53, "192.0.2.1"))
    assert _leaves_the_machine(address % (53, "127.0.0.53"))
    assert _leaves_the_machine(address % (443, "192.0.2.1"))
    assert not _leaves_the_machine(address % (8000, "127.0.0.1"))
    assert not _leaves_the_machine('connect(3, {sa_family=AF_UNIX, sun_path="/run/x"}, 110) = 0')


def test_training_stays_on_the_machine(folder: Path) -> None:
    """The fixture checks the training."""
    assert (folder / "model" / "report.html").is_file()


def test_prediction_stays_on_the_machine(tmp_path: Path, home: Path) -> None:
    _check(tmp_path, home, (*FENCEPOST, "predict", "Ada Lovelace was born in London."))


def test_serving_stays_on_the_machine(tmp_path: Path, home: Path) -> None:
    command = (*FENCEPOST, "serve", "--port", "0")
    with _start(
        tmp_path, home, command, stdout=subprocess.PIPE, start_new_session=True, preexec_fn=heed_ctrl_c
    ) as server:
        assert server.stdout is not None
        address = re.search(r"http://\S+", server.stdout.readline())
        assert address is not None
        assert address[0].startswith("http://127.0.0.1:")
        question = {"text": "Ada Lovelace was born in London."}
        assert httpx.post(f"{address[0]}/v1/entities", json=question).status_code == 200
        time.sleep(IDLE)
        os.killpg(server.pid, signal.SIGINT)
        server.communicate(timeout=60)
    _check_traces(tmp_path, home)


@pytest.mark.parametrize("variable", ["ORT_DISABLE_TELEMETRY", "RAY_USAGE_STATS_ENABLED"])
def test_keeps_environment_variables_of_the_user(variable: str) -> None:
    code = f"import os, fencepost; print(os.environ[{variable!r}])"
    environment = {**os.environ, variable: "chosen"}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert result.stdout == "chosen\n"


SPACY = """
import spacy
pipeline = spacy.blank("en")
pipeline.add_pipe("fencepost")
pipeline("Ada Lovelace was born in London.")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        (*FENCEPOST, "inspect", "data.jsonl"),
        (*FENCEPOST, "convert", "data.jsonl", "out.conll", "--overlaps", "outermost"),
        (*FENCEPOST, "evaluate", "model", "data.jsonl"),
        (*FENCEPOST, "check", "model"),
        (*FENCEPOST, "compare", "model", "model", "--label", "a", "--label", "b", "--data", "data.jsonl"),
        (*FENCEPOST, "analyze", "calibration", "model", "data.jsonl"),
        (*FENCEPOST, "report", "model", "--data", "data.jsonl", "--out", "other.html"),
        (*FENCEPOST, "combine", "model", "model", "--dev", "data.jsonl", "--out", "combined"),
        (*FENCEPOST, "adapt", "minilm", "sample:dev", "--out", "encoder", "--epochs", "1"),
        (*FENCEPOST, "suggest", "model", "texts.txt", "--output", "next.jsonl"),
        (*FENCEPOST, "export", "model", "--int8", "--check", "data.jsonl"),
        (*FENCEPOST, "train", "--train", "data.jsonl", "--out", "minilm", "--epochs", "1"),
        (*FENCEPOST, "sweep", *DATA, "--out", "sweep", "--seeds", "1", *TINY),
        (*FENCEPOST, "tune", *DATA, "--out", "tune", "--trials", "2", *TINY),
        (*FENCEPOST, "audit", "data.jsonl", "--out", "audit", "--folds", "2", *TINY),
        (*FENCEPOST, "predict", "--engine", "ray", "--input", "texts.txt", "--output", "ray"),
        (sys.executable, "-c", SPACY),
    ],
    ids=lambda command: command[3] if len(command) > 3 else "spacy",
)  # fmt: skip
def test_every_other_command_stays_on_the_machine(folder: Path, home: Path, command: Sequence[str]) -> None:
    _check(folder, home, command)
