"""Results of the benchmarks of quality, and how their runs are resumed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import common, learning_curve, quality, thresholds
from benchmarks.common import Task, draw, percent, run_tasks, scores_of, summarise
from fencepost import Entity, Sentence
from fencepost.config import Config
from fencepost.data import write
from fencepost.evaluation import evaluate, fit_threshold, match
from fencepost.methods.registry import METHODS

FLAT = Sentence(list("abcdefg"), [Entity(0, 1, "X"), Entity(1, 3, "X"), Entity(4, 7, "Y")])


def test_scores_are_grouped_by_length():
    predicted = FLAT.with_entities([Entity(0, 1, "X"), Entity(1, 4, "X"), Entity(4, 7, "Y")])
    groups = scores_of(evaluate([FLAT], [predicted]))["by_length"]
    assert {name: (group["f1"], group["support"]) for name, group in groups.items()} == {
        "1": (1.0, 1),
        "2": (0.0, 1),
        "3": (pytest.approx(2 / 3), 1),  # a prediction counts at its own length
        "3+": (pytest.approx(2 / 3), 1),
        "6+": (0.0, 0),
    }


def test_summarise_gives_mean_and_deviation_of_each_number():
    rows = [{"f1": 0.70, "ece": None, "by": {"3+": 0.5}}, {"f1": 0.72, "ece": 0.1, "by": {"3+": 0.5}}]
    summary = summarise(rows)
    assert summary == {
        "f1": {"mean": 0.71, "deviation": 0.014142},
        "ece": None,
        "by": {"3+": {"mean": 0.5, "deviation": 0.0}},
    }
    assert percent(summary["f1"]) == "71.0 ± 1.4"
    assert percent(summarise([0.7])) == "70.0"


def test_draw_keeps_the_order_and_depends_on_the_seed():
    sentences = [Sentence([str(index)]) for index in range(50)]
    numbers = [[int(one.words[0]) for one in draw(sentences, 20, seed)] for seed in (1, 1, 2)]
    assert numbers[0] == numbers[1] != numbers[2]
    assert numbers[0] == sorted(set(numbers[0]))
    assert len(numbers[0]) == 20
    assert draw(sentences, 100, 1) == sentences


# Runs


def task(value: int, folder: Path) -> Task:
    """Append to the file of all runs; fail if the value is 3."""
    program = (
        f"import os, sys; open({str(folder / 'runs')!r}, 'a').write('{value}')\n"
        f"sys.exit('no') if {value} == 3 else print('hello')\n"
        'print(\'{"f1": 0.5, "cpu_seconds": 1, "threads": "%s"}\' % os.environ[\'OMP_NUM_THREADS\'])'
    )
    return Task(f"run {value}", {"value": value, "settings": ["a=1"]}, ["-c", program])


def test_finished_runs_are_not_repeated(tmp_path, capsys):
    runs, out = tmp_path / "runs", tmp_path / "results" / "runs.jsonl"
    lines, failed = run_tasks([task(1, tmp_path), task(3, tmp_path)], out, jobs=2)
    line = {"value": 1, "settings": ["a=1"], "f1": 0.5, "cpu_seconds": 1, "threads": "1"}
    assert (lines, failed) == ([line], ["run 3"])
    assert "run 3 failed with code 1: no" in capsys.readouterr().err
    assert [json.loads(one) for one in out.read_text().splitlines()] == lines

    lines, failed = run_tasks([task(2, tmp_path), task(1, tmp_path)], out, jobs=1)
    assert [line["value"] for line in lines] == [2, 1]
    assert sorted(runs.read_text()) == ["1", "2", "3"]

    run_tasks([task(1, tmp_path)], out, jobs=1, again=True)
    assert sorted(runs.read_text()) == ["1", "1", "2", "3"]
    assert len(out.read_text().splitlines()) == 3


def test_run_with_other_settings_is_not_skipped(tmp_path):
    out = tmp_path / "runs.jsonl"
    run_tasks([task(1, tmp_path)], out, jobs=1)
    same = task(1, tmp_path)
    other = Task(same.name, {**same.key, "settings": ["a=2"]}, same.arguments)
    run_tasks([other], out, jobs=1)
    assert (tmp_path / "runs").read_text() == "11"


def test_since_reuses_runs_from_that_commit_on(tmp_path, monkeypatch):
    answers = {"rev-list": "new\nnewer\n", "rev-parse": "old\n"}
    monkeypatch.setattr(common, "_git", lambda command, *_: answers[command])
    out = tmp_path / "runs.jsonl"
    same = task(1, tmp_path)

    def of(commit: str) -> Task:
        return Task(same.name, {**same.key, "commit": commit}, same.arguments)

    for commit in ("older", "old"):
        run_tasks([of(commit)], out, jobs=1)
    lines, _ = run_tasks([of("newer")], out, jobs=1, since="old")
    assert [line["commit"] for line in lines] == ["old"]
    run_tasks([of("newer")], out, jobs=1)
    assert (tmp_path / "runs").read_text() == "111"


def test_code_version_depends_on_uncommitted_changes(monkeypatch):
    answers = {"log": "abc\n", "diff": ""}
    monkeypatch.setattr(common, "_git", lambda command, *_: answers[command])
    assert common.code_version() == "abc"
    answers["diff"] = "+ a line"
    version = common.code_version()
    assert version.startswith("abc+")
    answers["diff"] = "+ another line"
    assert common.code_version() not in ("abc", version)


# quality


def options(**changes: object) -> SimpleNamespace:
    return SimpleNamespace(**{"changes": [], "dev_share": None, "sentences": None, **changes})


def test_every_goal_has_a_run_with_valid_settings():
    runs = {str(run): run for run in quality.ALL}
    assert len(runs) == len(quality.ALL)
    assert {name for name in runs if name.startswith("genia:")} == {
        *(f"genia:{method}" for method in quality.METHODS),
        "genia:boundary-smoothing:bge-small-en-v1.5",
    }
    assert {f"wnut17:{method}" for method in quality.METHODS} < runs.keys()
    assert {f"{corpus}:boundary-smoothing" for corpus in ("gum", "weibo", "resume")} < runs.keys()
    assert runs["weibo:boundary-smoothing"].encoder == quality.MULTILINGUAL
    epochs = {name: run.settings for name, run in runs.items()}
    assert epochs["genia:boundary-offset"] == ["training.epochs=12"]
    assert epochs["genia:diffusion"] == ["training.epochs=20"]
    assert set(quality.METHODS) <= set(METHODS)
    for run in quality.ALL:
        Config.compose(changes=[f"method.name={run.method}", *run.settings])


def test_arguments_of_a_run_are_parsed_to_the_same_key(monkeypatch):
    """A process does exactly the run for which it was started."""
    arguments = options(changes=["training.epochs=1", "training.warmup=0.1"], dev_share=0.1, sentences=24)
    run = quality.Run("genia", "diffusion", "bge-small-en-v1.5")
    key = quality.key_of(run, 2, arguments)
    assert key["settings"] == ["training.epochs=20", "training.epochs=1", "training.warmup=0.1"]
    keys = []
    monkeypatch.setattr(quality, "corpora", lambda: Path())
    monkeypatch.setattr(
        quality, "do_one", lambda run, arguments: keys.append(quality.key_of(run, arguments.seed, arguments))
    )
    monkeypatch.setattr(sys, "argv", ["quality", *quality.arguments_of(run, 2, arguments)[2:]])
    quality.main()
    assert keys == [key]


def test_runs_without_their_encoder_are_skipped(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("FENCEPOST_ENCODERS", str(tmp_path))
    run = quality.Run("weibo", "boundary-smoothing", quality.MULTILINGUAL)
    arguments = options(seeds=1, jobs=1, again=False, since=None, out=tmp_path / "runs.jsonl")
    quality.do_all([run], arguments)
    result = json.loads(capsys.readouterr().out)
    assert (result["runs"], result["skipped"]) == ({}, ["weibo:boundary-smoothing"])


# learning_curve


def test_auto_is_compared_with_the_best_number_of_epochs():
    figures = {"12": [0.1, 0.2], "40": [0.5, 0.6], "100": [0.5, 0.5], "auto": [0.5, 0.58]}
    lines = [{"epochs": epochs, "f1": f1} for epochs, of_seeds in figures.items() for f1 in of_seeds]
    comparison = learning_curve.compare(lines)
    assert (comparison["best"], comparison["auto_minus_best"]) == ("40", -0.01)
    assert learning_curve.compare(lines[:6])["auto_minus_best"] is None
    assert learning_curve.compare([])["best"] is None


def test_is_accepted_checks_the_number_of_epochs():
    assert learning_curve.is_accepted("12")
    assert not learning_curve.is_accepted("many")


def test_thresholds_of_candidates_are_compared_on_other_documents(tmp_path, monkeypatch, capsys):
    """The rule `half` is that of training."""
    rng = np.random.default_rng(0)
    gold, candidates = [], []
    for number in range(120):
        words, doc = list("abcdefgh"), f"GUM_{'news' if number < 60 else 'bio'}_{number // 10}"
        chances = rng.random(8)
        spans = [Entity(at, at + 1, "X", float(chance)) for at, chance in enumerate(chances)]
        own = [span for span in spans if rng.random() < span.score]
        gold.append(Sentence(words, [Entity(*span.key) for span in own], doc=doc))
        candidates.append(Sentence(words, spans, doc=doc))
    for part, sentences in (("gold", gold), ("candidates", candidates)):
        write(sentences, tmp_path / f"gum-1-{part}.jsonl")
    scored = thresholds.Scored.load(tmp_path, "gum-1")
    everything = scored.take(np.ones(120, dtype=bool))
    assert thresholds.fit_half(*everything) == pytest.approx(fit_threshold(match(gold, candidates)))
    chosen = thresholds.draw(scored.document, 25, np.random.default_rng(0))
    assert chosen.sum() == 30  # three documents of ten sentences
    out = tmp_path / "thresholds.json"
    monkeypatch.setattr(sys, "argv", ["thresholds", str(tmp_path), "--draws", "5", "--out", str(out)])
    thresholds.main()
    result = json.loads(capsys.readouterr().out.splitlines()[-1])["results"]
    assert [row["size"] for row in result] == ["50", "genres"]
    for row in result:
        assert row["seeds"] == 1
        assert row["f1"]["half"] == pytest.approx(3 - 5**0.5, abs=0.06)  # the best of uniform probabilities
    assert json.loads(out.read_text())["results"] == result
