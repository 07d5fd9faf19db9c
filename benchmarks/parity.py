"""Whether exported graphs find what the model finds: on the whole test parts of GENIA and GUM.

    python -m benchmarks.parity MODEL...

Each model is exported to a temporary folder, in single precision and in int8, and predicts both test parts
with PyTorch and with both graphs, whatever it was trained on. For each corpus: in how many sentences entities
differ from PyTorch's, the largest difference between the confidences of the same entity, and F1. Prints one
JSON object as its last line.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fencepost
from benchmarks.common import corpora, machine, report, say
from fencepost import Sentence
from fencepost.data import read
from fencepost.evaluation import evaluate
from fencepost.runtime.export import export
from fencepost.runtime.pytorch import load_model, save_model

CORPORA = ("genia", "gum")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+", metavar="MODEL")
    arguments = parser.parse_args()
    data = corpora()
    if data is None:
        report({"benchmark": "parity", "skipped": "no corpora"})
        return
    tests = {name: list(read(data / name / "test.jsonl")) for name in CORPORA}
    results = {}
    for folder in arguments.models:
        model = load_model(folder)
        with tempfile.TemporaryDirectory() as name:
            save_model(model, name)
            export(model, name, int8=True)
            results[folder.name] = {"method": model.config.method.name} | {
                corpus: compared(Path(name), f"{folder.name}, {corpus}", sentences)
                for corpus, sentences in tests.items()
            }
    report({"benchmark": "parity", **machine(), "models": results})


def compared(folder: Path, title: str, sentences: Sequence[Sentence]) -> dict[str, Any]:
    exact = list(fencepost.load(folder, engine="pytorch").predict(sentences))
    result: dict[str, Any] = {
        "sentences": len(sentences),
        "entities": sum(len(sentence.entities) for sentence in exact),
        "pytorch": {"f1": round(100 * evaluate(sentences, exact).overall.f1, 2)},
    }
    for engine in ("onnx", "int8"):
        predicted = list(fencepost.load(folder, engine=engine).predict(sentences))
        differ, farthest = 0, 0.0
        for one, other in zip(exact, predicted, strict=True):
            here, there = ({entity.key: entity.score for entity in s.entities} for s in (one, other))
            differ += here.keys() != there.keys()
            farthest = max([farthest, *(abs(here[key] - there[key]) for key in here.keys() & there.keys())])
        result[engine] = {
            "f1": round(100 * evaluate(sentences, predicted).overall.f1, 2),
            "sentences_that_differ": differ,
            "largest_difference_of_confidence": float(f"{farthest:.2g}"),
        }
    say(f"{title}: {result}")
    return result


if __name__ == "__main__":
    main()
