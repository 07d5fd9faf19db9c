"""BRAT: texts with annotation files, and the folder that the writer makes."""

import io

import pytest

from fencepost.data import Reader, ReadOptions, read, write
from fencepost.data.entity import Entity, Sentence
from fencepost.errors import DataError, FencepostError, UsageError

TEXT = "Ada Lovelace lived. In London she wrote.\n"


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "brat"
    path.mkdir()
    return path


def pair(folder, annotations, text=TEXT, name="doc"):
    (folder / f"{name}.txt").write_bytes(text.encode("utf-8"))
    (folder / f"{name}.ann").write_bytes(annotations.encode("utf-8"))
    return folder


def test_reads_entities_and_notes_other_annotations(folder):
    annotations = (
        "T1\tPER 0 12\tAda Lovelace\nT2\tNAME 0 12\tAda Lovelace\nT3\tLOC 23 29\tLondon\n"
        "R1\tLivesIn Arg1:T1 Arg2:T3\t\nA1\tSure T1\n#1\tAnnotatorNotes T1\ta note\n*\tEquiv T1 T2\n\n"
    )
    reader = Reader(pair(folder, annotations))
    first, second = reader
    assert first.words == ("Ada", "Lovelace", "lived", ".")
    assert first.entities == (Entity(0, 2, "NAME"), Entity(0, 2, "PER"))
    assert second.entities == (Entity(1, 2, "LOC"),)
    assert (first.doc, first.id, second.id) == ("doc", "doc-1", "doc-2")
    assert [note.count for note in reader.notes] == [4]


@pytest.mark.parametrize("name", ["doc.txt", "doc.ann"])
def test_reads_a_pair_by_either_file(folder, name):
    assert len(list(read(pair(folder, "T1\tPER 0 3\tAda\n") / name))) == 2


def test_line_ends_count_in_offsets(folder):
    first, second = read(pair(folder, "T1\tX 7 10\tBob\r\n", text="Ada.\r\n Bob.\r\n"))
    assert first.entities == ()
    assert (second.words, second.entities) == (("Bob", "."), (Entity(0, 1, "X"),))


def test_reads_folders_recursively_in_order(folder):
    (folder / "sub").mkdir()
    pair(folder, "", name="b")
    pair(folder / "sub", "", name="a")
    assert [s.doc for s in read(folder)] == ["b", "b", "sub/a", "sub/a"]


def test_discontinuous_entity_rejects_only_its_sentence(folder):
    path = pair(folder, "T1\tPER 0 3;13 18\tAda lived\nT2\tLOC 23 29\tLondon\n")
    with pytest.raises(DataError, match=r"doc.ann:1: PER 0 3;13 18 is discontinuous, which is not supported"):
        list(read(path))
    rejected = []
    [sentence] = read(path, on_invalid=rejected.append)
    assert sentence.entities == (Entity(1, 2, "LOC"),)
    assert [(r.line, r.raw) for r in rejected] == [(1, "Ada Lovelace lived.")]


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        ("T1\tX 0 3\tBob", "the annotation has the text 'Bob', but the characters at its offsets are 'Ada'"),
        ("T1\tX 3 4\t ", "X 3 4 contains only white space"),
        ("T1\tX 40 41\t ", "X 40 41 contains only white space"),  # where no sentence is
        ("T1\tX 3 3\t", "the offsets 3 3 are empty or outside the text; the whole document is skipped"),
        ("T1\tX 0 99\tx", "the offsets 0 99 are empty or outside"),
        ("T1\tX 9 1\tx", "the offsets 9 1 are empty or outside"),
        ("T1 X 0 3 Ada", "not an annotation of the form T1<tab>TYPE START END<tab>TEXT"),
        ("nonsense", "not an annotation of the form"),
    ],
)
def test_wrong_annotations_are_always_reported(folder, annotation, message):
    path = pair(folder, f"T2\tLOC 23 29\tLondon\n{annotation}\n")
    with pytest.raises(DataError, match=rf"doc.ann:2: {message}"):
        list(read(path))
    rejected = []
    sentences = list(read(path, on_invalid=rejected.append))
    assert [r.line for r in rejected] == [2]
    assert len(sentences) < 2 or "white space" in message


def test_check_text_can_be_disabled(folder):
    path = pair(folder, "T1\tX 0 3\tBob\n")
    assert next(read(path, options=ReadOptions(check_text=False))).entities == (Entity(0, 1, "X"),)


def test_names_the_missing_file_of_a_pair(folder):
    (folder / "a.ann").write_text("")
    with pytest.raises(DataError, match=r"a.txt is missing beside its text or annotations"):
        list(read(folder))
    (folder / "b.txt").write_text("")
    with pytest.raises(DataError, match=r"b.ann is missing beside its text or annotations"):
        list(read(folder / "b.txt", "brat"))


def test_refuses_folders_without_annotations_and_invalid_utf8(folder):
    with pytest.raises(DataError, match=r"a folder without .ann files: not a BRAT corpus"):
        list(read(folder))
    pair(folder, "")
    (folder / "doc.txt").write_bytes(b"Ada \xff")
    with pytest.raises(DataError, match=r"doc.txt: not UTF-8 at byte 5"):
        list(read(folder))


