"""A few of the kills of `benchmarks/kills.py`, and the differences that it detects."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.kills import _contents


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="waits for the processes of a group, as Linux can")
def test_killed_and_resumed_commands_give_the_same_results() -> None:
    command = [sys.executable, "-m", "benchmarks.kills", "--kills", "12", "--seed", "1"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    result = json.loads(process.stdout.splitlines()[-1])
    assert result["failures"] == []
    assert result["kills"] == 12
    assert process.returncode == 0


def test_comparison_ignores_times_and_folders(tmp_path: Path) -> None:
    for name, seconds in (("one", 1), ("other", 2)):
        (tmp_path / name / "tensorboard").mkdir(parents=True)
        (tmp_path / name / "tensorboard" / f"events.out.tfevents.{seconds}").write_text(name)
        (tmp_path / name / "report.html").write_text(name)
        (tmp_path / name / "metrics.jsonl").write_text(json.dumps({"dev_f1": 0.5, "dev_seconds": seconds}))
        (tmp_path / name / "trials.csv").write_text(f"trial,seconds\n0,{seconds}\n")
        (tmp_path / name / "tuning.json").write_text(
            json.dumps({"out": str(tmp_path / name), "seconds": seconds})
        )
    assert _contents(tmp_path / "one") == _contents(tmp_path / "other")


@pytest.mark.parametrize("name", ["model.safetensors", "metrics.json", "found.jsonl", ".fencepost-abc/x"])
def test_comparison_detects_other_differences(name: str, tmp_path: Path) -> None:
    for folder, text in (("one", "1"), ("other", "2")):
        (tmp_path / folder / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / name).write_text(text)
    assert _contents(tmp_path / "one") != _contents(tmp_path / "other")
