"""Rounds of `benchmarks.suggest` and the comparison of their results, without training."""

from __future__ import annotations

import argparse
import json

from benchmarks.suggest import START, compare, find_before, list_tasks

SIZES = [100, 200, 300]


def line(strategy: str, size: int, f1: float, seed: int = 1, corpus: str = "genia") -> dict:
    following = {"uncertainty": [7], "random": [8]} if strategy == START else {strategy: [9]}
    key = {"corpus": corpus, "seed": seed, "strategy": strategy, "sentences": size}
    return {**key, "f1": f1, "words": 20 * size, "chosen": [1, 2], "next": following}


def test_compare_counts_sentences_needed_for_the_f1_of_random(capsys):
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


def test_round_trains_on_the_sentences_chosen_before(tmp_path):
    arguments = argparse.Namespace(
        corpora=["genia"], seeds=2, strategies=["uncertainty", "random"], changes=["training.batch_size=8"],
        sizes=SIZES, random_sizes=[300, 400], reads=4000, pool=900, scored=50,
    )  # fmt: skip

    def list_rounds(size: int, before: list[dict]) -> list[tuple]:
        tasks = list_tasks(arguments, size, before, tmp_path)
        rounds = [json.loads((tmp_path / task.arguments[-1]).read_text()) for task in tasks]
        assert [one["key"] for one in rounds] == [task.key for task in tasks]
        return [
            (one["key"]["seed"], one["key"]["strategy"], one["chosen"], one["key"].get("next_size"))
            for one in rounds
        ]

    assert list_rounds(100, []) == [(1, START, [], 200), (2, START, [], 200)]
    before = [line(START, 100, 0.4, seed=2)]  # seed 1 has failed
    assert list_rounds(200, before) == [(2, "uncertainty", [1, 2, 7], 300)]
    before.append({**line("uncertainty", 200, 0.5, seed=2), "chosen": [1, 2, 7]})
    assert list_rounds(300, before) == [
        (1, "random", [], None),  # needs no round before it
        (2, "uncertainty", [1, 2, 7, 9], None),
        (2, "random", [], None),
    ]
    assert [one[1] for one in list_rounds(400, before)] == ["random", "random"]
    settings = {size: list_tasks(arguments, size, before, tmp_path)[0].key["settings"] for size in (100, 300)}
    assert settings == {
        100: ["training.batch_size=8", "training.epochs=40"],
        300: ["training.batch_size=8", "training.epochs=14"],
    }
    assert find_before(before, {"corpus": "gum", "seed": 2, "strategy": "uncertainty"}, 100) is None
