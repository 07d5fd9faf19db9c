from __future__ import annotations

import io
import json
import os
import pty
import re
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from transformers.utils import logging as transformers_logging

from fencepost.analysis.epochs import read_records
from fencepost.methods.boundary_smoothing.network import BoundarySmoothing
from fencepost.training import run as run_module
from fencepost.training.records import Display, Records
from tests.training.runs import STEPS, before_step, config, metrics, run

LINE = re.compile(
    r"epoch   (\d)   loss +(\d+\.\d{3})   dev loss +\d+\.\d{3}   "
    r"P +\d+\.\d   R +\d+\.\d   F1 +(\d+\.\d)(  best so far)?"
)
SHOWN, HIDDEN = "\x1b[?25h", "\x1b[?25l"  # the cursor


# The file


def test_ignores_an_incomplete_last_line(tmp_path: Path) -> None:
    assert read_records(tmp_path) == []
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n{"step": 2}\n{"step": 3, "los')
    assert read_records(tmp_path) == [{"step": 1}, {"step": 2}]


def test_each_record_is_written_immediately(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader sees whole lines at any time, even after a kill."""
    contents: list[bytes] = []
    records = Records(tmp_path)
    records.begin([], 0, 30, 5)
    for step in range(1, 30):
        records.record({"step": step, "epoch": round(step / 7, 4), "loss": 1 / step, "retrieval_loss": 0.5})
        content = (tmp_path / "metrics.jsonl").read_bytes()
        assert content.endswith(b"\n")
        contents.append(content)
    records.close()
    assert all(later.startswith(earlier) for earlier, later in pairwise(contents))
    assert json.loads(contents[-1].splitlines()[1]) == {
        "step": 2,
        "epoch": 0.2857,
        "loss": 0.5,
        "retrieval_loss": 0.5,
    }


def test_records_the_terms_of_the_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loss = BoundarySmoothing.loss

    def in_two(self: BoundarySmoothing, *args: Any) -> dict[str, Any]:
        whole = loss(self, *args)["span_loss"]
        return {"one_loss": 0.25 * whole, "other_loss": 0.75 * whole}

    monkeypatch.setattr(BoundarySmoothing, "loss", in_two)
    run(tmp_path / "model", config(epochs=2, accumulate=2), dev=False)
    for record in metrics(tmp_path / "model"):
        assert record["one_loss"] == pytest.approx(0.25 * record["loss"], rel=1e-5)
        assert record["other_loss"] == pytest.approx(0.75 * record["loss"], rel=1e-5)


# Output


@pytest.fixture
def open_terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], io.StringIO]:
    """Send the output of trainings to a terminal of this width."""

    def prepare(width: int) -> io.StringIO:
        stream = io.StringIO()
        console = Console(file=stream, force_terminal=True, width=width, highlight=False)
        monkeypatch.setattr(run_module, "Display", lambda: Display(console))
        return stream

    return prepare


def test_prints_a_line_per_epoch_without_a_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("FORCE_COLOR", "1")
    run(tmp_path / "model", config(epochs=2), quiet=False)
    out, err = capfd.readouterr()
    assert not out
    lines = [LINE.fullmatch(line) for line in err.splitlines()]
    assert len(lines) == 2
    records = metrics(tmp_path / "model")
    assert [record["step"] for record in records] == [10, 12, 12, 20, 24, 24]
    for index, line in enumerate(lines):
        assert line is not None
        # the mean over the epoch's steps, not only over those since the last record
        before, last, dev = records[3 * index : 3 * index + 3]
        steps = before["step"] - STEPS * index
        mean = (steps * before["loss"] + (STEPS - steps) * last["loss"]) / STEPS
        assert float(line[2]) == pytest.approx(mean, abs=0.001)
        assert float(line[3]) == pytest.approx(100 * dev["dev_f1"], abs=0.06)
    assert lines[0][4]  # type: ignore[index]


def test_line_has_only_the_loss_without_development_data(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path / "model", config(epochs=2, batch_size=12), dev=False, quiet=False)
    losses = [record["loss"] for record in metrics(tmp_path / "model")]
    assert capfd.readouterr().err.splitlines() == [
        f"epoch   {number}   loss {loss:8.3f}" for number, loss in enumerate(losses, start=1)
    ]


def test_quiet_prints_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run(tmp_path / "model", config(epochs=1))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("width", [100, 60])
def test_terminal_shows_a_bar_with_loss_and_f1(
    width: int, tmp_path: Path, open_terminal: Callable[[int], io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = open_terminal(width)
    frames: list[str] = []
    update = Display.after_step

    def noted(self: Display, *args: Any, **kwargs: Any) -> None:
        update(self, *args, **kwargs)
        self.bar.refresh()  # immediately, however fast the training is
        frame = stream.getvalue().rpartition("\r\x1b[2K")[2]
        frames.append(re.sub(r"\x1b\[[0-9;]*m", "", frame))

    monkeypatch.setattr(Display, "after_step", noted)
    run(tmp_path / "model", config(epochs=2), quiet=False)
    assert all(len(frame) <= width and "\n" not in frame for frame in frames)
    assert frames[0].startswith("epoch 1/2 ")
    assert " 1/24 " in frames[0]
    assert re.search(r" 12/24 +loss \d+\.\d{3} ", frames[11])
    assert frames[11].startswith("epoch 1/2 ")
    assert re.search(r"^epoch 2/2 .* 13/24 +loss \d+\.\d{3}  best F1 \d+\.\d ", frames[12])
    assert stream.getvalue().count(HIDDEN) == stream.getvalue().count(SHOWN) == 1
    assert stream.getvalue().rindex(SHOWN) > stream.getvalue().rindex("24/24")


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_errors_close_the_progress_bar(
    error: type[BaseException], tmp_path: Path, open_terminal: Callable[[int], io.StringIO]
) -> None:
    stream = open_terminal(80)

    def fail() -> None:
        raise error

    with before_step(5, fail), pytest.raises(error):
        run(tmp_path / "model", quiet=False)
    assert stream.getvalue().endswith(f"{SHOWN}\r\x1b[1A\x1b[2K")


def test_real_terminal_shows_the_bar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    output = bytearray()

    def look() -> None:
        with suppress(OSError):  # how Linux says that the other side is closed
            while piece := os.read(ours, 4096):
                output.extend(piece)

    onlooker = threading.Thread(target=look)
    onlooker.start()
    with os.fdopen(theirs, "w") as terminal, monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", terminal)
        patched.setenv("TERM", "xterm")
        run(tmp_path / "model", config(epochs=1), quiet=False)
    onlooker.join(10)
    os.close(ours)
    assert HIDDEN.encode() in output
    assert b"12/12" in output
    assert b"epoch   1   loss" in output


def test_verbosity_of_transformers_is_restored(tmp_path: Path) -> None:
    before = transformers_logging.get_verbosity()
    try:
        transformers_logging.set_verbosity_info()
        run(tmp_path / "model", config(epochs=1), dev=False)
        assert transformers_logging.get_verbosity() == transformers_logging.INFO
    finally:
        transformers_logging.set_verbosity(before)
