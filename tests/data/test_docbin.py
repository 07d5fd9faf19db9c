"""The DocBin of spaCy, written by spaCy itself."""

import struct
import tracemalloc
import zlib

import pytest
import spacy
import srsly
from spacy.tokens import Doc, DocBin, Span

from fencepost.data import Reader, ReadOptions, read, write
from fencepost.data.entity import Entity, Sentence
from fencepost.errors import DataError

WORDS = ["Ada", "Lovelace", "lived", ".", "In", "London", "."]
NLP = spacy.blank("en")


@pytest.fixture
def saved(tmp_path):
    """Save documents like spaCy and return the path."""

    def save(*docs, user_data=False):
        path = tmp_path / "corpus.spacy"
        DocBin(store_user_data=user_data, docs=docs).to_disk(path)
        return path

    return save


def doc(*, sentences=True, ents=(), **spans):
    starts = [index in (0, 4) for index in range(len(WORDS))] if sentences else None
    document = Doc(
        NLP.vocab, words=WORDS, spaces=[True, True, False, True, True, False, False], sent_starts=starts
    )
    document.set_ents([Span(document, *span[:2], label=span[2]) for span in ents])
    for key, group in spans.items():
        document.spans[key] = [Span(document, *span[:2], label=span[2]) for span in group]
    return document


def test_reads_entities(saved):
    reader = Reader(saved(doc(ents=[(0, 2, "PER"), (5, 6, "LOC")])))
    first, second = reader
    assert reader.format.name == "spacy"
    assert first.words == ("Ada", "Lovelace", "lived", ".")
    assert first.entities == (Entity(0, 2, "PER"),)
    assert first.space_after == (True, True, False, True)
    assert second.entities == (Entity(1, 2, "LOC"),)


def test_reads_spans_instead_of_entities(saved):
    spans = [(0, 2, "PER"), (0, 1, "FIRST"), (1, 3, "X"), (0, 2, "PER")]
    first, _ = read(saved(doc(ents=[(5, 6, "LOC")], sc=spans)))
    assert [e.key for e in first.entities] == [(0, 1, "FIRST"), (0, 2, "PER"), (0, 2, "PER"), (1, 3, "X")]


def test_one_of_several_span_groups_must_be_named(saved):
    path = saved(doc(one=[(0, 1, "X")], two=[(1, 2, "Y")]))
    with pytest.raises(
        DataError, match=r"corpus.spacy:1: several span groups \(one, two\); name one with --spans-key"
    ):
        list(read(path))
    first, _ = read(path, options=ReadOptions(spans_key="two"))
    assert first.entities == (Entity(1, 2, "Y"),)


def test_group_sc_has_priority(saved):
    first, _ = read(saved(doc(other=[(0, 1, "X")], sc=[(1, 2, "Y")])))
    assert first.entities == (Entity(1, 2, "Y"),)


def test_entity_across_sentences_joins_them(saved):
    [sentence] = read(saved(doc(sc=[(2, 6, "X"), (0, 1, "Y")])))
    assert sentence.words == tuple(WORDS)
    assert sentence.entities == (Entity(0, 1, "Y"), Entity(2, 6, "X"))


def test_document_without_sentence_boundaries_is_one_sentence_with_a_note(saved):
    reader = Reader(saved(doc(sentences=False, ents=[(0, 2, "PER")])))
    assert [len(s) for s in reader] == [7]
    assert "without sentence boundaries" in reader.notes[0].kind


def test_entity_without_a_label_rejects_its_document(saved):
    rejected = []
    path = saved(doc(sc=[(0, 1, "")]), doc(sc=[(0, 1, "X")]))
    assert len(list(read(path, on_invalid=rejected.append))) == 2
    assert [(r.line, r.reason) for r in rejected] == [
        (1, "document 1 cannot be read: the entity [0, 1) has no type")
    ]


def test_spacy_reads_the_written_docbin(tmp_path):
    path = tmp_path / "out.spacy"
    flat = Sentence(["Ada", "!"], [Entity(0, 1, "PER")], pos=["NNP", "."], space_after=[False, True])
    nested = flat.with_entities([Entity(0, 1, "PER"), Entity(0, 2, "X")])
    write([flat, nested], path)
    one, two = DocBin().from_disk(path).get_docs(NLP.vocab)
    assert [(e.text, e.label_) for e in one.ents] == [("Ada", "PER")]
    assert one.text == "Ada! "
    assert [token.tag_ for token in one] == ["NNP", "."]
    assert not two.ents
    assert sorted(span.label_ for span in two.spans["sc"]) == ["PER", "X"]


def test_duplicates_keep_their_order_scores_and_meta(tmp_path):
    entities = [
        Entity(0, 1, "X", 1.0, {}),
        Entity(0, 1, "X", 1.0, {"a": 1}),
        Entity(0, 1, "X", 0.5, {"a": 2}),
    ]
    sentence = Sentence(["a"], entities, id="", doc="")
    write([sentence], tmp_path / "out.spacy")
    assert list(read(tmp_path / "out.spacy")) == [sentence]


@pytest.mark.parametrize(
    "extra",
    [
        '{"entities": [1]}',
        '{"entities": [[0, 1, [], 1.0, {}]]}',
        '{"left": [1]}',
        '{"entities": [[0, 1, "X", "a", {}]]}',
    ],
)
def test_refuses_foreign_user_data_under_our_name(saved, extra):
    document = doc(sentences=False)
    document.user_data["fencepost"] = extra
    with pytest.raises(
        DataError, match=r"corpus.spacy:1: document 1 cannot be read: the user data under 'fencepost' are not"
    ):
        list(read(saved(document, user_data=True)))


