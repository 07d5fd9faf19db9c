"""Writing: whole files or none, and no silent loss of what a format cannot represent."""

import json
import os
import stat

import pytest

from fencepost.data import FORMATS, RepresentationError, WriteOptions, read, write
from fencepost.data.entity import Entity, Sentence
from fencepost.errors import FencepostError, UsageError

FLAT = Sentence(["Ada", "of", "London"], [Entity(0, 1, "PER")])
NESTED = FLAT.with_entities([Entity(0, 3, "PER", 0.2), Entity(2, 3, "LOC", 0.9)])
CROSSING = FLAT.with_entities([Entity(0, 2, "A", 0.4), Entity(1, 3, "B", 0.6)])
TWO_TYPES = FLAT.with_entities([Entity(0, 1, "A"), Entity(0, 1, "B")])


def test_refused_sentences_are_counted_and_nothing_is_written(tmp_path):
    path = tmp_path / "out.conll"
    blank = Sentence(["a\tb"])
    with pytest.raises(RepresentationError) as caught:
        write([FLAT, NESTED, CROSSING, blank, TWO_TYPES], path)
    assert "conll cannot represent this corpus: 3 sentences have overlapping or nested entities" in str(
        caught.value
    )
    assert "1 sentence has a word that is empty or contains a tab or a line end" in str(caught.value)
    assert "--overlaps outermost, innermost or best (prefer= in Python)" in str(caught.value)
    assert "--skip-invalid (on_refused= in Python)" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["gpml", "conll2012"])
def test_bracket_formats_represent_nested_but_not_crossing_entities(tmp_path, name):
    assert write([NESTED, TWO_TYPES], tmp_path / "out", name).entities == 4
    with pytest.raises(RepresentationError, match="1 sentence has crossing entities"):
        write([NESTED, CROSSING], tmp_path / "out", name)


@pytest.mark.parametrize(
    ("prefer", "expected"),
    [
        ("outermost", [[(0, 3, "PER")], [(0, 2, "A")], [(0, 1, "A")]]),
        ("innermost", [[(2, 3, "LOC")], [(0, 2, "A")], [(0, 1, "A")]]),
        ("best", [[(2, 3, "LOC")], [(1, 3, "B")], [(0, 1, "A")]]),
    ],
)
def test_keeps_the_preferred_overlapping_entities(tmp_path, prefer, expected):
    path = tmp_path / "out.conll"
    counts = write([NESTED, CROSSING, TWO_TYPES], path, prefer=prefer)
    assert [[e.key for e in s.entities] for s in read(path)] == expected
    assert (counts.entities, counts.entities_dropped) == (3, 3)


def test_nested_formats_skip_only_crossing_entities(tmp_path):
    path = tmp_path / "out.xml"
    three = FLAT.with_entities([*NESTED.entities, Entity(1, 3, "B")])
    crossed = three.with_entities([*three.entities, Entity(0, 2, "A")])
    counts = write([three, crossed], path, prefer="outermost")
    assert counts.entities_dropped == 1
    assert [len(s.entities) for s in read(path)] == [3, 3]


def test_on_refused_gets_refused_sentences(tmp_path):
    refused = []
    bad = Sentence(["a\tb"], doc="x")
    counts = write(
        [FLAT, bad, FLAT], tmp_path / "x.conll", on_refused=lambda s, why: refused.append((s, why))
    )
    assert refused == [(bad, "conll cannot represent a word that is empty or contains a tab or a line end")]
    assert (counts.sentences, counts.left_out) == (2, 1)
    assert len(list(read(tmp_path / "x.conll"))) == 2


def test_counts_fields_that_cannot_be_represented(tmp_path):
    full = Sentence(
        ["a"],
        [Entity(0, 1, "X", 0.5, {"a": 1})],
        id="1",
        doc="d",
        left=["l"],
        right=["r"],
        pos=["N"],
        space_after=[True],
        meta={"k": 1},
    )
    lost = write([full, full, FLAT], tmp_path / "x.conll").parts_lost
    parts = ("id", "doc", "left", "right", "pos", "space_after", "meta", "score", "entity meta")
    assert lost == dict.fromkeys(parts, 2)
    assert not write([full, FLAT], tmp_path / "x.jsonl").parts_lost
    assert not write([full, FLAT], tmp_path / "x.spacy").parts_lost


