"""Sentences that are too long for the engine: windows, and entities where they meet."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.data.entity import Entity, Sentence
from fencepost.runtime.loading import load
from fencepost.runtime.pytorch import make_predictor
from fencepost.runtime.recogniser import Recogniser
from tests.runtime import models
from tests.runtime.doubles import Double, chance, everything, marking

PHRASES = (("Ada",), ("Ada", "Byron"), ("of", "the", "Royal"), ("Byron", "Ada"))
WORDS = ["Ada", "Byron", "of", "the", "Royal", "Society"]


def predict(engine: Double, words: list[str]) -> tuple[Entity, ...]:
    [sentence] = Recogniser(engine).predict([Sentence(words)])
    assert list(sentence.words) == words
    return tuple(sentence.entities)


def whole(words: list[str], *phrases: tuple[str, ...]) -> tuple[Entity, ...]:
    """Return the entities of the sentence without windows."""
    return Sentence(words, list(marking(*phrases)(Sentence(words)))).entities


@settings(max_examples=150)
@given(
    words=st.lists(st.sampled_from(WORDS), max_size=120),
    room=st.integers(24, 60),
    sizes=st.lists(st.integers(1, 2), min_size=6, max_size=6),
)
def test_windows_neither_lose_nor_duplicate_entities(words: list[str], room: int, sizes: list[int]) -> None:
    size = dict(zip(WORDS, sizes, strict=True))
    engine = Double(marking(*PHRASES), room=room, size=size.__getitem__)
    assert predict(engine, words) == whole(words, *PHRASES)
    if sum(size[word] for word in words) > room:
        assert len(engine.sentences) > 1


@settings(max_examples=60)
@given(words=st.lists(st.sampled_from([*WORDS, "x" * 12, "y" * 90]), max_size=60), room=st.integers(1, 20))
def test_single_words_are_predicted_in_any_room(words: list[str], room: int) -> None:
    """This includes a word that is larger than the room, of which the engine sees only a part."""
    every = tuple((word,) for word in sorted(set(words)))
    engine = Double(marking(*every), room=room, size=len)
    assert predict(engine, words) == whole(words, *every)


def test_long_entity_is_predicted_at_any_position() -> None:
    """The entity is shorter than the overlap of two windows."""
    phrase = tuple(f"w{number}" for number in range(20))
    for before in range(150):
        words = ["x"] * before + list(phrase) + ["x"] * (150 - before)
        engine = Double(marking(phrase), room=60)
        assert predict(engine, words) == whole(words, phrase), before


@pytest.mark.parametrize("select", ["flat", "nested"])
@settings(max_examples=30)
@given(length=st.integers(20, 150), room=st.integers(4, 40), seed=st.integers(0, 10**6))
def test_entities_of_different_windows_do_not_clash(select: str, length: int, room: int, seed: int) -> None:
    words = [f"w{number}" for number in range(length)]
    entities = predict(Double(chance(select, seed), room=room, select=select), words)
    assert entities
    for index, one in enumerate(entities):
        for other in entities[index + 1 :]:
            assert not one.crosses(other)
            assert select == "nested" or one.end <= other.start


@pytest.mark.parametrize("select", ["keep-all", "soft-nms"])
def test_keep_all_and_soft_nms_keep_crossing_entities(select: str) -> None:
    words = [f"w{number}" for number in range(300)]
    entities = predict(Double(chance("keep-all", 0), room=40, select=select), words)
    assert any(one.crosses(other) for one in entities for other in entities)
    assert len({entity.key for entity in entities}) == len(entities)


@pytest.mark.parametrize("room", [None, 100, 511])
def test_predicts_5000_words_in_windows(room: int | None) -> None:
    words = [WORDS[number * number % 6] for number in range(5000)]
    engine = Double(marking(*PHRASES), room=room)
    assert predict(engine, words) == whole(words, *PHRASES)
    assert max(map(len, engine.sentences)) <= (room or 256)


def test_long_sentence_does_not_affect_others() -> None:
    """Windows keep their parts of speech, but have no neighbouring sentences."""
    long = Sentence(WORDS * 30, doc="d", pos=WORDS * 30)
    short = Sentence(["Ada", "met"], doc="d", pos=["Ada", "met"])
    engine = Double(marking(*PHRASES), room=24, context=1)
    sentences = [short, long, short, Sentence([]), long]
    predicted = list(Recogniser(engine).predict(sentences))
    assert [sentence.with_entities(()) for sentence in predicted] == sentences
    for sentence in predicted:
        assert sentence.entities == whole(list(sentence.words), *PHRASES)
    cut = [sentence for sentence in engine.sentences if len(sentence) > 2]
    assert len(cut) > 10
    assert all(sentence.pos == sentence.words for sentence in engine.sentences if sentence.words)
    assert not any(sentence.left or sentence.right for sentence in cut)


def test_offsets_in_a_long_text_are_correct() -> None:
    text = "  ".join(["Ada Byron of the Royal Society"] * 100)
    spans = Recogniser(Double(everything, room=30))(text)
    assert all(text[span.start : span.end] == span.text for span in spans)
    words = [span.text for span in spans if span.text in WORDS]
    assert words == WORDS * 100


@pytest.mark.parametrize("engine", ["pytorch", "onnx"])
def test_model_predicts_5000_words(engine: str, request) -> None:
    ner = request.getfixturevalue(engine)
    words = ["Ada", "met", "Charles", "in", "London"] * 1000
    [sentence] = ner.predict([Sentence(words)])
    assert len({entity.key for entity in sentence.entities}) == len(sentence.entities)
    names = {(at, at + 1) for at in range(5000) if words[at] in ("Ada", "Charles", "London")}
    assert (
        len(names & {entity.span for entity in sentence.entities}) > 1500
    )  # it was trained on shorter sentences


def test_transformer_with_a_small_window_predicts_long_sentences(tmp_path) -> None:
    """A sentence that fits has the same entities as without windows."""
    encoder = {"name": str(models.save_bert(tmp_path)), "lstm": {"size": 0}, "window": 16}
    model = models.random_model("boundary-smoothing", encoder)
    folder = models.saved(model, tmp_path / "model")
    sentences = [*models.sentences(12, 30), Sentence(["x" * 300, "Ada"]), Sentence(["ß" * 70])]
    on_torch, on_graphs = (load(folder, engine=engine) for engine in ("pytorch", "onnx"))
    ours, theirs = (list(ner.predict(sentences)) for ner in (on_torch, on_graphs))
    assert [[e.key for e in s.entities] for s in ours] == [[e.key for e in s.entities] for s in theirs]
    assert sum(len(sentence.entities) for sentence in ours) > 20
    inputs = model.encoder.inputs
    assert max(sum(inputs.sizes(sentence.words)) for sentence in sentences) > inputs.room
    for sentence, predicted in zip(sentences, ours, strict=True):
        if sentence.words and sum(inputs.sizes(sentence.words)) <= inputs.room:
            [expected] = make_predictor(model).predict_entities([sentence])
            assert [e.key for e in predicted.entities] == [e.key for e in expected]
