"""What windows of different sizes find in long sentences, and what they cost.

Sentences of a corpus are joined, 40 at a time, so that none fits the encoder, and predicted by the shipped
model through windows of each size; the last row is the sentences as they are. Run on an annotated corpus with
the types of the model, such as GUM's development part: `python -m benchmarks.long_windows gum/dev.jsonl`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from itertools import islice
from typing import Any

import fencepost
from benchmarks.common import machine, report
from fencepost import Entity, Recogniser, Sentence
from fencepost.corpus import read
from fencepost.evaluation import evaluate
from fencepost.runtime import recogniser as windows

TOGETHER = 40
SIZES = ((128, 32), (256, 64), (510, 255))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("--sentences", type=int, default=760)
    arguments = parser.parse_args()
    model = fencepost.load(threads=1)
    sentences = [known_types(one, model) for one in islice(read(arguments.data), arguments.sentences)]
    joined = [join(sentences[at : at + TOGETHER]) for at in range(0, len(sentences), TOGETHER)]
    rows: dict[str, dict[str, Any]] = {}
    for size, overlap in SIZES:
        windows._WINDOW, windows._OVERLAP = size, overlap
        rows[f"windows of {size} that overlap by {overlap}"] = score(model, joined)
    rows["not joined"] = score(model, sentences)
    report({**machine(), "sentences": len(sentences), "results": rows})


def known_types(sentence: Sentence, model: Recogniser) -> Sentence:
    return sentence.with_entities(entity for entity in sentence.entities if entity.type in model.types)


def join(sentences: Sequence[Sentence]) -> Sentence:
    words: list[str] = []
    entities: list[Entity] = []
    for sentence in sentences:
        entities += [Entity(e.start + len(words), e.end + len(words), e.type) for e in sentence.entities]
        words += sentence.words
    return Sentence(words, entities)


def score(model: Recogniser, gold: Sequence[Sentence]) -> dict[str, float]:
    start = time.process_time()
    predicted = list(model.predict(gold))
    seconds = time.process_time() - start
    return {"f1": round(evaluate(gold, predicted).overall.f1, 4), "cpu_seconds": round(seconds, 2)}


if __name__ == "__main__":
    main()
