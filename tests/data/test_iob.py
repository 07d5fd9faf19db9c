"""Tags: compared with an independent reader and with seqeval, and round trips."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities
from seqeval.scheme import IOB1, IOB2, IOBES, Entities

from fencepost.data.entity import Entity
from fencepost.data.formats import iob
from tests import strategies

TYPES = ("PER", "ORG")


def tags_of(letters):
    tags = ["O", *(f"{letter}-{type_}" for letter in letters for type_ in TYPES)]
    return st.lists(st.sampled_from(tags), max_size=10)


def as_the_scorer_reads(tags):
    """Apply the rules of the CoNLL scorer: where a chunk starts, and where the one before ends."""
    letters = [tag[0].translate(str.maketrans("MLU", "IES")) for tag in tags]
    types = [tag[2:] for tag in tags]
    entities, start = [], None
    for i in range(len(tags) + 1):
        here, before = (letters[i] if i < len(tags) else "O"), (letters[i - 1] if i else "O")
        differs = (types[i] if i < len(tags) else "") != (types[i - 1] if i else "")
        ends = before in "ES" or (before in "BI" and (here in "BSO" or differs))
        if start is not None and ends:
            entities.append(Entity(start, i, types[start]))
            start = None
        if here in "BS" or (here in "IE" and (before in "ESO" or differs)):
            start = i
    return entities


@given(tags_of("BIESMLU"))
def test_any_tags_are_read_like_the_conll_scorer(tags):
    expected = as_the_scorer_reads(tags)
    for scheme in iob.READ_SCHEMES:
        assert iob.to_entities(tags, scheme)[0] == expected


@given(tags_of("BIES"))
def test_any_tags_are_read_like_seqeval(tags):
    expected = [Entity(start, end + 1, type_) for type_, start, end in get_entities(tags)]
    assert iob.to_entities(tags, "iob2")[0] == expected


@pytest.mark.parametrize(("scheme", "letters"), [(IOB2, "BI"), (IOBES, "BIES")])
@given(data=st.data())
def test_regular_tags_are_read_like_strict_seqeval(scheme, letters, data):
    tags = data.draw(tags_of(letters))
    entities, irregular = iob.to_entities(tags, "iob2" if scheme is IOB2 else "bioes")
    if irregular is None:
        assert entities == strictly(tags, scheme)


@given(strategies.flat_entities(8))
def test_strict_seqeval_reads_written_iob1(entities):
    assert strictly(iob.from_entities(8, entities, "iob1"), IOB1) == entities


def strictly(tags, scheme):
    return [Entity(entity.start, entity.end, entity.tag) for entity in Entities([tags], scheme).entities[0]]


@pytest.mark.parametrize("scheme", iob.WRITE_SCHEMES)
@given(data=st.data())
def test_written_tags_are_regular_and_read_back(scheme, data):
    entities = data.draw(strategies.flat_entities(8))
    tags = iob.from_entities(8, entities, scheme)
    read_as = "bioes" if scheme == "bmes" else scheme
    assert iob.to_entities(tags, read_as) == (entities, None)
    if entities:
        assert iob.detect([tags]) == read_as


def test_written_schemes_equal_those_by_hand():
    entities = [Entity(0, 1, "X"), Entity(1, 4, "X"), Entity(5, 6, "Y")]
    assert iob.from_entities(6, entities, "iob1") == ["I-X", "B-X", "I-X", "I-X", "O", "I-Y"]
    assert iob.from_entities(6, entities, "iob2") == ["B-X", "B-X", "I-X", "I-X", "O", "B-Y"]
    assert iob.from_entities(6, entities, "bioes") == ["S-X", "B-X", "I-X", "E-X", "O", "S-Y"]
    assert iob.from_entities(6, entities, "bmes") == ["S-X", "B-X", "M-X", "E-X", "O", "S-Y"]


@pytest.mark.parametrize(
    ("sentences", "scheme"),
    [
        ([], "iob2"),
        ([["O", "O"]], "iob2"),
        ([["O", "B-X", "I-X"]], "iob2"),
        ([["I-X", "I-X", "O"], ["I-X", "B-X"]], "iob1"),
        ([["B-X", "I-X"], ["I-X"], ["B-X"]], "iob2"),  # the more frequent variant
        ([["B-X", "L-X"]], "bioes"),
        ([["U-X"]], "bioes"),
        ([["nonsense", "S-X"]], "bioes"),
    ],
)
def test_detects_the_scheme(sentences, scheme):
    assert iob.detect(sentences) == scheme


@pytest.mark.parametrize(
    ("tags", "scheme", "index", "reason"),
    [
        (["O", "I-X"], "iob2", 1, "'I-X' continues an entity, but none of its type is open"),
        (["B-X", "I-Y"], "iob2", 1, "'I-Y' continues"),
        (["B-X", "O"], "bioes", 0, "the entity of 'B-X' has no end"),
        (["O", "B-X"], "bioes", 1, "has no end"),
        (["O", "E-X"], "bioes", 1, "'E-X' continues"),
        (["S-X"], "iob2", 0, "'S-X' does not occur in iob2"),
        (["S-X"], "iob1", 0, "'S-X' does not occur in iob1"),
        (["O", "X"], "iob1", 1, "'X' is not a tag; a tag is O, or B-, I-, E- or S- and a type"),
        (["B-"], "iob2", 0, "'B-' is not a tag"),
        ([""], "iob2", 0, "'' is not a tag"),
    ],
)
def test_names_the_first_irregular_tag(tags, scheme, index, reason):
    with pytest.raises(iob.Invalid) as caught:
        iob.to_entities(tags, scheme, strict=True)
    assert caught.value.index == index
    assert reason in str(caught.value)
