"""The settings of the encoder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Self

from pydantic import Field

from fencepost.data.entity import Sentence
from fencepost.data.text.lines import Lines
from fencepost.data.text.profile import find_frequent_words, find_usual_scripts
from fencepost.settings import MOST_LAYERS, WIDEST, Settings

LARGEST_WINDOW = 1_000_000
"""Pieces that settings let an encoder see at once."""


SHAPE_SIZE = 25
"""Width of the embedding of a word's shape, where it is used and not set."""


class LSTMSettings(Settings):
    """A BiLSTM over the word vectors."""

    size: int = Field(
        200, ge=0, le=WIDEST, multiple_of=2, description="Width, both directions together; 0 is none."
    )
    layers: int = Field(1, ge=1, le=MOST_LAYERS)
    dropout: float = Field(0.5, ge=0, lt=1, description="Before the BiLSTM, and between its layers.")


class ScratchSettings(Settings):
    """The encoder that is trained from nothing (`encoder.name: scratch`)."""

    word_size: int = Field(100, ge=0, le=WIDEST, description="Width of the word embedding; 0 is none.")
    characters: Literal["cnn", "lstm", "none"] = "cnn"
    character_size: int = Field(30, ge=1, le=WIDEST, description="Width of the character embedding.")
    character_output: int = Field(
        50, ge=2, le=WIDEST, multiple_of=2, description="Width that the characters add."
    )
    min_count: int = Field(1, ge=1, description="Words that are rarer in training are unknown.")
    word_dropout: float = Field(
        0.05, ge=0, lt=1, description="Share of words taken for unknown in training, so that it is learnt."
    )


class FeatureSettings(Settings):
    """What a word vector may have besides the encoder's; each is off unless asked for."""

    characters: int = Field(
        0, ge=0, le=WIDEST, multiple_of=2, description="Width of a character BiLSTM; 0 is none."
    )
    shape: int | None = Field(
        None,
        ge=0,
        le=WIDEST,
        description="Width of the embedding of a word's shape (case, digits, punctuation); 0 is none. Unless "
        "set, 25 if the encoder's tokenizer does not distinguish case, else 0.",
    )
    pos: int = Field(0, ge=0, le=WIDEST, description="Width of the part-of-speech embedding; 0 is none.")
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
    layers: int = Field(1, ge=1, le=MOST_LAYERS, description="The mean of this many last layers.")
    frozen_layers: int = Field(
        0, ge=0, le=MOST_LAYERS, description="This many of the lowest layers are not trained."
    )
    freeze_embeddings: bool = Field(False, description="The layer below them is not trained either.")
    context: int = Field(
        0, ge=0, le=1000, description="Neighbouring sentences on each side that the encoder sees."
    )
    window: int | None = Field(
        None,
        ge=16,
        le=LARGEST_WINDOW,
        description="Pieces that the encoder sees at once; as many as it can unless set.",
    )
    lstm: LSTMSettings = LSTMSettings()
    scratch: ScratchSettings = ScratchSettings()
    features: FeatureSettings = FeatureSettings()


class TextProfile(Settings):
    """What the training text looks like, by which text in another language is noticed."""

    words: tuple[str, ...] = Field((), description="The most frequent words, in lower case.")
    share: float = Field(0.0, ge=0, le=1, description="Their share of all words with letters.")
    scripts: tuple[str, ...] = Field((), description="The scripts of the letters, by their Unicode names.")


class TextSettings(Settings):
    """How raw text becomes sentences and words, when the model is used."""

    language: str | None = Field(
        None,
        min_length=2,
        pattern=r"^[a-z]{2,3}(-[A-Za-z]{2,8})?$",  # it names a file of rules, or a module of spaCy
        description="The language by whose rules texts are split, as en, de or zh (single characters); "
        "unless set, zh if the training words are Chinese characters, else en.",
    )
    lines: Lines = Field(
        "auto",
        description="Line breaks that end a sentence: all (break), none but blank lines (join), or those of "
        "lists, forms, tables and other blocks of short lines, but not of wrapped paragraphs (auto).",
    )
    profile: TextProfile | None = Field(
        None, description="What the training text looks like; unless set, it is made in training."
    )

    def fitted(self, sentences: Sequence[Sentence]) -> Self:
        """Return these settings with the language and the profile of the training words, unless set."""
        words = [word for sentence in sentences for word in sentence.words]
        characters = sum(len(word) == 1 and "\u3400" <= word <= "\u9fff" for word in words)
        usual = "zh" if 2 * characters > len(words) else "en"
        frequent, share = find_frequent_words(words)
        profile = TextProfile(words=tuple(frequent), share=round(share, 4), scripts=find_usual_scripts(words))
        return self.model_copy(
            update={"language": self.language or usual, "profile": self.profile or profile}
        )
