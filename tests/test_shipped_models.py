"""The shipped models: cards, folders and their script agree; how names are derived from mentions."""

from __future__ import annotations

import json

import pytest

import fencepost
from benchmarks.everyday import OTHER_LANGUAGES, TEXTS, read_texts, score_everyday
from benchmarks.names import change_words, find_names, guess_tags, map_types, vary_case
from benchmarks.shipped_model import RECIPES, SCORES, drop_final_punctuation, list_files, make_card, misspell
from fencepost import Entity, Sentence
from fencepost.config import Config
from fencepost.runtime.folder import compare_sums, files_of, read_saved_config, read_sums
from fencepost.runtime.loading import find_model

# Card, folder and script


@pytest.mark.parametrize("name", RECIPES)
def test_card_folder_and_script_agree(name) -> None:
    folder, result = RECIPES[name].target, json.loads(SCORES.read_text(encoding="utf-8"))[name]
    assert find_model(name).resolve() == folder
    assert (folder / "README.md").read_text(encoding="utf-8") == make_card(name)
    sums = read_sums(folder)
    assert sums is not None
    assert set(compare_sums(folder, sums).values()) == {"ok"}
    assert {*map(str, list_files(folder)), "README.md"} == set(map(str, files_of(folder))) - {"SHA256SUMS"}
    saved = read_saved_config(folder)
    assert list(saved.types) == list(result["by_type"])
    assert result["settings"] == list(RECIPES[name].settings)
    recipe = Config.compose(changes=result["settings"])
    config = saved.parse_config()
    chosen = {  # by the width of the encoder and the processor
        name: getattr(config.training, name) for name in ("encoder_learning_rate", "precision")
    }
    assert config.method.name == recipe.method.name
    assert config.training == recipe.training.model_copy(update=chosen)
    assert config.predict.threshold == result["threshold"]


def test_model_names_predicts_only_names() -> None:
    document = fencepost.load()("Apple CEO Tim Cook met her at the school in Toronto's centre.")
    assert [(entity.text, entity.type) for entity in document] == [
        ("Apple", "organization"),
        ("Tim Cook", "person"),
        ("Toronto", "place"),
    ]
    assert not fencepost.load()("She took the dog to the school. Best regards")


def test_model_mentions_predicts_pronouns_and_descriptions() -> None:
    document = fencepost.load("mentions")("She saw the old house in London.")
    assert {"She", "London"} <= {entity.text for entity in document}
    assert any(entity.text.startswith("the old house") for entity in document)


# Names of mentions


def make_sentence(text: str, *mentions: tuple[int, int, str]) -> Sentence:
    """Return a sentence of words with tags, `word/TAG`, and mentions."""
    words, tags = zip(*(part.rsplit("/", 1) for part in text.split()), strict=True)
    return Sentence(words, [Entity(*mention) for mention in mentions], pos=tags)


@pytest.mark.parametrize(
    ("text", "mentions", "names"),
    [
        (
            "Apple/NNP CEO/NNP Tim/NNP Cook/NNP left/VBD",
            [(0, 4, "person"), (0, 1, "organization")],
            ["Apple organization", "Tim Cook person"],
        ),
        (
            "in/IN the/DT University/NNP of/IN Toronto/NNP 's/POS garden/NN",
            [(1, 6, "organization"), (4, 5, "place"), (1, 7, "place")],
            ["University of Toronto organization", "Toronto place"],
        ),
        ("she/PRP met/VBD the/DT president/NN of/IN France/NNP", [(0, 1, "person"), (2, 6, "person")], []),
        ("the/DT New/NNP York/NNP skyline/NN", [(0, 4, "abstract"), (1, 3, "place")], ["New York place"]),
        ("Baghdad/NNP ,/, Iraq/NNP", [(0, 3, "place"), (2, 3, "place")], ["Baghdad place", "Iraq place"]),
        ("on/IN May/NNP 18/CD ,/, 2015/CD", [(1, 5, "time")], ["May 18 , 2015 time"]),
        ("for/IN two/CD hours/NNS in/IN the/DT 1990s/NNS", [(1, 3, "time"), (4, 6, "time")], ["1990s time"]),
        ("4/CD July/NNP 1831/CD", [(0, 3, "time")], ["4 July 1831 time"]),
        (
            "Ada/NNP and/CC Bob/NNP",
            [(0, 3, "person"), (0, 1, "person"), (2, 3, "person")],
            ["Ada person", "Bob person"],
        ),
        (
            "by/IN Food/NNP and/CC Drink/NNP Festival/NNP",
            [(1, 5, "event")],
            ["Food and Drink Festival event"],
        ),
        ("hear/VB The/DT Beatles/NNPS", [(1, 3, "organization")], ["The Beatles organization"]),
        ("The/DT Beatles/NNPS", [(0, 2, "organization")], ["Beatles organization"]),
        (
            "France/NNP 's/POS minister/NN Gérald/NNP Darmanin/NNP",
            [(0, 5, "person"), (0, 2, "place")],
            ["France place", "Gérald Darmanin person"],
        ),
        (
            "Ann/NNP Chiang/NNP of/IN DAB/NNP",
            [(0, 4, "person"), (3, 4, "organization")],
            ["Ann Chiang person", "DAB organization"],
        ),
        ("Figure/NNP 2/CD", [(0, 2, "abstract")], []),
        ("President/NNP", [(0, 1, "person")], []),
        ("a/DT glass/NN of/IN Chardonnay/NNP", [(3, 4, "plant")], ["Chardonnay object"]),
    ],
)
def test_find_names_reduces_mentions_to_names(text, mentions, names) -> None:
    sentence = find_names(make_sentence(text, *mentions))
    assert [f"{sentence.phrase(e)} {e.type}" for e in sentence.entities] == names


