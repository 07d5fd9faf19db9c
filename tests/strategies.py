"""Hypothesis strategies for sentences: odd ones as the data model allows, plain ones as in files."""

import itertools

from hypothesis import strategies as st

from fencepost.data.entity import Entity, Sentence

ODD_CHARACTERS = (
    "ab0#-_.,:;'\"\\/()[]{}<>&*|=éßдσ科技"
    " \t\n\r\x0b\x0c\x1c\x85\xa0\u2028\u3000\u200b"  # white space, and what only looks like it
    "\x00\x07\x7f\ufeff\u0301\u200d\ufffe\uffff😀🏽"  # control characters, marks, joiners, beyond 16 bits
)
ODD_WORDS = (
    "",
    " ",
    "#",
    "# a comment",
    "-DOCSTART-",
    "-DOCSTART-x",
    "-DOCSTART- x",
    "#begin document (a); part 0",
    "#end document",
    "(PER*",
    "*)",
    "O",
    "B-PER",
    "科0",
    "a10",
    "a b",
    "\ufeff",
    "{",
    "[",
    "<",
    "]]>",
    "&amp;",
    "null",
)
ODD_TYPES = ("PER", "G#x", "(AND G#a G#b)", "-", "O", "a b")

odd_characters = st.one_of(st.sampled_from(ODD_CHARACTERS), st.characters(exclude_categories=["Cs"]))
odd_words = st.one_of(st.sampled_from(ODD_WORDS), st.text(odd_characters, max_size=5))
odd_types = st.one_of(st.sampled_from(ODD_TYPES), odd_words).filter(bool)
plain_words = st.text(
    st.characters(categories=["L", "N", "P", "S"], max_codepoint=0x2FFFF, exclude_characters="#"),
    min_size=1,
    max_size=6,
)
plain_types = st.sampled_from(["PER", "ORG", "cell_line", "GPE.NAM"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | odd_words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(odd_words, inner, max_size=2),
    max_leaves=4,
)
meta_keys = st.sampled_from(["named", "meta", "text", "id", "start", "words", "positions", ""])
metas = st.dictionaries(meta_keys, json_values, max_size=2)
no_metas = st.just({})
certain = st.just(1.0)
scores = certain | st.floats(0, 1)


@st.composite
def entities(draw, length, types=plain_types, scores=certain, metas=no_metas, max_size=6):
    """Entities on `length` words: nested, crossing, several types on one span, the same one twice."""
    if not length:
        return []
    result = []
    for _ in range(draw(st.integers(0, max_size))):
        start, end = sorted(draw(st.tuples(st.integers(0, length), st.integers(0, length))))
        if start < end:
            result.append(Entity(start, end, draw(types), draw(scores), draw(metas)))
    if result and draw(st.booleans()):
        one = draw(st.sampled_from(result))
        result.append(Entity(one.start, one.end, draw(st.just(one.type) | types), draw(scores), draw(metas)))
    return result


@st.composite
def odd_sentences(draw, words=odd_words, types=odd_types):
    """Sentences with everything that the data model allows."""
    tokens = draw(st.lists(words, max_size=6))
    size = len(tokens)
    tags = st.sampled_from(["NN", "-", "", "a b"]) | words
    return Sentence(
        tokens,
        draw(entities(size, types, scores, metas)),
        id=draw(st.none() | odd_words),
        doc=draw(st.none() | st.sampled_from(["a", "b", ""]) | odd_words),
        left=draw(st.lists(words, max_size=2)),
        right=draw(st.lists(words, max_size=2)),
        pos=draw(st.none() | st.lists(tags, min_size=size, max_size=size)),
        space_after=draw(st.none() | st.lists(st.booleans(), min_size=size, max_size=size)),
        meta=draw(metas),
    )


@st.composite
def plain_sentences(draw, words=plain_words):
    """Sentences that every format can represent, except overlaps: plain words, types and documents."""
    tokens = draw(st.lists(words, min_size=1, max_size=8))
    size = len(tokens)
    return Sentence(
        tokens,
        draw(entities(size)),
        doc=draw(st.sampled_from([None, "a", "b"])),
        pos=draw(st.none() | st.lists(st.sampled_from(["NN", "VB"]), min_size=size, max_size=size)),
    )


@st.composite
def nested_entities(draw, length, types=plain_types, depth=4):
    """Entities that nest or lie apart, and never cross."""
    result = []

    def fill(start, end, levels):
        if start < end and levels and draw(st.booleans()):
            one, two = sorted(draw(st.tuples(st.integers(start, end), st.integers(start, end))))
            if one < two:
                result.append(Entity(one, two, draw(types)))
            fill(one, two, levels - 1)
            fill(two, end, levels - 1)

    fill(0, length, depth)
    return result


@st.composite
def flat_entities(draw, length, types=plain_types):
    """Entities that do not overlap, but may touch."""
    cuts = sorted(draw(st.sets(st.integers(0, length), max_size=8)))
    spans = itertools.pairwise(cuts)
    return [Entity(start, end, draw(types)) for start, end in spans if draw(st.booleans())]


def odd_sentences_for(format_):
    """Odd sentences of words and types that a format accepts individually."""
    return odd_sentences(
        odd_words.filter(lambda word: format_.find_obstacle(Sentence([word])) is None),
        odd_types.filter(lambda type_: format_.find_obstacle(Sentence(["a"], [Entity(0, 1, type_)])) is None),
    )
