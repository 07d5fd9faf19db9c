"""What `benchmarks.suggest` makes of its rounds, without training any."""

from __future__ import annotations

import argparse
import json

from benchmarks.suggest import START, compare, find_before, list_tasks

SIZES = [100, 200, 300]


def line(strategy: str, size: int, f1: float, seed: int = 1, corpus: str = "genia") -> dict:
    following = {"uncertainty": [7], "random": [8]} if strategy == START else {strategy: [9]}
    key = {"corpus": corpus, "seed": seed, "strategy": strategy, "sentences": size}
    return {**key, "f1": f1, "words": 20 * size, "chosen": [1, 2], "next": following}


def test_the_sentences_that_random_choice_would_need_are_counted(capsys):
    lines = [
        line(START, 100, 0.4),
        *(line("random", size, f1) for size, f1 in ((200, 0.5), (300, 0.6))),
        *(line("uncertainty", size, f1) for size, f1 in ((200, 0.62), (300, 0.7))),
        *(line("boundary", size, f1) for size, f1 in ((200, 0.5), (300, 0.55))),
    ]
    result = compare(lines, ["uncertainty", "boundary", "random"], SIZES)
    assert result["sentences_for_the_last_f1_of_random"] == {
        "uncertainty": 200,
        "boundary": None,
        "random": 300,
    }
    assert result["strategies"]["boundary"][100]["f1"]["mean"] == 0.4  # the start is shared
    assert "| 200       | 62.0" in capsys.readouterr().err


def test_a_round_trains_on_what_the_round_before_has_chosen(tmp_path):
    arguments = argparse.Namespace(
        corpora=["genia"], seeds=2, strategies=["uncertainty", "random"], changes=["training.epochs=1"],
        start=100, step=100, to=300, pool=900, scored=50,
    )  # fmt: skip
    first = list_tasks(arguments, 100, None, tmp_path)
    assert [(task.key["seed"], task.key["strategy"]) for task in first] == [(1, START), (2, START)]
    before = [line(START, 100, 0.4, seed=2)]  # seed 1 has failed
    second = list_tasks(arguments, 200, before, tmp_path)
    rounds = [json.loads((tmp_path / task.arguments[-1]).read_text()) for task in second]
    assert [(one["key"]["strategy"], one["chosen"]) for one in rounds] == [
        ("uncertainty", [1, 2, 7]),
        ("random", [1, 2, 8]),
    ]
    assert find_before(before, {"corpus": "gum", "seed": 2, "strategy": "random"}) is None
