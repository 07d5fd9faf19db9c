"""`fencepost adapt`: adapt a pretrained encoder to raw text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from fencepost.cli.frame import OUTPUT, Json, check_json_target, command, explain_resume, output_result
from fencepost.cli.groups import REQUIRED, argument, option
from fencepost.cli.models import Device, LinesName
from fencepost.cli.options import TextOptions
from fencepost.cli.progress import format_duration
from fencepost.errors import require_extra

if TYPE_CHECKING:
    from fencepost.runtime.prediction.texts import Texts


@command("adapt")
def adapt(
    *,
    encoder: str = argument("ENCODER", "minilm, a folder, or a name on the Hugging Face Hub."),
    texts: str = argument(
        "TEXTS", "Raw text: any file that predict reads. Entities of a corpus are ignored."
    ),
    out: Path = option(REQUIRED, "Folder for the encoder; new or empty.", metavar="FOLDER"),
    reading: TextOptions,
    epochs: int = option(3, "Number of epochs.", min=1),
    batch_size: int = option(32, "Number of sentences in a batch.", min=1),
    learning_rate: float | None = option(
        None, "Highest learning rate. Default: 3e-4, or less for encoders wider than 384."
    ),
    masked: float = option(0.2, "Share of the words that are hidden.", min=0.01, max=0.9),
    seed: int = option(1, "Random seed.", min=0),
    resume: bool = option(False, "Continue an interrupted run in --out.", panel=OUTPUT),
    device: Device = "auto",
    json: Json = None,
) -> None:
    """Adapt a pretrained encoder to raw text, by training it to predict hidden words of the text.

    No annotations are needed. Train a model with the result: fencepost train --encoder FOLDER.

    Example: fencepost adapt minilm texts.txt --out my-encoder
    """
    check_json_target(json)
    with require_extra("train", "adapting an encoder"):
        from fencepost.training import AdaptSettings
        from fencepost.training import adapt as run
    settings = AdaptSettings(
        encoder=encoder,
        epochs=epochs,
        batch_size=batch_size,
        learning_rate="auto" if learning_rate is None else learning_rate,
        masked=masked,
        seed=seed,
    )
    with (
        reading.open(texts) as (stream, _),
        explain_resume("continue with the same command and --resume", out),
    ):
        result = run(
            settings,
            split_words(stream, reading.language, reading.lines),
            out,
            resume=resume,
            quiet=reading.quiet,
            device=device,
            language=reading.language or "en",
        )

    def show() -> None:
        typer.echo(
            f"{result.sentences:,} sentences, {result.steps:,} steps in {format_duration(result.seconds)}: "
            f"loss of hidden words in {result.held_out:,} other sentences {result.loss_before:.2f} before, "
            f"{result.loss_after:.2f} now\n"
            f"the encoder is in {out}; train a model with fencepost train --encoder {out}"
        )

    output_result({"encoder": str(out), **vars(result)}, json, show)


def split_words(texts: Texts, language: str | None, lines: LinesName | None) -> Iterator[Sequence[str]]:
    """Yield the words of each sentence of the texts."""
    from fencepost.data.text import make_splitter

    splitter = make_splitter(language, lines=lines)
    for text in texts:
        if text.sentences is not None:
            yield from (sentence.words for sentence in text.sentences)
        else:
            for words in splitter.sentences(text.text):
                yield [text.text[start:end] for start, end in words]
