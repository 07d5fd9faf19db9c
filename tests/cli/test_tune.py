"""`fencepost tune`, as a user runs it."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from typer.testing import CliRunner, Result

from fencepost.cli import app
from fencepost.data import read, write
from fencepost.errors import FencepostError
from fencepost.runtime.pytorch import load_model
from tests.cli.conftest import Run, heed_ctrl_c

SMALL = [
    "--encoder=scratch",
    "--epochs=1",
    "--batch-size=8",
    "--set=encoder.lstm.size=16",
    "--set=encoder.scratch.word_size=8",
    "--set=method.size=8",
]
SEARCH = ["--search=training.learning_rate=1e-3..1e-2:log", "--search=method.epsilon=0,0.1,0.2"]


@pytest.fixture(autouse=True, scope="module")
def one_core() -> Iterator[None]:
    """The number of threads decides the last digits of a result."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for part, count in (("train", 24), ("dev", 10), ("test", 10)):
        write(islice(read(f"sample:{part}"), count), folder / f"{part}.jsonl")
    return folder


def arguments(data: Path, out: Path, *more: str) -> list[str]:
    parts = [f"--{part}={data / part}.jsonl" for part in ("train", "dev")]
    return ["tune", *parts, f"--out={out}", *SMALL, *SEARCH, *more]


@pytest.fixture(scope="module")
def tuned(data: Path) -> tuple[Path, Result]:
    """Folder of a tuning on the sample, and the output of the command."""
    out, report = data / "my tuning", data / "told.json"
    options = ["--train=sample:train", "--dev=sample:dev", f"--test={data / 'test.jsonl'}", f"--out={out}"]
    result = CliRunner().invoke(
        app,
        ["tune", *options, *SMALL, *SEARCH, "--batch-size=32", "--trials=3", f"--json={report}"],
        catch_exceptions=False,
    )
    assert result.exit_code == 0, result.output
    return out, result


