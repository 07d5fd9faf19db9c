from __future__ import annotations

import json

import pytest

from fencepost.data import read

CROSSED = (
    '{"words": ["a", "b", "c"], "entities": [{"start": 0, "end": 2, "type": "X", "score": 0.2}, '
    '{"start": 1, "end": 3, "type": "Y", "score": 0.9}]}\n'
)


@pytest.mark.parametrize("name", ["out.jsonl", "out.json", "out.xml", "out.spacy"])
def test_converted_corpus_is_read_back(run, tmp_path, name):
    result = run("convert", "sample:test", tmp_path / name)
    assert "150 sentences with 516 entities" in result.stderr
    back = list(read(tmp_path / name))
    assert [(s.words, s.entities, s.doc) for s in back] == [
        (s.words, s.entities, s.doc) for s in read("sample:test")
    ]


def test_converts_standard_input_to_standard_output(run):
    lines = run("convert", "sample:dev", "-").stdout
    again = run("convert", "-", "-", "--to", "jsonl", stdin=lines).stdout
    assert again == lines
    assert len(lines.splitlines()) == 150


def test_overlaps_are_refused_or_resolved(run, tmp_path):
    corpus, out = tmp_path / "in.jsonl", tmp_path / "out.conll"
    corpus.write_text(CROSSED)
    refused = run("convert", corpus, out, code=1)
    assert "1 sentence has overlapping or nested entities" in refused.stderr
    assert not out.exists()
    result = run("convert", corpus, out, "--overlaps", "best")
    assert out.read_text() == "a\tO\nb\tB-Y\nc\tI-Y\n\n"
    assert "1 overlapping entities were dropped" in result.stderr
    assert "score (1)" in result.stderr


def test_json_has_counts_and_lost_fields(run, tmp_path):
    out, account = tmp_path / "out.conll", tmp_path / "account.json"
    run("convert", "sample:test", out, "--overlaps", "outermost", "--json", account)
    figures = json.loads(account.read_text())
    assert (figures["format"], figures["sentences"], figures["entities_dropped"]) == ("conll", 150, 165)
    assert figures["parts_lost"] == {"doc": 150, "id": 150, "space_after": 150}


def test_writes_each_tag_scheme(run, tmp_path):
    corpus, out = tmp_path / "in.jsonl", tmp_path / "out.conll"
    corpus.write_text('{"words": ["a", "b", "c"], "entities": [{"start": 0, "end": 3, "type": "X"}]}\n')
    for scheme, tags in (("bmes", "B-X M-X E-X"), ("bioes", "B-X I-X E-X"), ("iob1", "I-X I-X I-X")):
        run("convert", corpus, out, "--to-scheme", scheme)
        assert [line.split("\t")[1] for line in out.read_text().split("\n") if line] == tags.split()


def test_renames_and_selects_types(run, tmp_path):
    corpus = tmp_path / "in.jsonl"
    corpus.write_text(
        '{"words": ["a", "b"], "entities": [{"start": 0, "end": 1, "type": "DNA_part"}, '
        '{"start": 0, "end": 1, "type": "DNA_family"}, {"start": 1, "end": 2, "type": "other"}]}\n'
    )
    result = run("convert", corpus, "-", "--rename", "DNA_*=DNA", "--types", "DNA,RNA")
    assert json.loads(result.stdout)["entities"] == [{"start": 0, "end": 1, "type": "DNA"}]
    assert "OLD=NEW" in run("convert", corpus, "-", "--rename", "DNA", code=2).stderr


def test_skipped_sentences_are_written_beside_the_output(run, tmp_path):
    corpus, out = tmp_path / "in.jsonl", tmp_path / "out.conll"
    good = '{"words": ["a"], "entities": []}\n'
    corpus.write_text(good + "{broken\n" + good + '{"words": [""], "entities": []}\n')
    result = run("convert", corpus, out, "--skip-invalid", "--json")
    account = json.loads(result.stdout)
    assert (account["sentences"], account["invalid"], account["left_out"]) == (2, 1, 1)
    assert "skipped: 1 invalid sentences and 1 that conll cannot represent" in result.stderr
    rejected = [json.loads(line) for line in (tmp_path / "out.conll.rejected.jsonl").read_text().splitlines()]
    assert [(one["source"], one["line"]) for one in rejected] == [(str(corpus), 2), (str(corpus), 4)]
    assert rejected[0]["raw"] == "{broken"
    assert "not JSON" in rejected[0]["reason"]
    assert "conll cannot represent a word that is empty" in rejected[1]["reason"]


def test_rejected_file_can_be_named_and_is_created_only_if_needed(run, tmp_path):
    corpus = tmp_path / "in.jsonl"
    corpus.write_text('{"words": ["a"], "entities": []}\n')
    run("convert", corpus, tmp_path / "out.jsonl", "--skip-invalid")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "out.jsonl"]
    corpus.write_text("oops\n")
    run(
        "convert",
        corpus,
        tmp_path / "out.jsonl",
        "--format",
        "jsonl",
        "--skip-invalid",
        "--rejected",
        tmp_path / "r",
    )
    assert (tmp_path / "r").read_text().count("\n") == 1
    assert "needs --skip-invalid" in run("convert", corpus, "-", "--rejected", "r", code=2).stderr


def test_corpus_can_replace_itself(run, tmp_path):
    corpus = tmp_path / "in.jsonl"
    corpus.write_text(CROSSED * 3)
    run("convert", corpus, corpus, "--types", "Y")
    assert [len(s.entities) for s in read(corpus)] == [1, 1, 1]


