"""What a method costs on top of its encoder, and how fast it trains and predicts.

    python -m benchmarks.head_cost [--method boundary-smoothing] [--batches 24] [--rounds 3]
                                   [--set KEY=VALUE ...] [--also predict.KEY=VALUE ...]

Needs GENIA. Ours and the bare encoder (the same weights, a linear layer on top) do the same length-grouped
batches of real sentences in turn, so that whatever else the machine does hits both alike.

- training: forward, backward, clip, optimiser, at the method's own batch size. Prompts, BiLSTM and all that
  the method computes are in ours, tokenising in neither.
- prediction: ours from words to entities, tokenisation and decoding included, against the bare encoder's
  forward pass alone. `--also` adds ours with another setting of prediction.

Prints one JSON object as its last line; the ratios are of the sums of the fastest round of each batch.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.common import corpora, machine, report, say, use_training_precision
from fencepost.config import Config
from fencepost.data import read
from fencepost.data.entity import Sentence
from fencepost.encoder.pretrained import Pretrained
from fencepost.methods.model import Model
from fencepost.methods.settings import PredictSettings
from fencepost.runtime.pytorch import make_predictor
from fencepost.runtime.recogniser import Recogniser
from fencepost.settings import parse_change
from fencepost.training.batches import LengthGroupedBatches
from fencepost.training.optimizer import make_parameter_groups

CLIP = 5.0


class Bare(nn.Module):
    """The encoder alone, with a linear layer over the pieces."""

    def __init__(self, settings: Config, classes: int) -> None:
        super().__init__()
        self.embedder = Pretrained.fetch(settings.encoder, prompts=0)
        self.linear = nn.Linear(self.embedder.width, classes)

    def pad(self, sentences: Sequence[Sentence]) -> tuple[Tensor, Tensor]:
        subwords = self.embedder.subwords
        rows = [
            torch.tensor([*subwords.first, *(i for word in subwords(s.words) for i in word), *subwords.last])
            for s in sentences
        ]
        ids = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=subwords.pad)
        return ids, torch.tensor([len(row) for row in rows])

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        scores: Tensor = self.linear(self.embedder.transform(ids, lengths, None))
        return scores


def timed(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def step(
    module: nn.Module,
    optimiser: torch.optim.Optimizer,
    precision: torch.autocast,
    compute_loss: Callable[[], Tensor],
) -> None:
    with precision:
        loss = compute_loss()
    torch.autograd.backward(loss)
    nn.utils.clip_grad_norm_(module.parameters(), CLIP)
    optimiser.step()
    optimiser.zero_grad()


def alternate(contenders: Sequence[Sequence[Callable[[], Any]]], rounds: int) -> list[float]:
    """All do each batch in turn, and take turns at being first; the sums of each batch's fastest time."""
    best = [[float("inf")] * len(one) for one in contenders]
    for one in contenders:
        for run in one[:2]:  # warm up
            run()
    for turn in range(rounds):
        for index in range(len(contenders[0])):
            for place in range(len(contenders)):
                which = (turn + index + place) % len(contenders)
                best[which][index] = min(best[which][index], timed(contenders[which][index]))
        say(f"round {turn + 1}: {' against '.join(f'{sum(one):.2f} s' for one in best)}")
    return [sum(one) for one in best]


def measure_training(model: Model, bare: Bare, batches: list[list[Sentence]], rounds: int) -> list[float]:
    settings = model.config.training
    our_optimiser = torch.optim.AdamW(make_parameter_groups(model, settings), fused=True)
    rate = settings.compute_encoder_rate(model.encoder.embedder.width)
    bare_optimiser = torch.optim.AdamW(bare.parameters(), lr=rate, fused=True)
    precision = use_training_precision(settings.precision)
    model.train()
    bare.train()

    def our_step(batch: list[Sentence]) -> Callable[[], None]:
        tensors = model.collate(batch)
        return lambda: step(model, our_optimiser, precision, lambda: model(tensors)["loss"])

    def bare_step(batch: list[Sentence]) -> Callable[[], None]:
        ids, lengths = bare.pad(batch)
        labels = torch.zeros_like(ids)

        def loss() -> Tensor:
            return nn.functional.cross_entropy(bare(ids, lengths).flatten(0, 1), labels.flatten())

        return lambda: step(bare, bare_optimiser, precision, loss)

    return alternate([[our_step(b) for b in batches], [bare_step(b) for b in batches]], rounds)


