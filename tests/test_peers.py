"""The comparison with other tools: their data, the scores of their output, and the page."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities

from benchmarks.common import keep_outermost, keep_outermost_names
from benchmarks.peers import __main__ as peers
from benchmarks.peers import page
from benchmarks.peers.page import PAGE, compare_seqeval, count_lines, make_page, name_losses
from benchmarks.peers.tools import REQUIREMENTS, TOOLS, Tool
from benchmarks.peers.workers.frame import Row, Task, get_tags, join_tags
from fencepost import Entity, Sentence
from tests.encoder import tiny
from tests.runtime.models import save_bert

TAGS = ["O", "B-a", "I-a", "B-b", "I-b"]


def make_line(tool: str, f1: float, **others: Any) -> dict[str, Any]:
    line = {
        "corpus": "wnut17",
        "tool": tool,
        "seed": 1,
        "epochs": 8,
        "learning_rate": 1e-4,
        "sentences": 1000,
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
        "commit": "0123456789",
    }
    return {**line, **others}


def test_comparison_is_skipped_without_corpora(
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


def test_outermost_names_are_kept() -> None:
    def make_entity(start: int, end: int, *, named: bool = True) -> Entity:
        return Entity(start, end, "X", meta={"named": named})

    sentence = Sentence(
        list("abcdefgh"),
        [make_entity(0, 8, named=False), *(make_entity(*span) for span in ((1, 4), (1, 2), (3, 5), (5, 6)))],
    )
    assert [one.span for one in keep_outermost_names(sentence).entities] == [(1, 4), (5, 6)]


def test_outermost_entities_are_kept() -> None:
    entities = [Entity(0, 2, "a"), Entity(0, 5, "b"), Entity(4, 7, "a"), Entity(5, 6, "b"), Entity(8, 9, "a")]
    assert keep_outermost(entities) == [Entity(0, 5, "b"), Entity(5, 6, "b"), Entity(8, 9, "a")]


def test_flat_tools_get_flat_data(tmp_path: Path) -> None:
    sentence = Sentence(["x"] * 4, [Entity(0, 3, "a"), Entity(1, 2, "b")])
    path = tmp_path / "train.jsonl"
    for name, count in (("token-classification", 1), ("spancat", 2)):
        peers.write_part(path, [sentence], TOOLS[name])
        assert len(json.loads(path.read_text())["entities"]) == count


def test_longest_span_covers_almost_all_training_entities() -> None:
    sentences = [Sentence(["x"] * 9, [Entity(0, 2, "a")])] * 99 + [
        Sentence(["x"] * 9, [Entity(0, 9, "a")])
    ] * 3
    assert peers.make_options(TOOLS["span-marker"], sentences)["longest"] == 9
    assert peers.make_options(TOOLS["span-marker"], sentences[:99])["longest"] == 2
    assert "longest" not in peers.make_options(TOOLS["fencepost"], sentences)


def test_predictions_are_deduplicated_and_scores_are_at_most_1(tmp_path: Path) -> None:
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
def test_entities_are_read_back_from_tags(starts: set[int], data: st.DataObject) -> None:
    ordered = [*sorted(starts), 10]
    entities = [
        (start, data.draw(st.integers(start + 1, following)), data.draw(st.sampled_from("ab")))
        for start, following in itertools.pairwise(ordered)
    ]
    tags = get_tags(Row(["x"] * 10, entities))
    assert [entity[:3] for entity in join_tags(range(10), tags, [1.0] * 10)] == entities


def test_seqeval_requires_exact_boundaries() -> None:
    gold = [Sentence(["x"] * 5, [Entity(0, 2, "a"), Entity(3, 4, "b")])]
    predicted = [Sentence(["x"] * 5, [Entity(0, 2, "a"), Entity(3, 5, "b")])]
    assert peers.score_with_seqeval(gold, predicted) == 0.5


def test_page_names_metrics_where_others_are_better() -> None:
    lines = [make_line("fencepost", 0.5), make_line("fencepost", 0.6), make_line("spancat", 0.7)]
    page = make_page(lines)
    assert "| Fencepost, boundary smoothing | 2 | 55.0 ± 7.1 | 55.0 ± 7.1 | 55.0 ± 7.1 |" in page
    assert "Better than Fencepost in this table: spaCy `spancat`: precision, recall, F1" in page
    assert "No tool has a better figure" in make_page([make_line("fencepost", 0.8), lines[2]])
    assert name_losses({}) == ""
    assert "| 1,000 | `0123456` |" in page
    assert "**biaffine spans" in page
    assert "SpanMarker" in page.split("## Not measured here")[1].split("the script can run them")[0]


def test_seqeval_is_compared_only_if_it_has_scores() -> None:
    text = compare_seqeval([make_line("fencepost", 0.5), make_line("spancat", 0.5, seqeval_f1=0.48)])
    assert text is not None
    assert "2.00 points" in text
    assert compare_seqeval([make_line("fencepost", 0.5, seqeval_f1=None)]) is None


def test_count_lines_ignores_comments_and_docstrings(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text('"""Text."""\n\n# comment\ndef f(\n    x,\n):\n    """Text."""\n    return x\n')
    assert count_lines(path) == 2


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == make_page(peers.read_lines(peers.RESULT_FILE))


def test_token_classification_predicts_its_training_entities(tmp_path: Path) -> None:
    """The words have several sub-words, one or none."""
    from benchmarks.peers.workers import token_classification

    words = ["The", "University", "of", "Toronto", "\u200b", "met", "Ada", "Lovelace", "in", "London"]
    entities = [Entity(1, 4, "ORG"), Entity(6, 8, "PER"), Entity(9, 10, "LOC")]
    sentences = [
        Sentence(words, entities),
        Sentence(words[4:8], [Entity(2, 4, "PER")]),
        Sentence(["in", "of"]),
    ]
    for part in ("train", "dev"):
        peers.write_part(tmp_path / f"{part}.jsonl", sentences, TOOLS["token-classification"])
    encoder = save_bert(
        tmp_path / "encoder", hidden_size=32, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    task = Task(tmp_path, str(encoder), epochs=60, batch_size=2, learning_rate=1e-2, seed=1, options={})
    predict = token_classification.train(task)
    predicted = predict([list(sentence.words) for sentence in sentences])
    assert [[mark[:3] for mark in of_sentence] for of_sentence in predicted] == [
        [(entity.start, entity.end, entity.type) for entity in sentence.entities] for sentence in sentences
    ]
    assert all(0.2 < score <= 1 for of_sentence in predicted for *_, score in of_sentence)


@pytest.mark.slow
def test_tools_are_trained_and_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command line runs on a corpus of a few sentences; finished runs are not repeated."""
    data, out = tmp_path / "data", tmp_path / "peers.jsonl"
    encoder = save_bert(tmp_path / "encoder")
    (data / "wnut17").mkdir(parents=True)
    tags = ["O", "B-ORG", "I-ORG", "I-ORG"]
    rows = "".join(f"{word}\t{tag}\n" for word, tag in zip(tiny.WORDS[:4], tags, strict=True))
    for part in ("train", "dev", "test"):
        (data / "wnut17" / f"{part}.conll").write_text(3 * f"{rows}\n")
    monkeypatch.setenv("FENCEPOST_DATA", str(data))
    monkeypatch.setattr(peers, "find_encoder_folder", lambda _: str(encoder))
    monkeypatch.setattr(peers, "get_python", lambda *_: sys.executable)
    monkeypatch.setattr(peers, "make_environment", lambda *_: None)
    monkeypatch.setattr(peers, "measure_size", lambda _: 900)
    options = ["--corpora", "wnut17", "--seeds", "1", "--epochs", "1", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["peers", *options, "--tools", "fencepost", "token-classification"])
    for runs in (2, 0):
        peers.main()
        result = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert (result["runs"], result["failed"]) == (runs, [])
    lines = peers.read_lines(out)
    assert {line["tool"] for line in lines} == {"fencepost", "token-classification"}
    for line in lines:
        assert line["by_length"]["3"]["support"] == 3
        assert line["seqeval_f1"] == pytest.approx(line["f1"])
        assert line["prediction"]["cpu_seconds"] > 0


def test_failed_tool_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(peers, "get_python", lambda *_: sys.executable)
    tool = Tool("A tool", "without_a_program", nested=True)
    assert peers.start_worker(tool, {}, tmp_path) is None
    assert "A tool failed with code 1" in capsys.readouterr().err


def test_times_of_another_day_are_left_out() -> None:
    line = {"training": {"cpu_seconds": 120}, "prediction": {"cpu_seconds": 2}, "counts": {"test": 10}}
    assert page.measure_speed({**line, "date": "2026-01-02"}, "2026-01-02") == {"minutes": 2, "rate": 5}
    for other in (line, {**line, "date": "2026-01-01"}):
        assert page.measure_speed(other, "2026-01-02") == {"minutes": None, "rate": None}
    assert (page.format_mean(None), page.format_mean({"mean": 2.25}, 1)) == ("", "2.2")
