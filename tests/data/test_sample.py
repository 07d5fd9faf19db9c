"""The shipped sample corpus follows its guideline, and the generator reproduces it."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import combinations, pairwise
from typing import Any

import pytest

from fencepost.data.entity import Entity, Sentence
from fencepost.data.sample import PARTS, get_path
from fencepost.errors import UsageError
from tools.sample_corpus.generate import Dice, Piece, Writer, generate, to_json
from tools.sample_corpus.lexicon import NAMES, RULES, TOPICS

Row = dict[str, Any]

SIZES = {"train": 900, "dev": 150, "test": 150}
TYPES = {"person", "organization", "place", "work", "event", "time", "product"}
NAME_WORDS = {word for names in NAMES.values() for name in names for word in name.split()}
TWO_TYPES = (
    "Jordan Paris Victoria Florence Ford May March April June August Austin Mercury Chelsea "
    "Lincoln Orange Madison Georgia Sydney Hamilton Kent Chester Carlisle Phoenix Jaguar Amazon "
    "Apple Saturn Washington Virginia Dallas Lancaster Sofia"
)
ALSO_NO_ENTITY = "Will May March Orange Apple Bank Reading Nice Hope Rose Mark Page Bath Cork Split"


@pytest.fixture(scope="module")
def corpus() -> dict[str, list[Row]]:
    return {
        split: [json.loads(line) for line in get_path(split).read_text("utf-8").splitlines()]
        for split in PARTS
    }


@pytest.fixture(scope="module")
def rows(corpus: dict[str, list[Row]]) -> list[Row]:
    return [row for split in PARTS for row in corpus[split]]


def spans(row: Row) -> list[tuple[int, int]]:
    return [(entity["start"], entity["end"]) for entity in row["entities"]]


def depth(row: Row) -> int:
    """Return the depth of nested entities."""
    return max((sum(a <= start and end <= b for a, b in spans(row)) for start, end in spans(row)), default=0)


def innermost_type(row: Row, index: int) -> str | None:
    covering = [e for e in row["entities"] if e["start"] <= index < e["end"]]
    if not covering:
        return None
    innermost: str = min(covering, key=lambda e: e["end"] - e["start"])["type"]
    return innermost


def text(row: Row) -> str:
    return "".join(word + " " * space for word, space in zip(row["words"], row["space_after"], strict=True))


def test_generate_reproduces_the_shipped_files() -> None:
    for split, sentences in generate().items():
        remade = "".join(to_json(sentence) + "\n" for sentence in sentences)
        assert remade.encode("utf-8") == get_path(split).read_bytes(), split


def test_refuses_an_unknown_part() -> None:
    with pytest.raises(UsageError, match="no part 'valid'; it has train, dev, test"):
        get_path("valid")


def test_parts_have_their_sizes_and_keys(corpus: dict[str, list[Row]]) -> None:
    assert {split: len(rows) for split, rows in corpus.items()} == SIZES
    for rows in corpus.values():
        for row in rows:
            assert list(row) == ["id", "doc", "words", "entities", "space_after"]
            assert all(list(entity) == ["start", "end", "type"] for entity in row["entities"])


def test_every_row_is_a_valid_nested_sentence(rows: list[Row]) -> None:
    for row in rows:
        entities = [Entity(**entity) for entity in row["entities"]]
        sentence = Sentence(row["words"], entities, space_after=row["space_after"])
        assert list(sentence.entities) == entities
        assert len({entity.key for entity in entities}) == len(entities)
        assert not any(a.crosses(b) for a, b in combinations(entities, 2)), row["id"]


def test_each_part_has_every_type(corpus: dict[str, list[Row]]) -> None:
    for rows in corpus.values():
        assert {entity["type"] for row in rows for entity in row["entities"]} == TYPES


def test_many_sentences_have_nested_entities(corpus: dict[str, list[Row]]) -> None:
    for split, rows in corpus.items():
        assert sum(depth(row) >= 2 for row in rows) > 0.3 * len(rows), split
        assert sum(depth(row) >= 3 for row in rows) > 0.05 * len(rows), split


def test_entities_nest_in_entities_of_the_same_type(corpus: dict[str, list[Row]]) -> None:
    types = {
        a["type"]
        for row in corpus["train"]
        for a in row["entities"]
        for b in row["entities"]
        if a is not b and a["type"] == b["type"] and b["start"] <= a["start"] and a["end"] <= b["end"]
    }
    assert types >= {"person", "organization", "place", "time"}


def test_entities_have_1_to_12_words(corpus: dict[str, list[Row]]) -> None:
    lengths: dict[int, int] = defaultdict(int)
    for row in corpus["train"]:
        for start, end in spans(row):
            lengths[end - start] += 1
    assert sorted(lengths) == list(range(1, 13))
    assert min(lengths.values()) >= 3


def test_sentences_have_4_to_35_words(rows: list[Row]) -> None:
    lengths = {len(row["words"]) for row in rows}
    assert min(lengths) == 4
    assert 30 <= max(lengths) <= 35


def test_about_an_eighth_of_the_sentences_have_no_entity(corpus: dict[str, list[Row]]) -> None:
    for split, rows in corpus.items():
        share = sum(not row["entities"] for row in rows) / len(rows)
        assert 0.08 <= share <= 0.16, split


@pytest.mark.parametrize("split", ["dev", "test"])
def test_many_names_never_occur_in_train(corpus: dict[str, list[Row]], split: str) -> None:
    known = {word for row in corpus["train"] for word in row["words"]}
    names = [
        word
        for row in corpus[split]
        for index, word in enumerate(row["words"])
        if word in NAME_WORDS and innermost_type(row, index)
    ]
    assert 0.4 <= sum(name not in known for name in names) / len(names) <= 0.5


def test_ambiguous_words_have_several_types(corpus: dict[str, list[Row]]) -> None:
    types: dict[str, set[str | None]] = defaultdict(set)
    for row in corpus["train"]:
        for index, word in enumerate(row["words"]):
            types[word].add(innermost_type(row, index))
    for word in TWO_TYPES.split():
        assert len(types[word] - {None}) >= 2, word
    for word in ALSO_NO_ENTITY.split():
        assert None in types[word], word
        assert types[word] - {None}, word


def test_equal_words_in_an_equal_context_are_annotated_alike(rows: list[Row]) -> None:
    """No contradictions: with three words on each side equal, a span has equal types, or none."""
    by_context: dict[tuple[tuple[str, ...], int], tuple[set[str], str]] = {}
    for row in rows:
        types: dict[tuple[int, int], set[str]] = defaultdict(set)
        for entity in row["entities"]:
            types[entity["start"], entity["end"]].add(entity["type"])
        words = ("", "", "", *row["words"], "", "", "")
        for start, end in combinations(range(len(row["words"]) + 1), 2):
            key = (words[start : end + 6], end - start)
            first_types, first_row = by_context.setdefault(key, (types[start, end], row["id"]))
            assert first_types == types[start, end], (key, first_row, row["id"])


def test_no_sentence_occurs_twice(rows: list[Row]) -> None:
    sentences = [" ".join(row["words"]).casefold() for row in rows]
    assert len(set(sentences)) == len(sentences)


def test_documents_have_4_to_8_numbered_sentences(corpus: dict[str, list[Row]]) -> None:
    for split, rows in corpus.items():
        documents: dict[str, list[Row]] = defaultdict(list)
        for row in rows:
            documents[row["doc"]].append(row)
        for name, sentences in documents.items():
            assert name.startswith(f"{split}-")
            assert 4 <= len(sentences) <= 8, name
            assert [row["id"] for row in sentences] == [f"{name}-{index}" for index in range(len(sentences))]


def test_documents_repeat_persons_with_shorter_names(corpus: dict[str, list[Row]]) -> None:
    shortened = set()
    for first, second in pairwise(corpus["train"]):
        full = {
            word
            for entity in first["entities"]
            if entity["type"] == "person"
            for word in first["words"][entity["start"] : entity["end"]]
        }
        short = {
            second["words"][entity["start"]]
            for entity in second["entities"]
            if entity["type"] == "person" and entity["end"] - entity["start"] == 1
        }
        if first["doc"] == second["doc"] and full & short:
            shortened.add(first["doc"])
    assert len(shortened) > 50


def test_text_has_natural_spacing_and_punctuation(rows: list[Row]) -> None:
    for row in rows:
        line = text(row)
        assert not any(f" {mark}" in line for mark in [*",.;:?!)”", "'s"]), line
        assert not any(f"{mark} " in line for mark in "(“"), line
        assert "  " not in line
        assert line == line.strip()
        assert line.lstrip("“")[0].isupper(), line
        assert line[-1] in ".?", line


def test_articles_match_their_nouns(rows: list[Row]) -> None:
    for row in rows:
        for article, noun in pairwise(row["words"]):
            if article.casefold() == "an":
                assert noun[0].casefold() in "aeiou" or noun == "hour", row["id"]
            if article.casefold() == "a":
                assert noun[0].casefold() not in "aeiou" or noun.casefold() == "university", row["id"]


def test_joined_pieces_shift_entities() -> None:
    bank = Piece(("the", "Bank", "of")) + Piece(("Norway",), ((0, 1, "place"),))
    sentence = Piece(("Near",)) + bank.mark(0, "organization")
    assert sentence.words == ("Near", "the", "Bank", "of", "Norway")
    assert set(sentence.entities) == {(4, 5, "place"), (1, 5, "organization")}


@pytest.mark.parametrize("split", PARTS)
def test_every_template_can_be_written(split: str) -> None:
    writer = Writer(Dice(0), split)
    rules = [template for simple, deep in RULES.values() for template in (*simple, *deep)]
    for template in (*rules, *(template for topic in TOPICS.values() for template in topic)):
        piece = writer.write(template)
        assert not any(set("[]{}") & set(word) for word in piece.words), template
