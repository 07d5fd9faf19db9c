"""The benchmarks of `combine` and `adapt`: what they run, and what they make of the results."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from benchmarks import adapt, consensus


@pytest.mark.parametrize("script", [adapt, consensus])
def test_without_corpora_they_are_skipped(
    script: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(script, "corpora", lambda: None)
    corpus = ["genia"] if script is consensus else []
    monkeypatch.setattr("sys.argv", ["benchmark", *corpus, "--folder", "models"])
    script.main()  # type: ignore[attr-defined]
    assert json.loads(capsys.readouterr().out)["skipped"] == "no corpora"


def test_runs_with_and_without_adaptation() -> None:
    before, after = (adapt.make_task(encoder, 200, 3) for encoder in ("minilm", adapt.ADAPTED))
    assert {key: value for key, value in before.key.items() if key != "encoder"} == {
        key: value for key, value in after.key.items() if key != "encoder"
    }
    assert after.key["settings"][-1] == "training.epochs=30"
    assert after.arguments[after.arguments.index("--sentences") + 1] == "200"
    everything = adapt.make_task("minilm", adapt.ALL, 1)
    assert everything.key["settings"] == ["training.epochs=12"]
    assert "--sentences" not in everything.arguments


def test_members_are_kept_for_the_combination(tmp_path: Path) -> None:
    arguments = argparse.Namespace(corpus="genia", epochs=8, folder=tmp_path)
    task = consensus.make_task(arguments, "diffusion", 2)
    assert task.arguments[-1] == str(consensus.get_folder(arguments, "diffusion", 2))
    assert task.key["dev_share"] == consensus.DEV_SHARE
    assert task.key["settings"][-1] == "training.epochs=8"


def test_means_over_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
