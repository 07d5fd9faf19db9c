"""`fencepost.evaluate`: strict scores of a model, or of any predictions."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from fencepost import evaluation
from fencepost.data.collect import Data, collect_sentences
from fencepost.data.entity import Sentence
from fencepost.data.formats.format import ReadOptions
from fencepost.errors import UsageError
from fencepost.evaluation import Evaluation
from fencepost.runtime.recogniser import Recogniser


def evaluate(
    gold: Data,
    predicted: Recogniser | Data,
    *,
    columns: Mapping[str, str] | None = None,
    options: ReadOptions | None = None,
) -> Evaluation:
    """Return strict scores: an entity is right if its start, end and type are.

    ```python
    fencepost.evaluate("sample:test", fencepost.load("my-model")).overall.f1
    ```

    Args:
        gold: Annotated sentences: a file or `sample:test`, `Sentence` objects, a data frame of pandas or
            polars, or the rows of a data set.
        predicted: A recogniser, which predicts these sentences; or the same sentences with the entities of
            any program.
        columns: Columns of data frames and data sets, as `{"text": "body", "entities": "marks"}`.
        options: How to read what the data does not say itself, such as the language.

    Raises:
        DataError: Data cannot be read, or the sentences of `predicted` are not those of `gold`.
    """

    def collect(data: Data, name: str) -> list[Sentence]:
        sentences, notes = collect_sentences(data, name, columns, options)
        for note in notes:
            warnings.warn(f"{name}: {note}", stacklevel=3)
        return sentences

    if isinstance(gold, Recogniser):
        raise UsageError("the gold data comes first: fencepost.evaluate(gold, recogniser)")
    sentences = collect(gold, "the gold data")
    if isinstance(predicted, Recogniser):
        return evaluation.evaluate(sentences, list(predicted.predict(sentences)))
    return evaluation.evaluate(sentences, collect(predicted, "the predicted data"))
