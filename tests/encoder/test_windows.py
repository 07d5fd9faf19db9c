"""Windows: they cover every word with as much context as possible, and fit the encoder."""

import itertools
import time
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fencepost.data.entity import Entity, Sentence
from fencepost.encoder.windows import fit_context, group_blocks, join_blocks, split_sentence, split_windows


@st.composite
def sizes_and_room(draw, smallest_room=1):
    room = draw(st.integers(smallest_room, 30))
    largest = draw(st.sampled_from([1, 3, room]))
    return draw(st.lists(st.integers(1, min(largest, room)), max_size=60)), room


def context_around(sizes, window, word):
    """Return the sub-words on the shorter side of a word; -1 if it is not in the window."""
    start, end = window
    return min(sum(sizes[start:word]), sum(sizes[word + 1 : end])) if start <= word < end else -1


@given(sizes_and_room())
@example(([5] * 9, 5))  # every word fills the room
@example(([1, 5, 1, 5, 5, 1], 5))
@example(([], 5))
def test_each_word_is_owned_by_one_window_that_contains_it(case):
    sizes, room = case
    indices = []
    for start, end, first, stop in split_windows(sizes, room, room):
        assert start <= first < stop <= end
        assert sum(sizes[start:end]) <= room
        indices += range(first, stop)
    assert indices == list(range(len(sizes)))


@given(sizes_and_room())
@example(([1] * 30, 10))
@example(([1] * 11, 10))
@example(([16, 25, 18, 8, 3, 24, 2, 3, 5], 30))  # a window beside long words that owns no word
def test_each_word_is_in_the_window_with_the_most_context(case):
    sizes, room = case
    windows = list(split_windows(sizes, room, room))
    for start, end, first, stop in windows:
        for word in range(first, stop):
            best = max(context_around(sizes, window[:2], word) for window in windows)
            assert context_around(sizes, (start, end), word) == best


@given(st.integers(2, 300), st.integers(8, 60))
def test_small_words_have_a_quarter_of_the_room_as_context(length, room):
    """Near the ends of the sentence, they have all words up to the end."""
    sizes = [1] * length
    for start, end, first, stop in split_windows(sizes, room, room):
        for word in range(first, stop):
            quarter = room // 4 - 2
            assert word - start >= min(quarter, word)
            assert end - word - 1 >= min(quarter, length - word - 1)


def test_splits_a_million_words_within_10_seconds():
    start = time.perf_counter()
    assert len(list(split_windows([1] * 1_000_000, 100, 50))) > 10_000
    assert time.perf_counter() - start < 10  # 20 seconds and more if each window looks at all words


@given(sizes_and_room())
def test_windows_overlap_by_about_half(case):
    sizes, room = case
    windows = list(split_windows(sizes, room, room))
    for (start, end, *_), (next_start, next_end, *_) in pairwise(windows):
        assert start < next_start <= end <= next_end
        if max(sizes) == 1 and room > 1:
            assert abs(next_start - (start + end) / 2) <= 1
    if sum(sizes) <= room and sizes:
        assert windows == [(0, len(sizes), 0, len(sizes))]


def test_windows_equal_those_by_hand():
    assert list(split_windows([1] * 10, 6, 3)) == [(0, 6, 0, 4), (3, 9, 4, 7), (6, 10, 7, 10)]


pieces = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=4).map(tuple), max_size=12)
single = st.lists(st.tuples(st.integers(0, 9)), max_size=12)


def flat(words):
    return [piece for word in words for piece in word]


@given(pieces, pieces, st.integers(0, 40))
def test_context_has_as_many_near_whole_words_as_fit(left, right, room):
    kept_left, kept_right = fit_context(left, right, room)
    rest = room - len(kept_left) - len(kept_right)
    assert rest >= 0
    lefts = [flat(left[start:]) for start in range(len(left) + 1)]
    rights = [flat(right[:end]) for end in range(len(right) + 1)]
    assert kept_left in lefts
    assert kept_right in rights
    unused_left = left[: lefts.index(kept_left)]
    unused_right = right[rights.index(kept_right) :]
    assert not unused_left or len(unused_left[-1]) > rest
    assert not unused_right or len(unused_right[0]) > rest
    if unused_left and unused_right:
        longest = max(map(len, [*left, *right]))
        assert abs(len(kept_left) - len(kept_right)) < 2 * longest


@given(single, single, st.integers(0, 30))
def test_context_of_single_subwords_alternates_between_sides(left, right, room):
    """A simple loop takes one from the right, one from the left, and so on."""
    taken_left, taken_right = 0, 0
    for _ in range(room):
        if taken_right < len(right) and (taken_right <= taken_left or taken_left == len(left)):
            taken_right += 1
        elif taken_left < len(left):
            taken_left += 1
    expected = flat(left[len(left) - taken_left :]), flat(right[:taken_right])
    assert fit_context(left, right, room) == expected