def test_annotations_that_are_not_utf8_reject_their_document(folder):
    pair(folder, "", name="good")
    pair(folder, "")
    (folder / "doc.ann").write_bytes(b"T1\tX 0 3\t\xff\n")
    rejected = []
    assert {s.doc for s in read(folder, on_invalid=rejected.append)} == {"good"}
    assert "not UTF-8 at byte 10 of the line; the whole document is skipped" in rejected[0].reason


def test_rejects_10000_invalid_annotations(folder):
    count = 10_000
    gaps = "".join(f"T{n}\tX {n * 5} {n * 5 + 1};{n * 5 + 2} {n * 5 + 3}\tA b\n" for n in range(count))
    path = pair(folder, gaps, text="A bc\n" * count)
    rejected = []
    assert list(read(path, None, ReadOptions(pretokenized=True), rejected.append)) == []
    assert len(rejected) == count


def sentence(doc):
    return Sentence(["Ada"], [Entity(0, 1, "X")], doc=doc)


NAMES = [
    "../../x",
    "a/b",
    "a\\b",
    "CON",
    "nul.x",
    "..",
    ".",
    "",
    None,
    "x" * 5000,
    "科" * 5000,
    "😀\x00\n",
    "-rf",
    "~",
]


@pytest.mark.parametrize("doc", NAMES)
def test_document_names_cannot_leave_the_folder(tmp_path, doc):
    write([sentence(doc)], tmp_path / "out", "brat")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    files = sorted((tmp_path / "out").rglob("*"))
    assert [(f.parent.name, f.suffix) for f in files] == [("out", ".ann"), ("out", ".txt")]
    assert not files[0].name.startswith((".", "con", "CON", "nul"))
    assert [s.words for s in read(tmp_path / "out")] == [("Ada",)]


def test_documents_with_similar_names_get_different_files(tmp_path):
    docs = ["a/b", "a_b", "A_B", "a_b-2", "a/b", None, "sentences", None, *["x", "y"] * 300]
    write(map(sentence, docs), tmp_path / "out", "brat")
    assert len(list(read(tmp_path / "out"))) == len(docs)
    names = [path.name.casefold() for path in (tmp_path / "out").glob("*.ann")]
    assert len(set(names)) == len(docs)


def test_equal_names_in_two_folders_are_different_documents(folder):
    for name, annotations in (("x", "T1\tPER 0 3;13 18\tAda lived\n"), ("y", "R1\tEquiv a b\n")):
        (folder / name).mkdir()
        pair(folder / name, annotations)
    skipped = []
    reader = Reader(folder, on_invalid=skipped.append)
    assert [sentence.id for sentence in reader] == ["x/doc-2", "y/doc-1", "y/doc-2"]
    assert [(one.file, one.line) for one in skipped] == [(str(folder / "x" / "doc.ann"), 1)]
    assert [note.place for note in reader.notes] == [f"{folder / 'y' / 'doc.ann'}:1"]
    with pytest.raises(DataError, match=r"x/doc.ann:1: PER 0 3;13 18 is discontinuous"):
        list(read(folder))


def test_notes_texts_without_annotations(folder):
    pair(folder, "T1\tPER 0 12\tAda Lovelace\n")
    (folder / "lonely.txt").write_text("Nobody annotated this.\n")
    reader = Reader(folder)
    assert len(list(reader)) == 2
    assert [str(note) for note in reader.notes] == [
        f"{folder}: text without annotations (.ann) skipped: lonely.txt"
    ]


def test_writes_only_to_a_new_or_empty_folder(tmp_path):
    (tmp_path / "empty").mkdir()
    write([sentence("a")], tmp_path / "empty", "brat")
    for path in (tmp_path / "empty", tmp_path / "empty" / "a.ann"):
        with pytest.raises(UsageError, match="already exists and is not an empty folder; give another name"):
            write([sentence("a")], path, "brat")
    with pytest.raises(UsageError, match="cannot be written to standard output"):
        write([sentence("a")], "-", "brat")
    with pytest.raises(UsageError, match="cannot be written: No such file"):
        write([sentence("a")], tmp_path / "no" / "such" / "folder", "brat")


def test_failed_write_leaves_no_folder(tmp_path):
    def failing():
        yield sentence("a")
        raise FencepostError("stop")

    with pytest.raises(FencepostError, match="stop"):
        write(failing(), tmp_path / "out", "brat")
    assert list(tmp_path.iterdir()) == []


def test_refuses_standard_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"Ada")))
    with pytest.raises(UsageError, match="BRAT corpora are folders"):
        list(read("-", "brat"))


@pytest.mark.parametrize("suffix", [".txt", ".ann"])
def test_refuses_a_document_that_is_too_large(folder, monkeypatch, suffix):
    pair(folder, "T1\tX 0 3\tAda\n")
    monkeypatch.setattr("fencepost.data.formats.brat.DOCUMENT_BYTES", 1000)
    (folder / f"doc{suffix}").write_text(" " * 1001)
    with pytest.raises(DataError, match=rf"doc{suffix}: larger than 0 MB; split the document"):
        list(read(folder))
