"""How much memory training and prediction take, each in a process of its own.

    python -m benchmarks.quality genia --keep FOLDER
    python -m benchmarks.memory --model FOLDER

Needs GENIA. Measures the peak (the system's own count, weights, optimiser and libraries included) of

- training on GENIA at batch 16, and predicting its test part, with the sentences per second of each;
- training on a batch of 16 with one sentence of 600 words among them;
- predicting a sentence of 5,000 words.

Without `--model`, what predicts is not trained: it may take millions of spans for entities.

Prints one JSON object as its last line.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import Any

from benchmarks.common import ROOT, corpora, machine, report, say

JOBS = ("train", "predict", "train_600_words", "predict_5000_words")
STEPS = 60


def joined(sentences: list[Any], words: int) -> Any:
    """One sentence of this many words, made of real ones, with their entities."""
    from dataclasses import replace

    from fencepost import Entity, Sentence

    text: list[str] = []
    entities: list[Entity] = []
    for sentence in sentences:
        shifted = (replace(e, start=e.start + len(text), end=e.end + len(text)) for e in sentence.entities)
        entities += shifted
        text += sentence.words
    return Sentence(text[:words], [entity for entity in entities if entity.end <= words])


def run(job: str, folder_of_model: str | None) -> dict[str, Any]:
    import torch

    from fencepost.config import Config
    from fencepost.corpus import read
    from fencepost.model import Model
    from fencepost.training.batches import LengthGroupedBatches
    from fencepost.training.trainer import parameter_groups

    folder = corpora()
    assert folder is not None
    sentences = list(read(folder / "genia" / "train.jsonl"))
    torch.manual_seed(0)
    trained = folder_of_model is not None and job.startswith("predict")
    model = Model.load(str(folder_of_model)) if trained else Model.build(Config.compose(), sentences)
    if job.startswith("train"):
        sizes = [model.encoder.size(sentence) for sentence in sentences]
        batches = [[sentences[i] for i in batch] for batch in LengthGroupedBatches(sizes, 16, seed=0)][:STEPS]
        if job == "train_600_words":
            batches = [[joined(sentences, 600), *sentences[:15]]] * 3
        optimiser = torch.optim.AdamW(parameter_groups(model, model.settings.training), fused=True)
        model.train()
        start = time.perf_counter()
        for batch in batches:
            model(model.collate(batch))["loss"].backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimiser.step()
            optimiser.zero_grad()
        done = sum(map(len, batches))
    else:
        tested = (
            [joined(sentences, 5000)]
            if job == "predict_5000_words"
            else list(read(folder / "genia" / "test.jsonl"))
        )
        model.eval()
        start = time.perf_counter()
        for _ in model.predict(tested):
            pass
        done = len(tested)
    seconds = time.perf_counter() - start
    return {
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "sentences_per_second": round(done / seconds, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job", choices=JOBS, help="only this one, in this process")
    parser.add_argument(
        "--model", metavar="FOLDER", help="a model that was trained on GENIA, to predict with"
    )
    arguments = parser.parse_args()
    job = arguments.job
    if corpora() is None:
        report({"benchmark": "memory", "skipped": "no corpora"})
        return
    if job:
        report(run(job, arguments.model))
        return
    result: dict[str, Any] = {"benchmark": "memory", **machine()}
    for name in JOBS:
        output = subprocess.run(
            [
                *(sys.executable, "-m", "benchmarks.memory", "--job", name),
                *(["--model", arguments.model] if arguments.model else []),
            ],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        ).stdout
        result[name] = json.loads(output.splitlines()[-1])
        say(f"{name}: {result[name]}")
    report(result)


if __name__ == "__main__":
    main()
