"""The settings of the encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from fencepost.settings import Settings


class LSTMSettings(Settings):
    """A BiLSTM over the word vectors."""

    size: int = Field(200, ge=0, multiple_of=2, description="Width, both directions together; 0 is none.")
    layers: int = Field(1, ge=1)
    dropout: float = Field(0.5, ge=0, lt=1, description="Before the BiLSTM, and between its layers.")


class ScratchSettings(Settings):
    """The encoder that is trained from nothing (`encoder.name: scratch`)."""

    word_size: int = Field(100, ge=0, description="Width of the word embedding; 0 is none.")
    characters: Literal["cnn", "lstm", "none"] = "cnn"
    character_size: int = Field(30, ge=1, description="Width of the character embedding.")
    character_output: int = Field(50, ge=2, multiple_of=2, description="Width that the characters add.")
    min_count: int = Field(1, ge=1, description="Words that are rarer in training are unknown.")
    word_dropout: float = Field(
        0.05, ge=0, lt=1, description="Share of words taken for unknown in training, so that it is learnt."
    )


class FeatureSettings(Settings):
    """What a word vector may have besides the encoder's; each is off unless asked for."""

    characters: int = Field(0, ge=0, multiple_of=2, description="Width of a character BiLSTM; 0 is none.")
    pos: int = Field(0, ge=0, description="Width of the part-of-speech embedding; 0 is none.")
    vectors: Path | None = Field(None, description="Word vectors in GloVe's text format.")
    vectors_limit: int = Field(
        200_000,
        ge=0,
        description="How many lines of that file to keep, besides the words of the training data.",
    )
    train_vectors: bool = Field(False, description="Whether the word vectors are trained on.")


class EncoderSettings(Settings):
    """From words to vectors."""

    name: str = Field(
        "minilm", min_length=1, description="minilm, scratch, a folder, or a name on the Hugging Face hub."
    )
    pooling: Literal["mean", "max", "first"] = Field("mean", description="A word's vector from its pieces.")
    layers: int = Field(1, ge=1, description="The mean of this many last layers.")
    frozen_layers: int = Field(0, ge=0, description="This many of the lowest layers are not trained.")
    freeze_embeddings: bool = Field(False, description="The layer below them is not trained either.")
    context: int = Field(0, ge=0, description="Neighbouring sentences on each side that the encoder sees.")
    window: int | None = Field(
        None, ge=16, description="Pieces that the encoder sees at once; as many as it can unless set."
    )
    lstm: LSTMSettings = LSTMSettings()
    scratch: ScratchSettings = ScratchSettings()
    features: FeatureSettings = FeatureSettings()