def test_guessed_tags_find_capitalised_names() -> None:
    sentence = Sentence(
        ["She", "met", "the", "Pope", "in", "Rome", "'s", "centre"],
        [Entity(0, 1, "person"), Entity(2, 4, "person"), Entity(5, 7, "place"), Entity(5, 8, "place")],
    )
    converted = find_names(guess_tags(sentence))
    assert [converted.phrase(entity) for entity in converted.entities] == ["Pope", "Rome"]


def test_types_of_tweets_are_mapped() -> None:
    sentence = map_types(Sentence(["Sony", "x"], [Entity(0, 1, "corporation")]))
    assert [entity.type for entity in sentence.entities] == ["organization"]
    assert sentence.annotated_types == {"object", "organization", "person", "place"}


# Changed texts


def test_vary_case_changes_a_share_of_the_sentences() -> None:
    sentences = [Sentence(["Ada", "left"], [Entity(0, 1, "person")]) for _ in range(1000)]
    words = [sentence.words for sentence in vary_case(sentences, 0.2, seed=1)]
    assert 150 < words.count(("ada", "left")) < 250
    assert 25 < words.count(("ADA", "LEFT")) < 75
    assert words.count(("Ada", "left")) == 1000 - words.count(("ada", "left")) - words.count(("ADA", "LEFT"))


def test_changes_of_texts_keep_entities_and_word_lengths() -> None:
    sentence = Sentence(["Somebody", "visited", "Copenhagen", "."] * 5, [Entity(2, 3, "place")])
    for variant in (misspell(sentence), change_words(sentence, str.upper)):
        assert variant.entities == sentence.entities
        assert variant.words != sentence.words
        assert [len(word) for word in variant.words] == [len(word) for word in sentence.words]
    assert misspell(sentence) == misspell(sentence)
    assert drop_final_punctuation(sentence).words == sentence.words[:-1]
    inside = Sentence(["U", "."], [Entity(0, 2, "place")])
    assert drop_final_punctuation(inside) == inside


# The everyday texts


def test_offsets_of_everyday_texts_match_their_names() -> None:
    rows = read_texts(TEXTS)
    assert len(rows) == 60
    for row in (*rows, *read_texts(OTHER_LANGUAGES)):
        for name in (*row["names"], *row["optional"]):
            assert row["text"][name["start"] : name["end"]] == name["text"]


def test_everyday_scores_count_right_and_wrong_boundaries() -> None:
    class Double:
        """Recogniser of the first expected name of each text, and of its first letter."""

        def __call__(self, text):
            row = next(row for row in rows if row["text"] == text)
            spans = [(name["start"], name["end"], name["type"]) for name in row["names"][:1]]
            spans += [(start, start + 1, "x") for start, _, _ in spans]
            return [type("Span", (), {"start": s, "end": e, "type": t})() for s, e, t in spans]

    rows = read_texts(TEXTS)
    with_names = sum(bool(row["names"]) for row in rows)
    result = score_everyday(Double(), rows)  # type: ignore[arg-type]
    assert result["right_boundaries"] == result["right"] == with_names
    assert (result["output"], result["wrong_boundaries"], result["no_name"]) == (
        2 * with_names,
        with_names,
        0,
    )
