"""`fencepost distil`: train a model on annotations and on what another model says about raw text."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path

from fencepost.cli.adapt import split_words
from fencepost.cli.frame import check_json_target, command, explain_resume
from fencepost.cli.groups import argument, option
from fencepost.cli.options import FormatOptions, TextOptions
from fencepost.cli.train import RunOptions, announce_run, output_run
from fencepost.errors import require_extra


@dataclass(frozen=True, kw_only=True)
class DistilOptions(RunOptions):
    """Options of `fencepost distil`."""

    title = "Data"

    sentences: int | None = option(
        None,
        "Number of raw sentences that the teacher annotates, drawn at random. Default: 4 for each "
        "annotated sentence.",
        min=1,
    )
    layers: int | None = option(
        None,
        "encoder.depth: number of layers of the encoder, from the lowest, that the new model has.",
        panel="Settings",
    )
    text_column: str | None = option(
        None, "Raw text in a table: column with the texts; in JSON: key. Default: text."
    )

    def read_texts(self) -> TextOptions:
        """Return the options for reading raw text; its format is detected."""
        shared = {field.name: getattr(self, field.name) for field in fields(FormatOptions)}
        return TextOptions(
            **shared, text_column=self.text_column, skip_invalid=self.skip_invalid, quiet=self.quiet
        )


@command("distil")
def distil(
    *,
    teacher: Path = argument("TEACHER", "Folder or name of a model with the same types."),
    texts: str = argument(
        "TEXTS", "Raw text: any file that predict reads. Entities of a corpus are ignored."
    ),
    options: DistilOptions,
) -> None:
    """Train a model on annotated sentences, and on raw text that another model, the teacher, annotates.

    The teacher may be a combination, a model with a larger encoder, or a model like the new one. The new
    model may have fewer layers.

    Example: fencepost distil combined texts.txt --train train.jsonl --dev dev.jsonl --out student
    """
    from fencepost.runtime.loading import load

    check_json_target(options.json)
    with require_extra("train", "distilling a model"):
        from fencepost import training
        from fencepost.training.distillation import SOFT_PER_ANNOTATED
    changes = [] if options.layers is None else [f"encoder.depth={options.layers}"]
    config = options.settings(changes, resumed=options.out if options.resume else None)
    out = options.check_sources(options.out, "the model")
    training.check_folder(out, resume=options.resume)
    recogniser = load(teacher, device=options.device)
    parts = options.read_data(config)
    count = options.sentences or SOFT_PER_ANNOTATED * len(parts[0])
    options.say(f"the teacher ({recogniser.method}) annotates up to {count:,} sentences of {texts}")
    announce_run(options, config, parts, count)
    with (
        options.read_texts().open(texts) as (opened, _),
        explain_resume("continue with the same command and --resume", out),
    ):
        training.distil(
            config,
            recogniser,
            split_words(opened, options.language or recogniser.language, options.lines or recogniser.lines),
            parts[0],
            out,
            *parts[1:],
            count=count,
            resume=options.resume,
            quiet=options.quiet,
            at_end=partial(output_run, options, out, parts),
            device=options.device,
        )
