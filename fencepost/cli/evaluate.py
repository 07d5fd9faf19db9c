"""`fencepost evaluate`: compute strict scores of a model or of the predictions in a file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fencepost.cli.frame import Json, check_json_target, command, output_result
from fencepost.cli.groups import argument, option
from fencepost.cli.models import (
    ModelOptions,
    find_text_rules,
    measure_peak_memory,
    read_trained_lengths,
    resolve_model,
)
from fencepost.cli.options import ReadingOptions
from fencepost.cli.scores import Lengths, make_console, print_scores
from fencepost.errors import UsageError

if TYPE_CHECKING:
    from fencepost.evaluation import Evaluation


@command("evaluate")
def evaluate(
    options: ModelOptions,
    reading: ReadingOptions,
    model: str | None = argument("MODEL", "Folder or name of a model.", None),
    data: str | None = argument("DATA", "Corpus to score the model on.", None),
    gold: str | None = option(None, "Instead of a model: file with the gold entities.", metavar="FILE"),
    predicted: str | None = option(
        None,
        "With --gold: file with the same sentences and the predicted entities of any program.",
        metavar="FILE",
    ),
    predicted_format: str | None = option(None, "Format of --predicted. Default: detected from the content."),
    by_length: bool = option(
        False,
        "Add scores by groups of entity lengths, and mark the span lengths that the model was trained "
        "on, if these are not all.",
    ),
    json: Json = None,
) -> None:
    """Score a model on a corpus, or the predictions in a file.

    An entity is correct if its start, end and type are all right.

    Example: fencepost evaluate my-model test.conll --by-length
    """
    check_json_target(json)
    lengths = None
    if model and data and not (gold or predicted or predicted_format):
        model = resolve_model(model)
        facts, result = _score_model(model, data, options, reading)
        lengths = read_trained_lengths(model) if by_length else None
    elif gold and predicted and not (model or reading.skip_invalid or options != ModelOptions()):
        facts, result = _score_files(gold, predicted, predicted_format, reading)
    else:
        raise UsageError(
            "give a model and a corpus (fencepost evaluate MODEL DATA), or two files (fencepost evaluate "
            "--gold FILE --predicted FILE, without --set, --skip-invalid, --engine, --device and --threads)"
        )
    groups = Lengths.from_evaluation(result, lengths) if by_length else None
    scores = result.to_dict()
    more = groups.to_dict(scores["by_length"]) if groups else {}

    def show() -> None:
        console = make_console()
        print_scores(console, result, groups)
        if "engine" in facts:
            console.print(f"{facts['sentences_per_second']:,.1f} sentences per second ({facts['engine']})")
            if facts["peak_memory_mb"] is not None:
                console.print(f"peak memory {facts['peak_memory_mb']:,.0f} MB")

    output_result({**facts, **scores, **more}, json, show)


def _score_model(
    model: str, data: str, options: ModelOptions, reading: ReadingOptions
) -> tuple[dict[str, Any], Evaluation]:
    from fencepost import evaluation

    sentences = reading.read(data, find_text_rules([model]))
    run = options.run(model, sentences)
    facts = {
        "model": model,
        "data": data,
        "engine": run.engine,
        "settings": run.settings,
        "sentences_per_second": run.sentences_per_second,
        "peak_memory_mb": measure_peak_memory(),
    }
    return facts, evaluation.evaluate(sentences, run.predicted)


def _score_files(
    gold: str, predicted: str, predicted_format: str | None, reading: ReadingOptions
) -> tuple[dict[str, Any], Evaluation]:
    from fencepost import evaluation

    if gold == predicted == "-":
        raise UsageError("standard input can be read only once, but - is given twice")
    predictions = replace(reading, format=predicted_format)
    with reading.open(gold) as gold_reader, predictions.open(predicted) as predicted_reader:
        result = evaluation.evaluate(gold_reader, predicted_reader)
    return {"gold": gold, "predicted_file": predicted}, result
