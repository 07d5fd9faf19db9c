"""Benchmarks of `combine`, `adapt` and `distil`, and of all: their runs and summaries."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from benchmarks import adapt, common, consensus, distil
from benchmarks import all as everything


@pytest.mark.parametrize("script", [adapt, consensus, distil, everything])
def test_benchmarks_are_skipped_without_corpora(
    script: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(script, "corpora", lambda: None)
    corpus = ["genia"] if script is consensus else []
    monkeypatch.setattr("sys.argv", ["benchmark", *corpus, "--folder", "models"])
    script.main()  # type: ignore[attr-defined]
    assert json.loads(capsys.readouterr().out)["skipped"] == "no corpora"


def test_adapted_runs_differ_only_in_the_encoder() -> None:
    before, after = (adapt.make_task(encoder, 200, 3) for encoder in ("minilm", adapt.ADAPTED))
    assert {key: value for key, value in before.key.items() if key != "encoder"} == {
        key: value for key, value in after.key.items() if key != "encoder"
    }
    assert after.key["settings"][-1] == "training.epochs=30"
    assert after.arguments[after.arguments.index("--sentences") + 1] == "200"
    everything = adapt.make_task("minilm", adapt.ALL, 1)
    assert everything.key["settings"] == ["training.epochs=12"]
    assert "--sentences" not in everything.arguments


def test_task_of_a_member_has_its_folder_and_settings(tmp_path: Path) -> None:
    arguments = argparse.Namespace(corpus="genia", epochs=8, folder=tmp_path)
    task = consensus.make_task(arguments, "diffusion", 2)
    assert task.arguments[-1] == str(consensus.get_folder(arguments, "diffusion", 2))
    assert task.key["dev_share"] == consensus.DEV_SHARE
    assert task.key["settings"][-1] == "training.epochs=8"


def test_results_are_averaged_over_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last line of a seed counts, and lines of other corpora do not."""
    path = tmp_path / "consensus.jsonl"
    monkeypatch.setattr(consensus, "OUT", path)
    assert consensus.summarise_results("genia") == {}
    lines = [("genia", 1, 0.1), ("genia", 1, 0.6), ("genia", 2, 0.8), ("gum", 1, 0.3)]
    with path.open("w") as stream:
        for corpus, seed, f1 in lines:
            scores = {"f1": f1, "ece": 0.02}
            line = {"corpus": corpus, "seed": seed, "members": {"a": scores}, "combinations": {"b": scores}}
            stream.write(json.dumps(line) + "\n")
    result = consensus.summarise_results("genia")
    assert result["seeds"] == [1, 2]
    assert result["a"]["f1"]["mean"] == result["b"]["f1"]["mean"] == 0.7


def test_students_have_the_expected_teachers(tmp_path: Path) -> None:
    task = distil.make_model_task(tmp_path, distil.BASELINE, 2)
    assert task.arguments[-1] == str(distil.get_folder(tmp_path, distil.BASELINE, 2))
    assert [len(distil.get_teachers(student)) for student in ("bge-3", "combination-6")] == [1, 4]
    assert not distil.is_trained(tmp_path, distil.BASELINE, 2)


def test_no_work_starts_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    def work(item: int) -> int:
        started.append(item)
        if item == 2:
            monkeypatch.setenv(common.DEADLINE, "1")
        return 10 * item

    assert dict(common.run_in_parallel(work, [1, 2, 3, 4], jobs=1)) == {1: 10, 2: 20}
    assert started == [1, 2]


def test_commands_run_in_order_despite_failures_until_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One seed of each comes before further seeds; the pages are made even after the deadline."""
    commands = list(everything.list_commands(tmp_path, 2, "abc"))
    more = ["2" in command for command in commands if command[0] == "benchmarks.consensus"]
    assert more == sorted(more)
    assert all("--since" in command for command in commands if command[0] == "benchmarks.quality")
    ran = []

    def run(command: list[str]) -> int:
        ran.append(command[0])
        if len(ran) == 3:
            monkeypatch.setenv(common.DEADLINE, "1")
        return int(len(ran) == 2)

    monkeypatch.setattr(everything, "run", run)
    monkeypatch.setenv(common.DEADLINE, "0")
    with pytest.raises(SystemExit):
        everything.run_all(commands, budget=60)
    assert ran == [*(command[0] for command in commands[:3]), *(page[0] for page in everything.PAGES)]
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["commands_left"] == len(commands) - 3
    assert result["failed"] == [" ".join(commands[1])]


@pytest.mark.parametrize(("text", "seconds"), [("8h", 28800), ("1h30m", 5400), ("90m", 5400), ("1.5h", 5400)])
def test_parses_durations(text: str, seconds: int) -> None:
    assert everything.parse_duration(text) == seconds
    with pytest.raises(argparse.ArgumentTypeError, match="not a duration"):
        everything.parse_duration(text[:-1])