def measure_prediction(
    model: Model, bare: Bare, batches: list[list[Sentence]], rounds: int, variants: Sequence[PredictSettings]
) -> list[float]:
    """Of each variant, and of the bare encoder."""
    model.eval()
    bare.eval()
    embedder = model.encoder.embedder
    assert isinstance(embedder, Pretrained)

    def ours(batch: list[Sentence], predict: PredictSettings) -> Callable[[], None]:
        model.set_predict(predict)
        recogniser = Recogniser(make_predictor(model))

        def run() -> None:
            embedder.subwords._cache = {}  # every word is tokenised again
            for _ in recogniser.predict(batch):
                pass

        return run

    def forward(batch: list[Sentence]) -> Callable[[], None]:
        ids, lengths = bare.pad(batch)

        def run() -> None:
            with torch.inference_mode():
                bare(ids, lengths)

        return run

    contenders = [[ours(b, variant) for b in batches] for variant in variants]
    return alternate([*contenders, [forward(b) for b in batches]], rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--method", default="boundary-smoothing")
    parser.add_argument("--set", action="append", default=[], dest="changes", metavar="KEY=VALUE")
    parser.add_argument(
        "--also", action="append", default=[], metavar="predict.KEY=VALUE", help="predict with this too"
    )
    parser.add_argument("--batches", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    folder = corpora()
    if folder is None:
        report({"benchmark": "head_cost", "skipped": "no corpora"})
        return
    torch.manual_seed(0)
    sentences = list(read(folder / "genia" / "train.jsonl"))
    config = Config.compose(changes=[f"method.name={arguments.method}", *arguments.changes])
    model = Model.build(config, sentences)
    bare = Bare(config, 1 + len(model.types))

    def batches(size: int) -> list[list[Sentence]]:
        sizes = [sum(model.encoder.inputs.sizes(s.words)) for s in sentences]
        grouped = LengthGroupedBatches(sizes, size, seed=0)
        return [[sentences[i] for i in batch] for batch in list(grouped)[: arguments.batches]]

    say("training")
    trained = batches(config.training.batch_size)
    train_ours, train_bare = measure_training(model, bare, trained, arguments.rounds)
    say("prediction")
    predicted = batches(config.predict.batch_size)
    others = [model.config.predict.with_changes(parse_change(change)["predict"]) for change in arguments.also]
    predict_ours, *predict_others, predict_bare = measure_prediction(
        model, bare, predicted, arguments.rounds, [model.config.predict, *others]
    )
    count_trained, count_predicted = sum(map(len, trained)), sum(map(len, predicted))
    report(
        {
            "benchmark": "head_cost",
            **machine(),
            "method": arguments.method,
            "changes": arguments.changes,
            "threads": torch.get_num_threads(),
            "train_ratio": round(train_ours / train_bare, 3),
            "train_sentences_per_second": round(count_trained / train_ours, 1),
            "bare_train_sentences_per_second": round(count_trained / train_bare, 1),
            "predict_ratio": round(predict_ours / predict_bare, 3),
            "predict_sentences_per_second": round(count_predicted / predict_ours, 1),
            "bare_forward_sentences_per_second": round(count_predicted / predict_bare, 1),
            "also": {
                change: {
                    "predict_ratio": round(seconds / predict_bare, 3),
                    "predict_sentences_per_second": round(count_predicted / seconds, 1),
                }
                for change, seconds in zip(arguments.also, predict_others, strict=True)
            },
        }
    )


if __name__ == "__main__":
    main()
