from __future__ import annotations

import json

GOOD = '{"words": ["Bank", "of", "Norway"], "entities": [{"start": 0, "end": 3, "type": "ORG"}, %s]}\n'
NESTED = GOOD % '{"start": 2, "end": 3, "type": "GPE"}'
BROKEN = GOOD % '{"start": 2, "end": 4, "type": "GPE"}'


def test_json_has_statistics_of_each_corpus(run):
    result = json.loads(run("inspect", "sample:train", "sample:test", "--json").stdout)
    train, test = result["corpora"]
    assert (train["file"], train["format"]) == ("sample:train", "jsonl")
    assert (train["sentences"], test["sentences"]) == (900, 150)
    assert train["entities"] == sum(train["by_type"].values()) == sum(train["by_length"].values())
    assert train["depth"] >= 3


def test_writes_json_to_a_file_beside_the_table(run, tmp_path):
    result = run("inspect", "sample:dev", "--json", tmp_path / "figures.json")
    assert "inside another" in result.stdout
    assert json.loads((tmp_path / "figures.json").read_text())["corpora"][0]["documents"] == 25


def test_table_has_types_lengths_and_nesting(run, tmp_path):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(NESTED * 2)
    lines = [" ".join(line.split()) for line in run("inspect", corpus).stdout.splitlines()]
    assert "inside another 2 ( 50.0%)" in lines
    assert "depth of nesting 2" in lines
    assert "ORG 2 ( 50.0%)" in lines
    assert any(line.startswith("3 2 ( 50.0%) ━") for line in lines)


def test_examples_are_drawn(run, tmp_path):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(NESTED)
    text = run("inspect", corpus, "--examples", 1).stdout
    assert "Bank of Norway\n╰─ ORG ──────╯\n        ╰GPE─╯\n" in text


def test_skip_invalid_counts_and_reports(run, tmp_path):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(NESTED + BROKEN + NESTED)
    stopped = run("inspect", corpus, code=2)
    assert f"{corpus}:2: the entity GPE [2, 4) ends after" in stopped.stderr
    result = run("inspect", corpus, "--skip-invalid", "--json")
    assert f"{corpus}:2: skipped: the entity GPE" in result.stderr
    figures = json.loads(result.stdout)["corpora"][0]
    assert (figures["sentences"], figures["invalid"]) == (2, 1)


def test_only_the_first_skipped_sentences_are_shown(run, tmp_path):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(NESTED + BROKEN * 9)
    errors = run("inspect", corpus, "--skip-invalid").stderr
    assert errors.count("skipped: the entity") == 5
    assert f"{corpus}: skipped 4 more" in errors


def test_reads_standard_input(run):
    result = run("inspect", "-", "--json", stdin="Ada\tB-PER\nwrote\tO\n")
    assert json.loads(result.stdout)["corpora"][0]["format"] == "conll"


def test_reports_repaired_tags(run, tmp_path):
    corpus = tmp_path / "corpus.conll"
    corpus.write_text("Ada B-PER\nin O\n\nOslo I-LOC\nis O\n\nBo B-PER\n")
    assert f"{corpus}:4: sentence whose tags break the rules of iob2" in run("inspect", corpus).stderr
    assert "continues an entity" in run("inspect", corpus, "--scheme", "iob2", code=2).stderr


def test_markup_in_types_and_names_is_escaped(run, tmp_path):
    corpus = tmp_path / "[red]corpus.jsonl"
    corpus.write_text(
        '{"words": ["[b]", "x"], "entities": [{"start": 0, "end": 1, "type": "[bold]X\\u001b"}]}\n'
    )
    text = run("inspect", corpus, "--examples", 1).stdout
    assert "[bold]X\N{REPLACEMENT CHARACTER}" in text
    assert "[b] x" in text
    assert "[red]corpus.jsonl" in text


def test_messages_have_no_escape_sequences(run, tmp_path):
    (tmp_path / "a.txt").write_text("Ada")
    (tmp_path / "a.ann").write_text("R1\tred \x1b[31m\n")
    assert "R1\tred \\x1b[31m" in run("inspect", tmp_path).stderr
