"""The comparison with other tools: what they are given, how their output is scored, and the page."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities

from benchmarks.peers import __main__ as peers
from benchmarks.peers.page import PAGE, compare_seqeval, count_lines, make_page, name_losses
from benchmarks.peers.tools import REQUIREMENTS, TOOLS, Tool
from benchmarks.peers.workers.frame import Row, get_tags, join_tags
from fencepost import Entity, Sentence

TAGS = ["O", "B-a", "I-a", "B-b", "I-b"]


def make_line(tool: str, f1: float, **others: Any) -> dict[str, Any]:
    line = {
        "corpus": "wnut17",
        "tool": tool,
        "seed": 1,
        "epochs": 8,
        "batch_size": 16,
        "precision": f1,
        "recall": f1,
        "f1": f1,
        "ece": 0.1,
        "seqeval_f1": f1,
        "peak_mb": 1000,
        "by_length": {"3+": {"f1": f1}},
        "counts": {"train": 1000, "dev": 400, "test": 100},
        "training": {"seconds": 60.0, "cpu_seconds": 60.0},
        "prediction": {"seconds": 1.0, "cpu_seconds": 1.0},
        "installed_mb": 900,
    }
    return {**line, **others}


def test_without_corpora_it_is_skipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(peers, "corpora", lambda: None)
    monkeypatch.setattr("sys.argv", ["peers"])
    peers.main()
    assert json.loads(capsys.readouterr().out)["skipped"] == "no corpora"


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_each_tool_has_a_program_and_pinned_requirements(tool: Tool) -> None:
    assert (Path(peers.__file__).parent / "workers" / f"{tool.worker}.py").is_file()
    lines = (REQUIREMENTS / f"{tool.environment}.txt").read_text().split("\n")
    pinned = lines[0].startswith("-c ") or all("==" in line for line in lines if line)
    assert pinned
    assert any(line.startswith("torch==2.13.0") for line in lines) or lines[0].startswith("-c ")


def test_outermost_entities_of_nested_ones() -> None:
    entities = [Entity(0, 2, "a"), Entity(0, 5, "b"), Entity(4, 7, "a"), Entity(5, 6, "b"), Entity(8, 9, "a")]
    assert peers.keep_outermost(entities) == [Entity(0, 5, "b"), Entity(5, 6, "b"), Entity(8, 9, "a")]


def test_flat_tools_get_flat_data(tmp_path: Path) -> None:
    sentence = Sentence(["x"] * 4, [Entity(0, 3, "a"), Entity(1, 2, "b")])
    path = tmp_path / "train.jsonl"
    for name, count in (("token-classification", 1), ("spancat", 2)):
        peers.write_part(path, [sentence], TOOLS[name])
        assert len(json.loads(path.read_text())["entities"]) == count


def test_spans_are_as_long_as_almost_all_training_entities() -> None:
    sentences = [Sentence(["x"] * 9, [Entity(0, 2, "a")])] * 99 + [
        Sentence(["x"] * 9, [Entity(0, 9, "a")])
    ] * 3
    assert peers.make_options(TOOLS["span-marker"], sentences)["longest"] == 9
    assert peers.make_options(TOOLS["span-marker"], sentences[:99])["longest"] == 2
    assert "longest" not in peers.make_options(TOOLS["fencepost"], sentences)


def test_predictions_with_equal_entities_and_scores_beyond_one(tmp_path: Path) -> None:
    path = tmp_path / "predicted.jsonl"
    path.write_text('[[0, 1, "a", 1.0000002], [0, 1, "a", 0.4], [1, 2, "b", 0.5]]\n[]\n')
    first, second = peers.read_predictions(path, [Sentence(["x", "y"]), Sentence(["z"])])
    assert [(entity.start, entity.type, entity.score) for entity in first.entities] == [
        (0, "a", 1.0),
        (1, "b", 0.5),
    ]
    assert not second.entities


@given(st.lists(st.sampled_from(TAGS), min_size=1, max_size=12))
def test_tags_become_entities_as_in_seqeval(tags: list[str]) -> None:
    expected = {(start, end + 1, type_) for type_, start, end in get_entities(tags)}
    entities = join_tags(range(len(tags)), tags, [0.5] * len(tags))
    assert {entity[:3] for entity in entities} == expected


@given(st.sets(st.integers(0, 9)), st.data())
def test_entities_survive_tags(starts: set[int], data: st.DataObject) -> None:
    ordered = [*sorted(starts), 10]
    entities = [
        (start, data.draw(st.integers(start + 1, following)), data.draw(st.sampled_from("ab")))
        for start, following in itertools.pairwise(ordered)
    ]
    tags = get_tags(Row(["x"] * 10, entities))
    assert [entity[:3] for entity in join_tags(range(10), tags, [1.0] * 10)] == entities


def test_seqeval_agrees_on_flat_entities() -> None:
    gold = [Sentence(["x"] * 5, [Entity(0, 2, "a"), Entity(3, 4, "b")])]
    predicted = [Sentence(["x"] * 5, [Entity(0, 2, "a"), Entity(3, 5, "b")])]
    assert peers.score_with_seqeval(gold, predicted) == 0.5


def test_the_page_names_what_others_do_better() -> None:
    lines = [make_line("fencepost", 0.5), make_line("fencepost", 0.6), make_line("spancat", 0.7)]
    page = make_page(lines)
    assert "| Fencepost, boundary smoothing | 2 | 55.0 ± 7.1 | 55.0 ± 7.1 | 55.0 ± 7.1 |" in page
    assert "Better than Fencepost in this table: spaCy `spancat`: precision, recall, F1" in page
    assert "No tool has a better figure" in make_page([make_line("fencepost", 0.8), lines[2]])
    assert name_losses({}) == ""


def test_seqeval_is_compared_where_it_can_score() -> None:
    text = compare_seqeval([make_line("fencepost", 0.5), make_line("spancat", 0.5, seqeval_f1=0.48)])
    assert text is not None
    assert "2.00 points" in text
    assert compare_seqeval([make_line("fencepost", 0.5, seqeval_f1=None)]) is None


def test_lines_are_counted_without_comments(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text('"""Text."""\n\n# comment\ndef f(\n    x,\n):\n    """Text."""\n    return x\n')
    assert count_lines(path) == 2


def test_the_page_is_that_of_the_results() -> None:
    assert PAGE.read_text(encoding="utf-8") == make_page(peers.read_lines(peers.RESULT_FILE))
