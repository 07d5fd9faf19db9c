"""`evaluate` counts exactly the entities that `predict` writes, for every method, engine and length."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from fencepost.data import write
from fencepost.data.entity import Entity, Sentence
from fencepost.methods.registry import METHODS
from tests.runtime import models

LENGTHS = (1, 2, 9, 40, 129, 300)
TYPES = ("LOC", "ORG", "PER")


@pytest.fixture(scope="module")
def sentences() -> list[Sentence]:
    """Sentences up to much longer than the limit of any encoder, with random entities."""
    dice = random.Random(0)  # noqa: S311
    words = sorted({word for sentence in models.NESTED for word in sentence.words})
    result = []
    for length in LENGTHS:
        starts = [dice.randrange(length) for _ in range(3 * length)]
        spans = {(start, min(length, start + dice.randint(1, 3)), dice.choice(TYPES)) for start in starts}
        result.append(Sentence(dice.choices(words, k=length), [Entity(*span) for span in sorted(spans)]))
    return result


@pytest.fixture(scope="module", params=["scratch", "transformer"])
def encoder(request, tmp_path_factory) -> dict:
    """Settings of an encoder without limit, and of one that reads 40 sub-words at once."""
    if request.param == "scratch":
        return models.SCRATCH
    return {"name": str(models.save_bert(tmp_path_factory.mktemp("bert"))), "lstm": {"size": 0}}


@pytest.mark.parametrize("method", METHODS)
def test_evaluate_counts_the_entities_of_predict(
    run, tmp_path: Path, method: str, encoder, sentences
) -> None:
    data, folder = tmp_path / "data.jsonl", tmp_path / "model"
    write(sentences, data)
    models.saved(models.random_model(method, encoder), folder)
    for engine in ("pytorch", "onnx"):
        path = tmp_path / f"{engine}.jsonl"
        run("predict", folder, "--input", data, "--output", path, "--engine", engine, "--quiet")
        scores = json.loads(run("evaluate", folder, data, "--engine", engine, "--json", "-").stdout)
        assert scores["engine"] == engine
        predicted, correct = Counter(), Counter()
        lines = path.read_text(encoding="utf-8").splitlines()
        for line, sentence in zip(lines, sentences, strict=True):
            offsets = sentence.word_offsets()
            first, last = ({word[side]: at for at, word in enumerate(offsets)} for side in (0, 1))
            gold = {entity.key for entity in sentence.entities}
            for entity in json.loads(line)["entities"]:
                key = (first[entity["start"]], last[entity["end"]] + 1, entity["type"])
                predicted[entity["type"]] += 1
                correct[entity["type"]] += key in gold
        assert scores["predicted"] == predicted.total() > len(LENGTHS)
        assert scores["true_positives"] == correct.total()
        for type_, row in scores["by_type"].items():
            assert (row["predicted"], row["true_positives"]) == (predicted[type_], correct[type_])