@pytest.mark.parametrize("extra", ["nonsense", "[]", 3, '{"id": 3, "meta": []}', "[" * 100_000])
def test_ignores_user_data_without_content(saved, extra):
    document = doc(sentences=False)
    document.user_data["fencepost"] = extra
    [sentence] = read(saved(document, user_data=True))
    assert sentence.id is None


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-10], lambda b: b[:50] + b"x" + b[51:], lambda b: zlib.compress(b"\x81\xa1a\x01")]
)
def test_refuses_a_damaged_file(saved, damage):
    path = saved(doc())
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match="the DocBin cannot be read"):
        list(read(path, "spacy"))


def test_reads_20000_spans_and_10000_sentences(saved):
    count = 10_000
    document = Doc(NLP.vocab, words=["a", "."] * count, sent_starts=[True, False] * count)
    document.spans["sc"] = [Span(document, start, start + 1, label="X") for start in range(2 * count)]
    assert sum(len(s.entities) for s in read(saved(document))) == 2 * count


def test_refuses_an_unknown_span_group(tmp_path):
    write([Sentence(["Ada"], [Entity(0, 1, "PER")])], tmp_path / "a.spacy")
    with pytest.raises(DataError, match="no span group 'typo'; there are sc"):
        list(read(tmp_path / "a.spacy", options=ReadOptions(spans_key="typo")))


class Packed(bytes):
    """Bytes that are MessagePack already."""


def message(**parts):
    """Return a DocBin of one document with the word `a`, in which some parts are replaced."""
    vocab = spacy.blank("en").vocab
    usual = {
        "attrs": [spacy.attrs.ORTH],
        "tokens": struct.pack("<Q", vocab.strings.add("a")),
        "spaces": b"\x01",
        "lengths": struct.pack("<i", 1),
        "strings": ["a"],
        "cats": [{}],
        "flags": [{}],
        "span_groups": [b""],
    }
    packed = bytes([0x80 + len(usual | parts)])
    for key, value in (usual | parts).items():
        packed += srsly.msgpack_dumps(key) + (
            value if isinstance(value, Packed) else srsly.msgpack_dumps(value)
        )
    return zlib.compress(packed, 9)


def many(count, item=b"\x80"):
    """Return a list of this number of items, by default empty maps."""
    return Packed(b"\xdd" + struct.pack(">I", count) + item * count)


MANY = 3_000_000
GROUP = b"\x83\xa4name\xa1x\xa5attrs\x80\xa5spans" + many(MANY)
BOMBS = {
    "categories": {"cats": many(MANY)},
    "flags": {"flags": many(MANY)},
    "a flag": {"flags": Packed(b"\x91\x81\xa1x" + many(MANY))},
    "strings": {"strings": many(MANY, b"\xa0")},
    "a string": {"strings": Packed(b"\x92\xa1a\xdb" + struct.pack(">I", MANY) + b"\xff" * MANY)},
    "documents": {"lengths": b"\x00" * MANY, "tokens": b"", "spaces": b""},
    "tokens": {"tokens": b"\x00" * MANY},
    "attributes": {"attrs": many(MANY, b"\x01")},
    "spans": {"span_groups": [bytes(many(MANY))]},
    "a group": {"span_groups": [srsly.msgpack_dumps({GROUP: ["x"]})]},
    "user data": {"user_data": [b"\x81\xa9fencepost" + many(MANY)]},
    "an unknown part": {"unknown": many(MANY)},
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_compressed_bomb_needs_little_memory_and_gives_a_short_message(tmp_path, bomb):
    path = tmp_path / "corpus.spacy"
    path.write_bytes(message(**BOMBS[bomb]))
    assert path.stat().st_size < 10_000
    tracemalloc.start()
    try:
        outcome = str([sentence.words for sentence in read(path, "spacy")])
    except DataError as error:
        outcome = str(error)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30_000_000
    assert len(outcome) < 500


def test_refuses_a_document_with_too_many_tokens(tmp_path, monkeypatch):
    monkeypatch.setattr("fencepost.data.formats.docbin_message.DOCUMENT_TOKENS", 6)
    path = tmp_path / "corpus.spacy"
    DocBin(docs=[doc()]).to_disk(path)
    with pytest.raises(DataError, match="a document has more than 6 tokens"):
        list(read(path))


def test_refuses_a_file_that_unpacks_to_too_much(saved, monkeypatch):
    path = saved(doc())
    monkeypatch.setattr("fencepost.data.formats.docbin_message.SMALL_BYTES", 100)
    monkeypatch.setattr("fencepost.data.formats.docbin_message.RATIO", 1)
    with pytest.raises(DataError, match="bytes unpack to more than"):
        list(read(path, "spacy"))


def test_reads_older_span_groups(tmp_path):
    document = doc()
    document.spans["mine"] = [Span(document, 0, 2, label="PER")]
    documents = DocBin(docs=[document])
    documents.span_groups = [srsly.msgpack_dumps([document.spans["mine"].to_bytes()])]
    documents.to_disk(tmp_path / "corpus.spacy")
    first, _ = read(tmp_path / "corpus.spacy")
    assert first.entities == (Entity(0, 2, "PER"),)
