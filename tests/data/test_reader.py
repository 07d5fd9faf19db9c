"""Files that are not corpora, and sources of all kinds: they give only our own errors."""

import contextlib
import io
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.data import FORMATS, Reader, read, write
from fencepost.data.entity import Entity, Sentence
from fencepost.data.source import LINE_BYTES, Source
from fencepost.errors import DataError, FencepostError, UsageError

SENTENCE = Sentence(["科", "技"], [Entity(0, 1, "X")], meta={"positions": [0, 1]})

INSERTIONS = st.binary(max_size=4) | st.sampled_from([b'"', b"\n", b"\t", b"<", b"9"])


@pytest.mark.parametrize("name", [None, *FORMATS])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n\n  \n",
        b"\xef\xbb\xbf",
        b"\x00" * 100,
        bytes(range(256)) * 10,
        b"\x89PNG\r\n\x1a\n\x00\x00",
        b"PK\x03\x04\xff\xff",
        b"x\x9c garbage",
        b"just words without any columns\n",
        b"{",
        b"[",
        b"[]",
        b"{}\n",
        b"<",
        b"<a>",
        b"null\n",
        "ünïcode".encode("latin-1"),
        "a\tO\n".encode("utf-16"),
        "a\tO\n".encode("utf-16-be"),
        "a\tO\n".encode("utf-32"),
    ],
)
def test_any_file_raises_only_our_errors(skipping, content, name):
    with contextlib.suppress(FencepostError):
        _, sentences, _ = skipping(content, name)
        assert all(isinstance(sentence, Sentence) for sentence in sentences)


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=25)
@given(data=st.data())
def test_mutated_files_raise_only_our_errors(name, data, tmp_path_factory):
    path = tmp_path_factory.mktemp("mutated") / "corpus"
    write([SENTENCE, SENTENCE.with_entities([])], path, name)
    target = next(path.glob("*.ann")) if name == "brat" else path
    content = bytearray(target.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content)))
        removed = data.draw(st.integers(0, 8))
        content[start : start + removed] = data.draw(INSERTIONS)
    target.write_bytes(content)
    for format_ in (None, name):
        with contextlib.suppress(FencepostError):
            for sentence in read(path, format_, on_invalid=lambda _: None):
                assert isinstance(sentence, Sentence)


def test_notes_an_empty_file(reading):
    reader = reading("")
    assert list(reader) == []
    assert "no sentence in the file" in str(reader.notes[0])


def test_refuses_utf16_by_name(reading):
    with pytest.raises(DataError, match="corpus: this file is UTF-16; save it as UTF-8"):
        reading("a\tO\n".encode("utf-16"))


@pytest.mark.parametrize("name", ["no/such/file", "x" * 5000, "nul\0byte", ""])
def test_refuses_a_missing_file(tmp_path, name):
    with pytest.raises(FencepostError):
        list(Reader(tmp_path / name))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_file_without_permission_is_a_usage_error(tmp_path):
    (tmp_path / "secret").write_text("a\tO\n")
    (tmp_path / "secret").chmod(0)
    with pytest.raises(UsageError, match="secret: cannot be read: Permission denied"):
        Reader(tmp_path / "secret")


def test_file_that_cannot_be_opened_is_a_usage_error(tmp_path, monkeypatch):
    opened = Path.open

    def refuse(path, *arguments):
        if path.suffix == refused:
            raise PermissionError(13, "Permission denied")
        return opened(path, *arguments)

    (tmp_path / "secret.txt").write_text("Ada")
    (tmp_path / "secret.ann").write_text("")
    monkeypatch.setattr("pathlib.Path.open", refuse)
    refused = ".txt"
    with pytest.raises(UsageError, match=r"secret.txt: cannot be read: Permission denied"):
        list(read(tmp_path / "secret.ann"))
    refused = ".ann"
    with pytest.raises(UsageError, match=r"secret.ann: cannot be read: Permission denied"):
        Reader(tmp_path / "secret.ann")


def test_unknown_format_suggests_the_nearest(tmp_path):
    with pytest.raises(UsageError, match="there is no format 'conl'; did you mean conll"):
        Reader(tmp_path / "x", "conl")


def test_reads_standard_input_without_closing_it(monkeypatch):
    stdin = io.TextIOWrapper(io.BytesIO(b"Ada\tB-PER\n"))
    monkeypatch.setattr("sys.stdin", stdin)
    reader = Reader("-")
    assert [s.words for s in reader] == [("Ada",)]
    assert reader.place == "standard input:1"
    assert not stdin.buffer.closed


def test_reads_the_sample_by_name():
    reader = Reader("sample:dev")
    assert next(iter(reader)).words
    assert reader.source.name == "sample:dev"
    reader.source.close()
    with pytest.raises(UsageError):
        Reader("sample:nothing")


def test_lines_do_not_depend_on_chunks(monkeypatch):
    content = "é\r\n\n科技\u2028\x85\n\x0b\nlast".encode()
    expected = ["é", "", "科技\u2028\x85", "\x0b", "last"]
    for size in (1, 2, 3, 1000):
        monkeypatch.setattr("fencepost.data.source.HEAD_BYTES", size)
        monkeypatch.setattr("fencepost.data.source.CHUNK_BYTES", size)
        source = Source.from_bytes(content)
        assert [(line.number, line.text) for line in source.read_lines()] == list(
            enumerate(expected, start=1)
        )
        assert source.bytes_read == len(content)


@pytest.mark.parametrize("start", [b"a\tO\n", b'{"words": ["', b'[{"words": ["'])
def test_refuses_an_endless_line(tmp_path, start):
    path = tmp_path / "corpus"
    with path.open("wb") as file:
        file.write(start)
        file.truncate(LINE_BYTES + (3 << 20))  # a hole: nothing but zeros
    with pytest.raises(DataError, match=r"corpus:\d+: .* is longer than 64 MB; split it"):
        list(read(path, "conll" if start[:1] == b"a" else "jsonl"))


def test_reader_can_be_iterated_only_once(reading):
    reader = reading("a O\n")
    assert len(list(reader)) == 1
    with pytest.raises(UsageError, match="can read its file only once"):
        list(reader)


def test_refuses_an_empty_name_and_a_missing_standard_input(monkeypatch, tmp_path):
    with pytest.raises(UsageError, match="the file name is empty"):
        Reader("")
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(UsageError, match="no standard input"):
        Reader("-")
    (tmp_path / "a.conll").write_text("a O\n")
    assert len(list(Reader(tmp_path / "a.conll"))) == 1