def test_weibo_keeps_only_positions_of_meta(tmp_path):
    sentence = Sentence(["科"], meta={"positions": [3]})
    other = Sentence(["科"], meta={"positions": [3], "x": 1})
    assert not write([sentence], tmp_path / "x", "weibo").parts_lost
    assert write([other], tmp_path / "x", "weibo").parts_lost == {"meta": 1}


@pytest.mark.parametrize("positions", [[1, 2], ["0"], [-1], [True], 3])
def test_refuses_invalid_positions(tmp_path, positions):
    with pytest.raises(RepresentationError, match="positions that are not one integer for each character"):
        write([Sentence(["科"], meta={"positions": positions})], tmp_path / "x", "weibo")


@pytest.mark.parametrize("name", [name for name in FORMATS if name.startswith("jsonl")] + ["spacy"])
@pytest.mark.parametrize(
    "value", [float("nan"), {1: 2}, {"a": {None: 1}}, object(), "\ud800", {"\ud800": 1}, b"x", [10**5000]]
)
def test_refuses_meta_that_json_cannot_represent(tmp_path, name, value):
    with pytest.raises(RepresentationError, match="a value in meta that JSON cannot represent"):
        write([Sentence(["a"], meta={"x": value})], tmp_path / "out", name)


def test_refuses_meta_nested_too_deeply(tmp_path):
    value = []
    for _ in range(5000):
        value = [value]
    with pytest.raises(RepresentationError, match="JSON cannot represent"):
        write([Sentence(["a"], [Entity(0, 1, "X", 1.0, {"x": value})])], tmp_path / "out.jsonl")


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_refuses_lone_surrogates(tmp_path, name):
    obstacle = "a control character" if name == "gpml" else "half of a surrogate pair"
    with pytest.raises(RepresentationError, match=f"1 sentence has {obstacle}"):
        write([Sentence(["\ud800"])], tmp_path / "out", name)


@pytest.mark.parametrize(
    ("name", "sentence", "obstacle"),
    [
        ("conll", Sentence([]), "no words"),
        ("conll", Sentence(["-DOCSTART-"]), "a word that starts or ends a document"),
        ("conll", Sentence(["#begin document x"]), "a word that starts or ends a document"),
        (
            "conll",
            Sentence(["a"], [Entity(0, 1, "X ")]),
            "a type that contains a tab or a line end, or ends with",
        ),
        ("weibo", Sentence(["a1"]), "a word that cannot be separated from the position after it"),
        ("conll2012", Sentence(["a b"]), "a word that is empty or contains white space"),
        ("conll2012", Sentence(["a"], [Entity(0, 1, "(")]), "a type that contains a bracket"),
        ("conll2012", Sentence(["a"], pos=["-"]), "only parts of speech -, which means that there are none"),
        ("conll2012", Sentence(["a"], pos=[""]), "a part of speech that is empty"),
        ("conll2012", Sentence(["a"], doc="a\nb"), "a document name that contains a line end"),
        ("gpml", Sentence(["\x00"]), "a control character, which XML cannot represent"),
        ("gpml", Sentence(["a"], doc=" "), "a document with a blank name"),
        ("brat", Sentence(["a\u3000b"]), "a word that is empty or contains white space"),
        ("brat", Sentence(["a"], [Entity(0, 1, "a b")]), "a type that contains white space"),
        ("brat", Sentence([]), "no words"),
        ("spacy", Sentence([""]), "no words, or an empty word"),
        ("spacy", Sentence(["a"], pos=[""]), "an empty part of speech"),
        ("jsonl-text", Sentence([" a"]), "a word that is empty or has white space at its start or end"),
    ],
)
def test_names_the_obstacle_of_a_sentence(tmp_path, name, sentence, obstacle):
    with pytest.raises(RepresentationError, match=f"1 sentence has {obstacle}"):
        write([sentence], tmp_path / "out", name)