def test_room_that_a_long_word_cannot_use_goes_to_the_other_side():
    assert fit_context([(1,)] * 9, [(2,) * 8], 6) == ([1] * 6, [])
    assert fit_context([(1,) * 8], [(2,)] * 9, 6) == ([], [2] * 6)


@pytest.mark.parametrize("room", [0, 1])
def test_no_neighbours_give_no_context(room):
    assert fit_context([], [], room) == ([], [])


def test_windows_have_the_entities_inside_them() -> None:
    """Each entity is owned by one window, which has its middle."""
    entities = [Entity(at, at + 1 + at % 7, "A") for at in range(0, 390, 3)]
    sentence = Sentence([str(at) for at in range(400)], entities, pos=["N"] * 400)
    parts = split_sentence(sentence, [1] * 400, 200)
    assert len(parts) > 3
    owned = []
    for part in parts:
        assert part.sentence.words == sentence.words[part.start : part.start + len(part.sentence)]
        assert len(part.sentence.pos) == len(part.sentence) == part.size <= 128
        for entity in part.sentence.entities:
            assert part.sentence.words[entity.start] == str(part.start + entity.start)
            if part.owns(entity):
                owned.append((part.start + entity.start, part.start + entity.end))
    assert sorted(owned) == [entity.span for entity in entities]
    assert split_sentence(sentence, [1] * 400, 400)[0].sentence is sentence
    assert len(split_sentence(sentence, [1] * 400, None)) > 1
    short = Sentence(["a"] * 256)
    assert [part.sentence for part in split_sentence(short, [1] * 256, None)] == [short]


# Blocks


@st.composite
def parts_of_documents(draw):
    """Sentences of documents and of none, some without words, one after another, and a limit."""
    parts = []
    for number in range(draw(st.integers(0, 12))):
        sizes = draw(st.lists(st.integers(1, 4), max_size=5))
        words = [f"{number}-{index}" for index in range(len(sizes))]
        doc, left = draw(st.sampled_from(["a", "a", "a", "b", "", None])), draw(st.sampled_from(["", "x"]))
        sentence = Sentence(words, doc=doc, left=left)
        parts += split_sentence(sentence, sizes, 1000)
    return parts, draw(st.integers(0, 30))


def remove_context(parts):
    return [replace(part, sentence=replace(part.sentence, left=(), right=())) for part in parts]


@given(parts_of_documents())
def test_blocks_are_the_longest_runs_of_a_document_that_fit(case):
    parts, limit = case
    parts_of_blocks = list(join_blocks(parts, limit))
    if not limit:
        assert parts_of_blocks == parts
        return
    assert remove_context(parts_of_blocks) == remove_context(parts)
    start = 0
    while start < len(parts):
        end = start + 1  # adds one sentence at a time, and measures the whole block each time
        while (
            end < len(parts)
            and parts[start].sentence.doc is not None
            and parts[end].sentence.doc == parts[start].sentence.doc
            and sum(max(1, part.size) for part in parts[start : end + 1]) <= limit
        ):
            end += 1
        for index in range(start, end):
            sentence = parts_of_blocks[index].sentence
            assert list(sentence.left) == [w for part in parts[start:index] for w in part.sentence.words]
            assert list(sentence.right) == [w for part in parts[index + 1 : end] for w in part.sentence.words]
        start = end


@given(parts_of_documents())
def test_sentences_of_a_block_are_grouped(case):
    parts, limit = case
    sentences = [part.sentence for part in join_blocks(parts, limit) if part.sentence.words]
    if not limit:
        sentences = [replace(sentence, left=()) for sentence in sentences]
    groups = group_blocks(sentences)
    assert [index for group in groups for index in group] == list(range(len(sentences)))
    blocks = [{s.left + s.words + s.right for s in map(sentences.__getitem__, group)} for group in groups]
    assert all(len(words) == 1 for words in blocks)
    assert len({next(iter(words)) for words in blocks}) == len(blocks)


def test_blocks_need_no_more_than_the_next_sentence():
    """Sentences are read from a stream: a block is complete as soon as the next one does not fit."""
    numbers = []

    def stream():
        for number in itertools.count():
            numbers.append(number)
            yield split_sentence(Sentence(["a"] * 10, doc="a"), [1] * 10, 1000)[0]

    blocks = join_blocks(stream(), 35)
    assert [len(next(blocks).sentence.left) for _ in range(4)] == [0, 10, 20, 0]
    assert len(numbers) == 7


def test_windows_of_a_long_sentence_are_not_joined():
    long = Sentence([str(number) for number in range(50)], doc="a")
    after = Sentence(["after"], doc="a")
    parts = [part for one in (long, after) for part in split_sentence(one, [1] * len(one), 20)]
    assert [part.sentence.left for part in join_blocks(parts, 1000)] == [()] * len(parts)
