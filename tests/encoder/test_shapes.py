"""The shape of a word, which adds case to an encoder that ignores it."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import normalizers

from fencepost.data.entity import Entity, Sentence
from fencepost.encoder.arrays import NAMED, UNKNOWN, get_shape, number_names, number_shapes
from fencepost.encoder.encoder import Encoder
from fencepost.encoder.settings import SHAPE_SIZE, EncoderSettings
from tests.encoder.tiny import save_encoder, wordpiece

SENTENCES = [Sentence(["Paris", "and", "London", "are", "big"] * 3, [Entity(0, 1, "LOC")])]


@pytest.mark.parametrize(
    ("word", "shape"),
    [
        ("paris", "xx"),
        ("Paris", "Xxx"),
        ("A", "X"),
        ("IBM", "XX"),
        ("U.S.", "X.X."),
        ("IL-2", "XX-d"),
        ("iPhone", "xXxx"),
        ("1990s", "ddx"),
        ("...", ".."),
        ("北京", "cc"),
        ("É", "X"),
        ("", ""),
        ("NF-kappaB/p65-x", "XX-xxX/x"),
    ],
)
def test_shapes_equal_those_by_hand(word: str, shape: str) -> None:
    assert get_shape(word) == shape


@given(st.text(max_size=200))
def test_shape_is_short_and_independent_of_the_letters(word: str) -> None:
    shape = get_shape(word)
    assert len(shape) <= 8
    assert all(shape[at : at + 3] != 3 * shape[at] for at in range(len(shape)))
    ascii_only = "".join({"x": "q", "X": "Q", "d": "7", "c": "京"}.get(letter, letter) for letter in shape)
    assert get_shape(ascii_only) == shape


def test_shapes_are_numbered() -> None:
    sentences = [Sentence(["Ada", "met", "IBM"]), Sentence(["U.S."])]
    numbers = number_shapes(sentences, number_names(["xx", "Xxx"]))["shapes"]
    assert numbers.tolist() == [[NAMED + 1, NAMED, UNKNOWN], [UNKNOWN, 0, 0]]


def lowercasing(folder: Path) -> EncoderSettings:
    """Save an encoder whose tokenizer lowercases and return its settings."""
    tokenizer = wordpiece()
    tokenizer.normalizer = normalizers.Lowercase()
    save_encoder("distilbert", folder, tokenizer)
    return EncoderSettings(name=str(folder), lstm={"size": 8})


def test_shapes_are_on_if_the_tokenizer_ignores_case(tmp_path: Path) -> None:
    encoder = Encoder.build(lowercasing(tmp_path), SENTENCES)
    assert encoder.settings.features.shape == SHAPE_SIZE
    assert encoder.known["shapes"] == ["xx", "Xxx"]
    encoder.eval()
    with torch.no_grad():
        upper, lower = (
            encoder(encoder.collate([Sentence([word, "are"])])).vectors for word in ("Paris", "paris")
        )
    assert not torch.allclose(upper, lower)


def test_without_shapes_case_is_lost(tmp_path: Path) -> None:
    settings = lowercasing(tmp_path)
    off = settings.model_copy(update={"features": settings.features.model_copy(update={"shape": 0})})
    encoder = Encoder.build(off, SENTENCES).eval()
    assert "shapes" not in encoder.known
    with torch.no_grad():
        upper, lower = (
            encoder(encoder.collate([Sentence([word, "are"])])).vectors for word in ("Paris", "paris")
        )
    assert torch.equal(upper, lower)


def test_shapes_are_off_if_the_tokenizer_keeps_case(tmp_path: Path) -> None:
    save_encoder("distilbert", tmp_path)  # by bytes
    for name in (str(tmp_path), "scratch"):
        assert Encoder.build(EncoderSettings(name=name), SENTENCES).settings.features.shape == 0


def test_explicit_width_of_shapes_is_kept() -> None:
    settings = EncoderSettings(name="scratch", features={"shape": 6}, lstm={"size": 0})
    encoder = Encoder.build(settings, SENTENCES)
    assert encoder.settings.features.shape == 6
    assert encoder.width == 150 + 6
