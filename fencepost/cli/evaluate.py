"""`fencepost evaluate`: strict scores of a model on a corpus, or of any program's predictions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from fencepost.cli.frame import Json, check_json_target, command, output_result
from fencepost.cli.groups import argument, option
from fencepost.cli.models import ModelOptions, common_text, peak_memory_mb, trained_lengths
from fencepost.cli.options import ReadingOptions
from fencepost.cli.scores import Lengths, print_scores, wide_console
from fencepost.errors import UsageError

if TYPE_CHECKING:
    from fencepost.evaluation import Evaluation


@command("evaluate")
def evaluate(
    options: ModelOptions,
    reading: ReadingOptions,
    model: Annotated[str | None, argument("MODEL", "The folder of a trained model.")] = None,
    data: Annotated[str | None, argument("DATA", "The corpus to score it on.")] = None,
    gold: Annotated[
        str | None, option("--gold", "Instead of a model: the true entities.", metavar="FILE")
    ] = None,
    predicted: Annotated[
        str | None,
        option("--predicted", "The same sentences with the entities of any program.", metavar="FILE"),
    ] = None,
    predicted_format: Annotated[
        str | None, option("--predicted-format", "The predictions' format, if --format is the gold's.")
    ] = None,
    by_length: Annotated[
        bool,
        option(
            "--by-length",
            "Add scores by groups of lengths, and mark the lengths of spans that the method is trained on, "
            "if these are not all.",
        ),
    ] = False,
    json: Json = None,
) -> None:
    """Score a model on a corpus, or one file against another.

    An entity counts if its start, end and type are all right.

    Example: fencepost evaluate my-model test.conll --by-length
    """
    check_json_target(json)
    lengths = None
    if model and data and not (gold or predicted or predicted_format):
        facts, result = _score_model(model, data, options, reading)
        lengths = trained_lengths(model) if by_length else None
    elif gold and predicted and not (model or reading.skip_invalid or options != ModelOptions()):
        facts, result = _score_files(gold, predicted, predicted_format, reading)
    else:
        raise UsageError(
            "give a model and a corpus (fencepost evaluate MODEL DATA), or two files (fencepost evaluate "
            "--gold FILE --predicted FILE, without --set, --skip-invalid, --engine, --device and --threads)"
        )
    groups = Lengths.of(result, lengths) if by_length else None
    scores = result.to_dict()
    more = groups.json(scores["by_length"]) if groups else {}

    def show() -> None:
        console = wide_console()
        print_scores(console, result, groups)
        if "engine" in facts:
            console.print(f"{facts['sentences_per_second']:,.1f} sentences a second ({facts['engine']})")
            if facts["peak_memory_mb"] is not None:
                console.print(f"{facts['peak_memory_mb']:,.0f} MB of memory at most")

    output_result({**facts, **scores, **more}, json, show)


def _score_model(
    model: str, data: str, options: ModelOptions, reading: ReadingOptions
) -> tuple[dict[str, Any], Evaluation]:
    from fencepost import evaluation

    sentences = reading.read(data, common_text([model]))
    run = options.run(model, sentences)
    facts = {
        "model": model,
        "data": data,
        "engine": run.engine,
        "settings": run.settings,
        "sentences_per_second": run.sentences_per_second,
        "peak_memory_mb": peak_memory_mb(),
    }
    return facts, evaluation.evaluate(sentences, run.predicted)


def _score_files(
    gold: str, predicted: str, predicted_format: str | None, reading: ReadingOptions
) -> tuple[dict[str, Any], Evaluation]:
    from fencepost import evaluation

    if gold == predicted == "-":
        raise UsageError("standard input can be read once, but it is named twice")
    with reading.open(gold) as true, replace(reading, format=predicted_format).open(predicted) as guessed:
        result = evaluation.evaluate(true, guessed)
    return {"gold": gold, "predicted_file": predicted}, result
