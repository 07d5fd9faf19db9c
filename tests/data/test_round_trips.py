"""Sentences that are written and read again are equal in everything that the format keeps."""

import itertools
import shutil
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.fuzz.checks import dense_sentences
from fencepost.data import FORMATS, Reader, ReadOptions, WriteOptions, read, write
from fencepost.data.formats.overlaps import has_forbidden_overlap, select_compatible
from tests import strategies

CHARACTER_FORMATS = ("brat", "doccano", "spacy-v2")  # they keep the text, but not its words
WORD_FORMATS = [name for name in FORMATS if name not in CHARACTER_FORMATS]
READ_AS = {"prodigy": "jsonl-text", "doccano": "jsonl-text"}  # it reads the files of both
ALL = ReadOptions(keep_rejected=True)  # including predictions, which are not gold data


def fitting(sentences, path, name, options=None):
    """Write sentences to a new path and return those that the format can represent, as it does."""
    refused = []
    shutil.rmtree(path, ignore_errors=True)
    write(sentences, path, name, options, prefer="outermost", on_refused=lambda s, _: refused.append(s))
    result = []
    for sentence in sentences:
        if sentence in refused:
            continue
        if has_forbidden_overlap(sentence.entities, FORMATS[name].overlaps):
            entities = select_compatible(sentence.entities, FORMATS[name].overlaps, "outermost")
            sentence = sentence.with_entities(entities)
        result.append(sentence)
    return result


def projected(sentence, name):
    """Return the sentence without what a format does not keep."""
    keeps = FORMATS[name].keeps
    empty = {"left": (), "right": (), "meta": {}}
    parts = ("id", "doc", "left", "right", "pos", "space_after", "meta")
    changes = {part: empty.get(part) for part in parts if part not in keeps}
    if name == "weibo":
        changes["meta"] = {"positions": list(sentence.meta.get("positions") or [0] * len(sentence))}
    if name in ("prodigy", "webanno"):  # these formats have the white space between words
        changes["space_after"] = [*(sentence.space_after or [True] * len(sentence))[:-1], False]
    if not sentence.words:  # an empty list of values equals none
        changes |= {"pos": None, "space_after": None}
    kept_entities = [
        replace(
            entity,
            score=entity.score if "score" in keeps else 1.0,
            meta=entity.meta if "entity meta" in keeps else {},
        )
        for entity in sentence.entities
    ]
    return replace(sentence, entities=kept_entities, **changes)


def assert_same(result, expected, name):
    assert [projected(sentence, name) for sentence in result] == [
        projected(sentence, name) for sentence in expected
    ]


@pytest.mark.parametrize("name", WORD_FORMATS)
@given(data=st.data())
def test_accepted_sentences_are_read_back(name, data, tmp_path):
    odd = strategies.odd_sentences_for(FORMATS[name])
    sentences = data.draw(st.lists(odd, max_size=4))
    path = tmp_path / "corpus"
    expected = fitting(sentences, path, name)
    assert_same(list(read(path, name, ALL)), expected, name)


@pytest.mark.parametrize("name", WORD_FORMATS)
@given(sentences=st.lists(strategies.plain_sentences(), min_size=1, max_size=6))
def test_every_format_accepts_plain_sentences_and_is_detected(name, sentences, tmp_path):
    if name == "weibo":
        sentences = [weibo(sentence) for sentence in sentences]
    path = tmp_path / "corpus"
    expected = fitting(sentences, path, name)
    assert len(expected) == len(sentences)
    reader = Reader(path, options=ALL)
    assert_same(list(reader), expected, name)
    assert reader.format.name == READ_AS.get(name, name)


def weibo(sentence):
    """Return the sentence with Chinese characters as words."""
    return replace(
        sentence,
        words=[chr(0x4E00 + len(word)) for word in sentence.words],
        meta={"positions": list(range(len(sentence)))},
    )


@pytest.mark.parametrize("name", ["conll", "weibo"])
@given(sentences=st.lists(strategies.odd_sentences_for(FORMATS["conll"]), max_size=4))
def test_columns_keep_document_boundaries(name, sentences, tmp_path):
    path = tmp_path / "corpus"
    expected = fitting(sentences, path, name)
    result = list(read(path, name))
    assert changes_of_document(result) == changes_of_document(expected)