def test_json_files_are_arrays_by_name_or_by_option(tmp_path):
    for name in ("x.json", "x.JSON"):
        write([FLAT, FLAT], tmp_path / name)
        assert len(json.loads((tmp_path / name).read_text())) == 2
    write([FLAT], tmp_path / "x.jsonl", options=WriteOptions(array=True))
    assert len(json.loads((tmp_path / "x.jsonl").read_text())) == 1
    write([], tmp_path / "empty.json")
    assert json.loads((tmp_path / "empty.json").read_text()) == []
    write([FLAT, FLAT], tmp_path / "x.jsonl")
    assert len((tmp_path / "x.jsonl").read_text().splitlines()) == 2


def test_word_that_is_a_byte_order_mark_is_kept(tmp_path):
    for name in ("conll", "weibo", "jsonl"):
        write([Sentence(["\ufeff", "a"])], tmp_path / "x", name)
        assert next(iter(read(tmp_path / "x", name))).words == ("\ufeff", "a")


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "brat"])
def test_failed_write_keeps_only_the_old_file(tmp_path, name):
    def failing():
        yield FLAT
        raise RuntimeError("stop")

    path = tmp_path / "out"
    path.write_text("old")
    with pytest.raises(RuntimeError, match="stop"):
        write(failing(), path, name)
    with pytest.raises(RepresentationError):
        write([FLAT, Sentence(["\ud800"])], path, name)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_corpus_can_overwrite_its_own_file(tmp_path):
    path = tmp_path / "x.jsonl"
    write([FLAT, NESTED], path)
    write(read(path), path)
    assert list(read(path)) == [FLAT, NESTED]


def test_written_files_have_the_usual_permissions(tmp_path):
    old = os.umask(0o027)
    try:
        write([FLAT], tmp_path / "x.jsonl")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "x.jsonl").stat().st_mode) == 0o640


def test_writes_through_links_and_to_devices(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "link.jsonl"
    link.symlink_to(tmp_path / "real" / "x.jsonl")
    write([FLAT], link)
    assert link.is_symlink()
    assert list(read(tmp_path / "real" / "x.jsonl")) == [FLAT]
    device = tmp_path / "pipe"
    os.mkfifo(device)
    end = os.open(device, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write([FLAT], device, "conll")
        assert os.read(end, 1000).startswith(b"Ada\tB-PER\n")
    finally:
        os.close(end)
    assert device.is_fifo()


def test_writes_files_with_the_longest_possible_names(tmp_path):
    path = tmp_path / ("x" * 249 + ".jsonl")
    write([FLAT], path)
    assert list(read(path)) == [FLAT]


def test_writes_lines_to_standard_output(capfdbinary):
    write([FLAT], "-")
    assert json.loads(capfdbinary.readouterr().out)["words"] == ["Ada", "of", "London"]


@pytest.mark.parametrize(
    ("name", "format_", "message"),
    [
        ("x.unknown", None, "the file name shows no known format; give it with --to"),
        ("x.jsonl", "jsonk", "there is no format 'jsonk'; did you mean jsonl"),
        ("no/folder/x.jsonl", None, "cannot be written: No such file or directory"),
        ("", "jsonl", "is a folder; give the name of a file"),
    ],
)
def test_unwritable_targets_are_usage_errors(tmp_path, name, format_, message):
    with pytest.raises(UsageError, match=message):
        write([FLAT], tmp_path / name, format_)


def test_refuses_an_unknown_scheme():
    with pytest.raises(UsageError, match="no scheme to write 'x'; there are iob2, iob1, bioes, bmes"):
        WriteOptions(scheme="x")


def test_cannot_hold_is_a_fencepost_error():
    assert issubclass(RepresentationError, FencepostError)
