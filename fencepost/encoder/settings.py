"""Settings of the encoder, and of the conversion of texts to sentences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from fencepost.data.entity import Sentence
from fencepost.data.text.lines import Lines
from fencepost.data.text.profile import find_frequent_words, find_usual_scripts
from fencepost.errors import UsageError
from fencepost.settings import MOST_LAYERS, WIDEST, Settings

LARGEST_WINDOW = 1_000_000
"""Maximum number of sub-words in a window that settings accept."""

BLOCK = 128
"""Default number of sub-words of the sentences that are read together, for data with documents."""

SHAPE_SIZE = 25
"""Default width of the embedding of a word's shape, for tokenizers that ignore case."""


class LSTMSettings(Settings):
    """Settings of the BiLSTM over the word vectors."""

    size: int = Field(
        200, ge=0, le=WIDEST, multiple_of=2, description="Width of both directions together; 0 for none."
    )
    layers: int = Field(1, ge=1, le=MOST_LAYERS, description="Number of layers.")
    dropout: float = Field(0.5, ge=0, lt=1, description="Dropout before the BiLSTM and between its layers.")


class ScratchSettings(Settings):
    """Settings of the encoder that is trained from scratch (`encoder.name: scratch`)."""

    word_size: int = Field(100, ge=0, le=WIDEST, description="Width of the word embedding; 0 for none.")
    characters: Literal["cnn", "lstm", "none"] = Field(
        "cnn", description="Network over the characters of a word."
    )
    character_size: int = Field(30, ge=1, le=WIDEST, description="Width of the character embedding.")
    character_output: int = Field(
        50, ge=2, le=WIDEST, multiple_of=2, description="Width of the output of the network over characters."
    )
    min_count: int = Field(
        1, ge=1, description="Minimum count of a word in training; rarer words are unknown."
    )
    word_dropout: float = Field(
        0.05, ge=0, lt=1, description="Share of words replaced by the unknown word in training."
    )


class FeatureSettings(Settings):
    """Settings of features that extend the word vectors."""

    characters: int = Field(
        0, ge=0, le=WIDEST, multiple_of=2, description="Width of a BiLSTM over characters; 0 for none."
    )
    shape: int | None = Field(
        None,
        ge=0,
        le=WIDEST,
        description="Width of the embedding of a word's shape (case, digits, punctuation); 0 for none; by "
        "default 25 if the encoder's tokenizer ignores case, else 0.",
    )
    pos: int = Field(0, ge=0, le=WIDEST, description="Width of the part-of-speech embedding; 0 for none.")
    vectors: Path | None = Field(None, description="File with word vectors in GloVe's text format.")
    vectors_limit: int = Field(
        200_000,
        ge=0,
        description="Number of vectors to read from this file, besides those of words in the training data.",
    )
    train_vectors: bool = Field(False, description="Whether to train the word vectors.")


class EncoderSettings(Settings):
    """Settings of the encoder, which turns words into vectors."""

    name: str = Field(
        "minilm",
        min_length=1,
        description="Encoder: minilm, scratch, a folder, or a name on the Hugging Face Hub.",
    )
    pooling: Literal["mean", "max", "first"] = Field(
        "mean", description="Pooling of the vectors of a word's sub-words."
    )
    layers: int = Field(
        1, ge=1, le=MOST_LAYERS, description="Number of last layers whose mean is the encoder's output."
    )
    depth: int | None = Field(
        None,
        ge=1,
        le=MOST_LAYERS,
        description="Number of lowest layers that are used, for a smaller and faster model; by default all.",
    )
    frozen_layers: int = Field(
        0, ge=0, le=MOST_LAYERS, description="Number of lowest layers that are frozen."
    )
    freeze_embeddings: bool = Field(False, description="Whether the embedding layer is frozen.")
    attention_dropout: float = Field(
        0.0, ge=0, lt=1, description="Dropout of a pretrained encoder's attention weights; slow on CPUs."
    )
    context: int = Field(
        0, ge=0, le=1000, description="Number of neighbouring sentences on each side that the encoder reads."
    )
    block: int | None = Field(
        None,
        ge=0,
        le=LARGEST_WINDOW,
        description="Maximum number of sub-words of consecutive sentences of a document that the encoder "
        "reads together, as context of each other; 0 to read each by itself; by default 128 if the training "
        "data has documents of several sentences.",
    )
    window: int | None = Field(
        None,
        ge=16,
        le=LARGEST_WINDOW,
        description="Number of sub-words that the encoder reads at once; by default its maximum.",
    )
    lstm: LSTMSettings = LSTMSettings()
    scratch: ScratchSettings = ScratchSettings()
    features: FeatureSettings = FeatureSettings()

    @model_validator(mode="after")
    def _check_context(self) -> Self:
        if self.block and self.context:
            raise UsageError("encoder.block and encoder.context are both set; set one of them to 0")
        return self


class TextProfile(Settings):
    """Statistics of the training text, used to detect text in another language."""

    words: tuple[str, ...] = Field((), description="Most frequent words, in lower case.")
    share: float = Field(0.0, ge=0, le=1, description="Share of these words among all words with letters.")
    scripts: tuple[str, ...] = Field((), description="Scripts of the letters, by their Unicode names.")


class TextSettings(Settings):
    """Settings of the conversion of texts to sentences in prediction."""

    language: str | None = Field(
        None,
        min_length=2,
        pattern=r"^[a-z]{2,3}(-[A-Za-z]{2,8})?$",  # part of the name of a file, or of a module of spaCy
        description="Language whose rules split texts, such as en, de or zh (single characters); by default "
        "zh if the training words are Chinese characters, else en.",
    )
    lines: Lines = Field(
        "auto",
        description="Line breaks that end a sentence: all (break), only blank lines (join), or those of "
        "lists, forms, tables and other blocks of short lines, but not of wrapped paragraphs (auto).",
    )
    profile: TextProfile | None = Field(
        None, description="Statistics of the training text; by default computed in training."
    )

    def fit_to(self, sentences: Sequence[Sentence]) -> Self:
        """Return these settings with language and profile of the training words, if they are not set."""
        words = [word for sentence in sentences for word in sentence.words]
        characters = sum(len(word) == 1 and "\u3400" <= word <= "\u9fff" for word in words)
        language = "zh" if 2 * characters > len(words) else "en"
        frequent, share = find_frequent_words(words)
        profile = TextProfile(words=tuple(frequent), share=round(share, 4), scripts=find_usual_scripts(words))
        return self.model_copy(
            update={"language": self.language or language, "profile": self.profile or profile}
        )