def test_refuses_two_outputs_on_standard_output(run):
    assert "cannot both" in run("convert", "sample:dev", "-", "--json", code=2).stderr


def test_skipped_sentences_never_overwrite_a_corpus(run, tmp_path):
    corpus, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    corpus.write_text("oops\n" + CROSSED)
    for path in (corpus, out):
        options = ("--format", "jsonl", "--skip-invalid", "--rejected", path)
        assert "cannot go into the corpus" in run("convert", corpus, out, *options, code=2).stderr
    assert corpus.read_text() == "oops\n" + CROSSED


def test_removes_skipped_sentences_of_an_earlier_run(run, tmp_path):
    corpus, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    stale = tmp_path / "out.jsonl.rejected.jsonl"
    corpus.write_text(CROSSED + "oops\n")
    run("convert", corpus, out, "--skip-invalid")
    assert stale.exists()
    corpus.write_text(CROSSED)
    run("convert", corpus, out, "--skip-invalid")
    assert not stale.exists()


def test_skipped_sentences_keep_their_entities(run, tmp_path):
    corpus, out = tmp_path / "in.jsonl", tmp_path / "out.conll"
    corpus.write_text(CROSSED + '{"words": ["a"], "entities": []}\n')
    assert "skipped: 0 invalid sentences and 1 that" in run("convert", corpus, out, "--skip-invalid").stderr
    [rejected] = map(json.loads, (tmp_path / "out.conll.rejected.jsonl").read_text().splitlines())
    assert rejected["reason"] == "conll cannot represent overlapping or nested entities"
    assert json.loads(rejected["raw"]) == json.loads(CROSSED)


def test_reports_removed_and_unused_types(run, tmp_path):
    result = run(
        "convert", "sample:test", tmp_path / "x.jsonl", "--types", "person, persn", "--rename", "a=b"
    )
    assert "sentences with 144 entities" in result.stderr
    assert "372 entities of other types were removed" in result.stderr
    assert "these options match no entity: a=b, persn" in result.stderr
    assert (
        "give names separated by commas" in run("convert", "sample:test", "-", "--types", "", code=2).stderr
    )


def test_reads_a_corpus_named_like_a_rejected_file(run, tmp_path):
    corpus, out = tmp_path / "out.jsonl.rejected.jsonl", tmp_path / "out.jsonl"
    corpus.write_text(CROSSED)
    run("convert", corpus, out)
    assert corpus.exists()
    assert len(list(read(out))) == 1


def test_old_line_ends_keep_all_words_and_entities(run, tmp_path):
    (tmp_path / "in.conll").write_bytes(b"Ada B-PER\rLovelace I-PER\r\rRome B-LOC\r")
    run("convert", tmp_path / "in.conll", tmp_path / "out.conll")
    assert (tmp_path / "out.conll").read_text() == "Ada\tB-PER\nLovelace\tI-PER\n\nRome\tB-LOC\n\n"


PRODIGY = "".join(
    json.dumps({"text": "Ada", "spans": [{"start": 0, "end": 3, "label": "PER"}], "answer": answer}) + "\n"
    for answer in ("accept", "reject", "reject", "ignore")
)


def test_rejected_records_are_counted_or_kept(run, tmp_path):
    corpus, out = tmp_path / "in.jsonl", tmp_path / "out.conll"
    corpus.write_text(PRODIGY)
    result = run("convert", corpus, out, "--json")
    assert (
        "in.jsonl:2: record with answer 'reject' skipped; use --keep-rejected to read it (2 times"
        in result.stderr
    )
    account = json.loads(result.stdout)
    assert account["sentences"] == 1
    assert [(note["kind"].split(";")[0], note["count"]) for note in account["notes"]] == [
        ("record with answer 'reject' skipped", 2),
        ("record with answer 'ignore' skipped", 1),
    ]
    inspected = run("inspect", corpus, "--json")
    assert "record with answer 'ignore' skipped" in inspected.stderr
    assert [note["count"] for note in json.loads(inspected.stdout)["corpora"][0]["notes"]] == [2, 1]
    assert "4 sentences with 4 entities" in run("convert", corpus, out, "--keep-rejected").stderr


def test_reading_options_report_rejected_records(tmp_path, capsys):
    from fencepost.cli.options import ReadingOptions

    (tmp_path / "in.jsonl").write_text(PRODIGY)
    assert len(ReadingOptions().read(str(tmp_path / "in.jsonl"))) == 1
    assert "record with answer 'reject' skipped" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["loop", "out.jsonl"],
        ["loop", "out.jsonl", "--skip-invalid"],
        ["in.jsonl", "loop", "--to", "jsonl"],
        ["in.jsonl", "loop", "--to", "jsonl", "--skip-invalid"],
        ["in.jsonl", "loop", "--to", "brat"],
        ["in.jsonl", "loop/out.jsonl"],
        ["in.jsonl", "out.jsonl", "--skip-invalid", "--rejected", "loop"],
        ["in.jsonl", "out.jsonl", "--json", "loop.json"],
    ],
)
def test_refuses_circular_links(run, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    for name in ("loop", "loop.json"):
        (tmp_path / name).symlink_to(name)
    (tmp_path / "in.jsonl").write_text('{"words": ["a"], "entities": []}\n')
    assert "symbolic links" in run("convert", *arguments, code=2).stderr