def changes_of_document(sentences):
    return [one.doc != two.doc for one, two in itertools.pairwise(sentences)]


@pytest.mark.parametrize("scheme", ["iob1", "iob2", "bioes", "bmes"])
@given(sentences=st.lists(strategies.odd_sentences_for(FORMATS["conll"]), max_size=4))
def test_every_scheme_of_columns_is_read_back(scheme, sentences, tmp_path):
    path = tmp_path / "corpus"
    expected = fitting(sentences, path, "conll", WriteOptions(scheme=scheme))
    assert_same(list(read(path, "conll")), expected, "conll")


@pytest.mark.parametrize("name", [name for name in FORMATS if name.startswith("jsonl")])
@given(sentences=st.lists(strategies.odd_sentences(), max_size=4))
def test_json_arrays_are_read_back(name, sentences, tmp_path):
    path = tmp_path / "corpus.json"
    expected = fitting(sentences, path, name)
    assert path.read_text().startswith("[")
    assert_same(list(read(path, name)), expected, name)


def characters(sentences):
    """Return the text of each document without white space, and its entities by characters."""
    documents = {}
    for doc, group in itertools.groupby(sentences, key=lambda sentence: sentence.doc):
        text, entities = "", []
        for sentence in group:
            lengths = list(itertools.accumulate(map(len, sentence.words), initial=len(text)))
            text += "".join(sentence.words)
            entities += [(lengths[e.start], lengths[e.end], e.type) for e in sentence.entities]
        documents.setdefault(doc, []).append((text, sorted(entities)))
    return documents


@pytest.mark.parametrize("pretokenized", [True, False])
@given(sentences=st.lists(strategies.odd_sentences_for(FORMATS["brat"]), max_size=4))
def test_brat_keeps_all_characters_and_entities(pretokenized, sentences, tmp_path):
    path = tmp_path / "corpus"
    expected = fitting(sentences, path, "brat")
    if not expected:
        return
    result = list(read(path, options=ReadOptions(pretokenized=pretokenized)))
    flat = lambda documents: sorted(itertools.chain.from_iterable(documents.values()))  # noqa: E731
    assert flat(characters(result)) == flat(characters(expected))


@pytest.mark.parametrize("suffix", [".jsonl", ".json"])
@pytest.mark.parametrize("name", ["doccano", "spacy-v2"])
@given(data=st.data())
def test_text_formats_keep_all_characters_and_entities(name, suffix, data, tmp_path):
    sentences = data.draw(st.lists(strategies.odd_sentences_for(FORMATS[name]), max_size=4))
    path = tmp_path / f"corpus{suffix}"
    expected = fitting(sentences, path, name)
    assert dense_sentences(list(read(path, name))) == dense_sentences(expected)


@pytest.mark.parametrize("name", ["doccano", "spacy-v2"])
@given(sentences=st.lists(strategies.plain_sentences(), min_size=1, max_size=6))
def test_text_formats_keep_words_separated_by_spaces(name, sentences, tmp_path):
    path = tmp_path / "corpus"
    expected = fitting(sentences, path, name)
    reader = Reader(path, options=ReadOptions(pretokenized=True))
    result = list(reader)
    assert reader.format.name == READ_AS.get(name, name)
    assert [(s.words, s.entities) for s in result] == [(s.words, s.entities) for s in expected]


@given(sentences=st.lists(strategies.plain_sentences(), min_size=1, max_size=6))
def test_brat_keeps_words_and_documents_of_tokenised_text(sentences, tmp_path):
    sentences = [replace(sentence, doc="a") for sentence in sentences]
    path = tmp_path / "corpus"
    fitting(sentences, path, "brat")
    reader = Reader(path, options=ReadOptions(pretokenized=True))
    result = list(reader)
    assert [(s.words, s.entities, s.doc) for s in result] == [(s.words, s.entities, s.doc) for s in sentences]
    assert reader.format.name == "brat"
