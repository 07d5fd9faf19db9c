"""Compare settings on held-out training data: what the defaults are based on.

    python -m benchmarks.defaults [--corpora genia gum-named] [--seeds 1 2 3] [--name NAME] [--set KEY=VALUE]

For each corpus and seed, a model is trained on a part of the training data and scored on another; no test
part is used. `genia`: two thirds of the training part, scored on the rest, 8 epochs. `gum-named`: 3,000
sentences of GUM with its names alone, outermost ones, scored on the development part, 5 epochs.
`gum-documents`: the same with whole documents, for settings that need context, and only if it is asked for.
`wnut17`: 1,000 training sentences, scored on the development part, 8 epochs. The threshold of each half of
the scored sentences is the best one of the other half. Models that read the sentences of a document
together are also scored on each sentence by itself. Each run appends a line with the name, the settings and
the commit to `results/defaults.jsonl`; `python -m benchmarks.tables` writes their means and standard
deviations into docs/defaults.md. `--keep FOLDER` writes the candidates of each run with their confidences,
for `benchmarks.thresholds`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.common import (
    RESULTS,
    code_version,
    corpora,
    draw,
    machine,
    read_corpus,
    report,
    say,
    scores_of,
)
from fencepost import Sentence
from fencepost.config import Config
from fencepost.data import write
from fencepost.evaluation import evaluate, fit_threshold, match
from fencepost.training import hold_out, train
from fencepost.training.scoring import make_recogniser

EPOCHS = {"genia": 8, "gum-named": 5, "gum-documents": 5, "wnut17": 8}
SENTENCES = {"gum-named": 3000, "gum-documents": 3000, "wnut17": 1000}
USUAL = ["genia", "gum-named", "wnut17"]
FILE = RESULTS / "defaults.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpora", nargs="+", choices=EPOCHS, default=USUAL)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--name", default="defaults", help="what the settings are called in the table")
    parser.add_argument("--set", action="append", default=[], dest="changes", metavar="KEY=VALUE")
    parser.add_argument("--keep", type=Path, help="folder for the candidates of each run")
    arguments = parser.parse_args()
    if corpora() is None:
        report({"benchmark": "defaults", "skipped": "no corpora"})
    else:
        for corpus in arguments.corpora:
            for seed in arguments.seeds:
                line = compare(corpus, seed, arguments.name, arguments.changes, arguments.keep)
                with FILE.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(line) + "\n")
                report({"benchmark": "defaults", **line})


def compare(
    corpus: str, seed: int, name: str, changes: Sequence[str], keep: Path | None = None
) -> dict[str, Any]:
    """Train and score a model; return the line of the results."""
    parts = read_corpus("gum-named" if corpus == "gum-documents" else corpus)
    if corpus == "genia":
        training, scored = hold_out(parts["train"], 1 / 3, seed=0)
    else:
        count, train_part = SENTENCES[corpus], parts["train"]
        if corpus == "gum-documents":
            sample = hold_out(train_part, count / len(train_part), seed=0)[1]
        else:
            sample = draw(train_part, count, seed=0)
        training = [sentence for sentence in sample if sentence.words]
        scored = [sentence for sentence in parts["dev"] if sentence.words]
    settings = [f"training.epochs={EPOCHS[corpus]}", *changes]
    say(f"{corpus}, seed {seed}, {name}: {' '.join(settings)}")
    config = Config.compose(changes=settings, flags={"training": {"seed": seed}})
    start = time.process_time()
    with tempfile.TemporaryDirectory() as temporary:
        model = train(config, training, Path(temporary) / "model", quiet=False).model
    seconds = time.process_time() - start
    usual = model.config.predict.default_threshold
    recogniser = make_recogniser(model).with_options(threshold=0.02)
    predicted = list(recogniser.predict(scored))
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        for part, sentences in (("gold", scored), ("candidates", predicted)):
            write(sentences, keep / f"{corpus}-{seed}-{part}.jsonl")
    at_usual = evaluate(scored, keep_above(predicted, usual)).overall.f1
    halves = [(scored[part::2], predicted[part::2]) for part in (0, 1)]
    cuts = [fit_threshold(match(*half)) or usual for half in halves]
    gold = [sentence for half, _ in halves for sentence in half]
    entities = [
        s for (_, half), cut in zip(halves, reversed(cuts), strict=True) for s in keep_above(half, cut)
    ]
    line = {
        **machine(),
        "commit": code_version(),
        "corpus": corpus,
        "seed": seed,
        "name": name,
        "settings": settings,
        **scores_of(evaluate(gold, entities)),
        "f1_default_threshold": at_usual,
        "thresholds": cuts,
        "cpu_seconds": round(seconds),
    }
    if model.encoder.inputs.block:
        alone = list(recogniser.predict([replace(sentence, doc=None) for sentence in scored]))
        line["f1_without_documents"] = evaluate(scored, keep_above(alone, usual)).overall.f1
    return line


def keep_above(sentences: Sequence[Sentence], threshold: float) -> list[Sentence]:
    return [s.with_entities(e for e in s.entities if e.score >= threshold) for s in sentences]


if __name__ == "__main__":
    main()