def test_prints_trials_table_and_advice(tuned: tuple[Path, Result], data: Path) -> None:
    out, result = tuned
    plan, *lines = result.stderr.splitlines()
    assert plan == (
        "boundary-smoothing on scratch: 3 trials, training.epochs 1; search space: "
        "training.learning_rate, method.epsilon"
    )
    assert re.fullmatch(r"1/3 trial 0: dev F1 \d+\.\d\d, \d+ s; about \d+ .*left", lines[0])
    assert re.match(r"3/3 trial 2: dev F1 \d+\.\d\d", lines[-1])
    assert len(lines) == 3
    content = json.loads((data / "told.json").read_text())
    best = content["best"]
    with (out / "trials.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 3
    table = [re.split(r"\s{2,}", line.strip()) for line in result.stdout.splitlines()]
    assert ["trial", "state", "dev F1", "epochs", "minutes", "learning_rate", "epsilon"] in table
    for row in rows:
        name = f"{row['trial']} best" if int(row["trial"]) == best["trial"] else row["trial"]
        state = f"as {row['same_as']}" if row["same_as"] else "complete"
        (line,) = [one for one in table if one[:2] == [name, state] and len(one) == 7]
        assert line[2:4] == [f"{100 * float(row['dev_f1']):.2f}", "1"]
        assert float(line[5]) == float(row["training.learning_rate"])
    assert f"best trial: {best['trial']} with dev F1 {100 * best['dev_f1']:.2f}" in result.stdout
    assert "Strict scores of the best trial on the test data" in result.stdout
    assert content["test"]["sentences"] == 10
    for kind in ("png", "svg"):
        assert (out / f"tuning-history.{kind}").stat().st_size > 1000
    assert content["tuning"] == str(out)
    assert json.loads((out / "tuning.json").read_text())["trials"] == content["trials"]


def test_reports_complete_failed_and_pruned_trials(
    run: Run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Training is simulated: F1 is given by the number of the trial, or below all others."""
    from fencepost.experiments import trials

    count = -1

    def play(*_: Any, after_epoch: Callable[[int, float], None], **__: Any) -> None:
        nonlocal count
        count += 1
        if count == 3:
            raise FencepostError("there is not enough memory")
        for epoch in range(1, 5):
            after_epoch(epoch, 0.001 if count == 7 else (0.1 * count + 0.01 * epoch))

    monkeypatch.setattr(trials, "train", play)
    result = run(*arguments(data, tmp_path / "t"), "--epochs=4", "--trials=8", "--set=training.warmup=0.1")
    lines = result.stderr.splitlines()
    assert re.match(r"2/8 trial 1: dev F1 14.00, \d+ s; about \d+ s left", lines[2])
    assert re.match(r"4/8 trial 3: failed after \d+ s: there is not enough memory; best 24", lines[4])
    assert re.match(r"8/8 trial 7: stopped after epoch 2 with dev F1 0.10, \d+ s; best 64.00", lines[8])
    assert "Importance of settings, in percent" in result.stdout
    assert "best trial: 6 with dev F1 64.00" in result.stdout
    assert (tmp_path / "t" / "tuning-importance.svg").is_file()
    states = [trial["state"] for trial in json.loads((tmp_path / "t" / "tuning.json").read_text())["trials"]]
    assert states == [*["complete"] * 3, "failed", *["complete"] * 3, "pruned"]


def test_narrow_terminal_shows_whole_values() -> None:
    from rich.console import Console

    from fencepost.cli.tune import _print_trials
    from fencepost.experiments.tuning import TrialRecord

    keys = [f"training.{name}" for name in ("learning_rate", "batch_size", "warmup", "schedule", "clip")]
    one = TrialRecord(0, "complete", dict.fromkeys(keys, 0.001234), {1: 0.12})
    console = Console(width=80, record=True, file=io.StringIO())
    _print_trials(console, SimpleNamespace(best=one, space=dict.fromkeys(keys), trials=[one]))  # type: ignore[arg-type]
    text = console.export_text()
    assert "…" not in text
    assert "0 best   complete    12.00" in text
    assert text.count("=0.001234") == 5


def test_suggested_command_reproduces_the_best_trial(
    tuned: tuple[Path, Result], run: Run, tmp_path: Path
) -> None:
    out, result = tuned
    (line,) = [line for line in result.stdout.splitlines() if "fencepost train" in line]
    command = shlex.split(line.partition("fencepost ")[2])
    command[command.index("MODEL")] = str(tmp_path / "model")
    run(*command, "--no-report", "--json", tmp_path / "again.json")
    best = json.loads((out / "tuning.json").read_text())["best"]
    assert json.loads((tmp_path / "again.json").read_text())["kept"]["dev_f1"] == best["dev_f1"]
    assert load_model(out / best["model"]).config == load_model(tmp_path / "model").config


@pytest.mark.slow
def test_resumes_after_ctrl_c(run: Run, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "tuning"
    command = [*arguments(data, out, "--trials=2"), "--epochs=30"]
    process = subprocess.Popen(
        [sys.executable, "-m", "fencepost", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
        preexec_fn=heed_ctrl_c,
    )
    deadline = time.monotonic() + 120
    while not any(out.glob("trials/0000/checkpoints/*/trainer_state.json")):
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, messages = process.communicate(timeout=60)
    assert process.returncode == 130, messages
    assert messages.splitlines()[-1] == (
        "fencepost: interrupted; run the same command again to continue; finished trials are kept"
    )
    on = run(*command, "--trials=1").stderr.splitlines()
    assert on[0].endswith("; 1 to continue")
    assert on[1].startswith("1/1 trial 0: dev F1 ")
    (only,) = json.loads((out / "tuning.json").read_text())["trials"]
    assert (only["state"], only["epochs"]) == ("complete", 30)


def test_search_space_can_be_printed_and_read_from_a_file(run: Run, tmp_path: Path) -> None:
    usual = run("tune", "--show-space").stdout
    assert "training.encoder_learning_rate: {low: 1.0e-05, high: 0.0002, log: true}" in usual.splitlines()
    fixed = run("tune", "--show-space", "--batch-size=8", "--set=method.dropout=0.3").stdout
    assert set(usual.splitlines()) - set(fixed.splitlines()) == {
        "training.batch_size: [8, 16, 32]",
        "method.dropout: {low: 0.1, high: 0.5}",
    }
    path = tmp_path / "space.yaml"
    path.write_text(usual)
    assert run("tune", "--show-space", "--space", path).stdout == usual
    space = run("tune", "--show-space", "--space", path, "--search=method.epsilon=0..0.5:0.1").stdout
    assert "method.epsilon: {low: 0.0, high: 0.5, step: 0.1}" in space.splitlines()
    assert len(space.splitlines()) == len(usual.splitlines())
    only = run("tune", "--show-space", "--search=method.epsilon=0,0.1").stdout
    assert only == "method.epsilon: [0.0, 0.1]\n"
    assert (
        "method.max_offset: {low: 1, high: 3}"
        in run("tune", "--show-space", "--method=boundary-offset").stdout
    )


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--dev=x"], "give the training data with --train and the folder for all trials with --out"),
        (["--train=x", "--out=y"], "give development data with --dev, or a share of the training data"),
        (
            ["--train=x", "--out=y", "--dev=z", "--dev-share=0.2"],
            "--dev and --dev-share cannot be used together",
        ),
        (["--train=-", "--out=y", "--dev=-"], "standard input can be read only once"),
        (["--search=training.epoch=1,2"], "--search: training.epoch: there is no such key; did you mean"),
        (
            ["--search=training.epochs=1,2", "--epochs=3"],
            "training.epochs is searched and also given with an option; leave out one",
        ),
        (
            ["--search=method.epsilon=0,0.1", "--set=method.epsilon=0.1"],
            "method.epsilon is searched and also given with --set",
        ),
        (
            ["--search=method.epsilon=0,0.1", "--search=method.epsilon=0,0.2"],
            "method.epsilon is given twice",
        ),
        (["--space=none.yaml"], "none.yaml: cannot be read: No such file"),
    ],
)
def test_refuses_wrong_arguments(run: Run, more: list[str], message: str) -> None:
    assert message in run("tune", *more, code=2).stderr


def test_refuses_the_folder_of_another_tuning(run: Run, tuned: tuple[Path, Result], data: Path) -> None:
    message = run(*arguments(data, tuned[0]), code=2).stderr
    assert "contains another study; continue with the same settings and data" in message
    assert "it has other training data; it has other development data" in message


def test_no_time_finishes_no_trials(run: Run, data: Path, tmp_path: Path) -> None:
    command = [one for one in arguments(data, tmp_path / "tuning") if not one.startswith("--dev=")]
    result = run(*command, "--dev-share=0.25", "--minutes=0")
    assert "0 of 20 trials are finished; run the same command again to continue" in result.stdout
    assert "importance of settings not computed: it needs 4 complete trials, but there are 0" in result.stdout
    content = json.loads(run(*command, "--dev-share=0.25", "--minutes=0", "--json", "--quiet").stdout)
    assert (content["trials"], content["best"]) == ([], None)


def test_names_missing_optuna(run: Run, monkeypatch: pytest.MonkeyPatch, data: Path, tmp_path: Path) -> None:
    for name in [name for name in sys.modules if name.startswith(("optuna", "fencepost.experiments.tuning"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "optuna", None)
    message = run(*arguments(data, tmp_path / "tuning"), code=2).stderr
    assert (
        message
        == "fencepost: this needs optuna, which is not installed: pip install 'fencepost[train,tune]'\n"
    )
