"""What windows of different sizes find in long sentences, and what they cost.

For each seed, a model is trained on a part of an annotated corpus. Sentences of the held-out rest are joined,
40 at a time, so that none fits the encoder, and predicted through windows of each size; the last row is the
sentences as they are. The corpus is a training part, such as GUM's:
`python -m benchmarks.long_windows gum/train.jsonl`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import fencepost
from benchmarks.common import ROOT, machine, report, say
from fencepost import Entity, Recogniser, Sentence
from fencepost.data import read
from fencepost.encoder import windows
from fencepost.evaluation import evaluate
from fencepost.training import hold_out

TOGETHER = 40
SIZES = ((128, 32), (256, 64), (510, 255))
RESULTS = ROOT / "benchmarks" / "results" / "long_windows.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--sentences", type=int, default=3000, help="sentences of the corpus that are used")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    sentences = list(read(arguments.data))[: arguments.sentences]
    training, rest = hold_out(sentences, 0.25, seed=0)
    long = [join(rest[at : at + TOGETHER]) for at in range(0, len(rest), TOGETHER)]
    by_seed: dict[int, dict[str, dict[str, float]]] = {}
    for seed in arguments.seeds:
        with tempfile.TemporaryDirectory() as folder:
            fencepost.train(training, Path(folder) / "model", epochs=arguments.epochs, seed=seed, quiet=True)
            model = fencepost.load(Path(folder) / "model", engine="pytorch")
            by_seed[seed] = score_windows(model, long, rest)
        say(f"seed {seed}: {by_seed[seed]}")
    result = {
        "commit": subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=ROOT, text=True).strip(),
        "data": Path(arguments.data).name,
        "training_sentences": len(training),
        "held_out_sentences": len(rest),
        "epochs": arguments.epochs,
        **machine(),
        "seeds": by_seed,
        "mean": summarise(list(by_seed.values())),
    }
    arguments.out.parent.mkdir(exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    report({"benchmark": "long_windows", **result})


def score_windows(
    model: Recogniser, long: Sequence[Sentence], sentences: Sequence[Sentence]
) -> dict[str, dict[str, float]]:
    """Return F1 and seconds with windows of each size, and of the sentences that were not joined."""
    rows = {}
    usual = windows.WINDOW, windows.OVERLAP
    try:
        for size, overlap in SIZES:
            windows.WINDOW, windows.OVERLAP = size, overlap
            rows[f"windows of {size} that overlap by {overlap}"] = score(model, long)
    finally:
        windows.WINDOW, windows.OVERLAP = usual
    return {**rows, "not joined": score(model, sentences)}


def summarise(seeds: Sequence[dict[str, dict[str, float]]]) -> dict[str, dict[str, Any]]:
    """Return the mean and the standard deviation of F1 over the seeds, and the mean of the seconds."""
    return {
        name: {
            "f1": round(mean(one[name]["f1"] for one in seeds), 4),
            "f1_deviation": round(stdev(one[name]["f1"] for one in seeds), 4) if len(seeds) > 1 else None,
            "cpu_seconds": round(mean(one[name]["cpu_seconds"] for one in seeds), 2),
        }
        for name in seeds[0]
    }


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
