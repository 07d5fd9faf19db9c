"""What it costs to read the sentences of a document in blocks, in training and in prediction.

    python -m benchmarks.blocks [--methods METHOD ...] [--sentences 512] [--rounds 3] [--block 128]

Needs GUM. The same consecutive sentences are trained on and predicted with `encoder.block` and without it, in
turn, in one process: each block or batch of sentences as a run of `fencepost train` or `fencepost predict`
would do it. Prints one JSON object as its last line; the ratios are of the CPU time of each one's fastest
round, with blocks to without.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from benchmarks.common import corpora, machine, read_corpus, report, say
from fencepost.config import Config
from fencepost.data.entity import Sentence
from fencepost.encoder.windows import group_blocks
from fencepost.methods.model import Model
from fencepost.methods.registry import METHODS
from fencepost.runtime.recogniser import Recogniser
from fencepost.training.batches import LengthGroupedBatches
from fencepost.training.optimizer import make_parameter_groups
from fencepost.training.scoring import make_recogniser


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--sentences", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--block", type=int, default=128)
    arguments = parser.parse_args()
    if corpora() is None:
        report({"benchmark": "blocks", "skipped": "no corpora"})
        return
    sentences = [one for one in read_corpus("gum")["train"] if one.words][: arguments.sentences]
    ratios = {
        method: compare(method, sentences, arguments.block, arguments.rounds) for method in arguments.methods
    }
    threads = torch.get_num_threads()
    report({"benchmark": "blocks", **machine(), **vars(arguments), "threads": threads, "ratios": ratios})


def compare(method: str, sentences: Sequence[Sentence], block: int, rounds: int) -> dict[str, float]:
    """Return the ratios of CPU time of training and of prediction."""
    torch.manual_seed(0)
    models = []
    for size in (block, 0):
        changes = [f"method.name={method}", f"encoder.block={size}"]
        models.append(Model.build(Config.compose(changes=changes), sentences))
    say(f"{method}: training")
    training = alternate([make_epoch(model, sentences) for model in models], rounds)
    say(f"{method}: prediction")
    recognisers = [make_recogniser(model.eval()) for model in models]
    prediction = alternate([partial(predict, one, sentences) for one in recognisers], rounds)
    return {"training": training[0] / training[1], "prediction": prediction[0] / prediction[1]}


def make_epoch(model: Model, sentences: Sequence[Sentence]) -> Callable[[], None]:
    """Return a function that trains a model for an epoch, always with the same batches."""
    settings = model.config.training
    read = model.split(sentences)
    sizes = [sum(model.encoder.inputs.sizes(sentence.words)) for sentence in read]
    blocks = group_blocks(read) if model.encoder.inputs.block else None
    batches = list(LengthGroupedBatches(sizes, settings.batch_size, seed=0, blocks=blocks))
    optimiser = torch.optim.AdamW(make_parameter_groups(model, settings), fused=True)

    def run() -> None:
        model.train()
        for batch in batches:
            torch.autograd.backward(model(model.collate([read[index] for index in batch]))["loss"])
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimiser.step()
            optimiser.zero_grad()

    return run


def predict(recogniser: Recogniser, sentences: Sequence[Sentence]) -> None:
    for _ in recogniser.predict(sentences):
        pass


def alternate(contenders: Sequence[Callable[[], Any]], rounds: int) -> list[float]:
    """Run all of them in turn; return the CPU seconds of the fastest round of each."""
    best = [float("inf")] * len(contenders)
    for _ in range(rounds):
        for index, run in enumerate(contenders):
            start = time.process_time()
            run()
            best[index] = min(best[index], time.process_time() - start)
        say(" against ".join(f"{seconds:.2f} s" for seconds in best))
    return best


if __name__ == "__main__":
    main()
