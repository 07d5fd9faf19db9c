"""How much memory training and prediction take, each in a process of its own.

    python -m benchmarks.quality genia --keep FOLDER
    python -m benchmarks.memory --model FOLDER

    python -m benchmarks.quality genia --method boundary-offset --keep FOLDER
    python -m benchmarks.memory --method boundary-offset --model FOLDER

Needs GENIA. Measures the peak (the system's own count, weights, optimiser and libraries included) of

- training on GENIA at the method's batch size, and predicting its test part, with the sentences per second
  of each;
- training on a batch with one sentence of 600 words among others;
- training on batches of sentences that all have 200 words, with 18 types;
- predicting a batch of sentences of 100 words;
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

from benchmarks.common import ROOT, corpora, machine, report, say, use_training_precision

JOBS = (
    "train",
    "predict",
    "train_600_words",
    "train_200_words_18_types",
    "predict_100_words",
    "predict_5000_words",
)
STEPS = 60


def join(sentences: list[Any], words: int) -> Any:
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


def with_types(sentence: Any, types: int) -> Any:
    """Return the sentence with this number of types, assigned to its entities in turn."""
    from dataclasses import replace

    entities = [replace(e, type=f"type {i % types}") for i, e in enumerate(sentence.entities)]
    return sentence.with_entities(entities)


def run(job: str, method: str, folder_of_model: str | None) -> dict[str, Any]:
    import torch

    from fencepost.config import Config
    from fencepost.data import read
    from fencepost.methods.model import Model
    from fencepost.runtime.pytorch import load_model, make_predictor
    from fencepost.runtime.recogniser import Recogniser
    from fencepost.training.batches import LengthGroupedBatches
    from fencepost.training.optimizer import make_parameter_groups

    folder = corpora()
    assert folder is not None
    sentences = list(read(folder / "genia" / "train.jsonl"))
    torch.manual_seed(0)
    if job == "train_200_words_18_types":
        sentences = [with_types(join(sentences[i:], 200), 18) for i in range(0, 800, 100)]
    trained = folder_of_model is not None and job.startswith("predict")
    config = Config.compose(changes=[f"method.name={method}"])
    model = load_model(str(folder_of_model)) if trained else Model.build(config, sentences)
    if job.startswith("train"):
        sizes = [sum(model.encoder.inputs.sizes(sentence.words)) for sentence in sentences]
        size = config.training.batch_size
        grouped = LengthGroupedBatches(sizes, size, seed=0)
        batches = [[sentences[i] for i in batch] for batch in grouped][:STEPS]
        if job == "train_600_words":
            batches = [model.split([join(sentences, 600), *sentences[: size - 1]])] * 3
        optimiser = torch.optim.AdamW(make_parameter_groups(model, model.config.training), fused=True)
        precision = use_training_precision(config.training.precision)
        model.train()
        start = time.perf_counter()
        for batch in batches:
            with precision:
                loss = model(model.collate(batch))["loss"]
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimiser.step()
            optimiser.zero_grad()
        count = sum(map(len, batches))
    else:
        tested = list(read(folder / "genia" / "test.jsonl"))
        if job == "predict_5000_words":
            tested = [join(sentences, 5000)]
        elif job == "predict_100_words":
            tested = [join(sentences[i:], 100) for i in range(0, 1600, 50)]
        recogniser = Recogniser(make_predictor(model.eval()))
        start = time.perf_counter()
        for _ in recogniser.predict(tested):
            pass
        count = len(tested)
    seconds = time.perf_counter() - start
    return {
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "sentences_per_second": round(count / seconds, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--method", default="boundary-smoothing")
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
        report(run(job, arguments.method, arguments.model))
        return
    result: dict[str, Any] = {"benchmark": "memory", **machine(), "method": arguments.method}
    for name in JOBS:
        output = subprocess.run(
            [
                *(sys.executable, "-m", "benchmarks.memory", "--job", name),
                *("--method", arguments.method),
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
