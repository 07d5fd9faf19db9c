"""Plain Hugging Face token classification on flat corpora, with Fencepost beside it.

    python -m benchmarks.token_classification wnut17 [--seeds 1 2 3] [--epochs 6] [--fencepost]
    python -m benchmarks.token_classification gum-named --sentences 3000 --epochs 5 --score dev

Both learn from the same sentences with the same encoder, number of epochs, batch size and threads; all other
settings of Fencepost are its defaults. The best epoch by development F1 is scored on the test part. With
`--score dev`, no development data is used in training, and the last epoch is scored on the development part.
`gum-named` is GUM with its names only, and of nested ones the outermost. Writes a file with the figures of
each seed and prints one JSON object as its last line. CPU seconds are those of training, with the scoring of
the development part after each epoch.
"""

from __future__ import annotations

import argparse
import copy
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForTokenClassification, AutoTokenizer, get_linear_schedule_with_warmup
from transformers import logging as transformers_logging

import fencepost
from benchmarks.common import (
    LENGTHS,
    RESULTS,
    code_version,
    corpora,
    draw,
    machine,
    percent,
    report,
    say,
    say_table,
    scores_of,
    summarise,
)
from fencepost import Entity, Sentence
from fencepost.data import read
from fencepost.encoder.pretrained import _resolve_name
from fencepost.evaluation import evaluate
from fencepost.training.batches import LengthGroupedBatches
from fencepost.training.scoring import make_recogniser

CORPORA = {"wnut17": "wnut17/{}.conll", "gum-named": "gum/{}.jsonl"}
WARMUP, WEIGHT_DECAY, CLIP = 0.1, 0.01, 1.0
MOST_PIECES = 512
IGNORED = -100
"""The label of pieces that are not the first of a word."""


class Tagger:
    """A transformer with a linear layer over its pieces: the first piece of each word has its IOB2 tag."""

    def __init__(self, folder: str, types: Sequence[str], seed: int) -> None:
        torch.manual_seed(seed)
        self.tags = ["O", *(f"{place}-{type_}" for type_ in types for place in "BI")]
        self.tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self.model: nn.Module = AutoModelForTokenClassification.from_pretrained(
            folder, num_labels=len(self.tags), local_files_only=True, dtype=torch.float32
        )

    def fit(
        self,
        sentences: Sequence[Sentence],
        dev: Sequence[Sentence] | None,
        epochs: int,
        batch_size: int,
        rate: float,
        seed: int,
    ) -> list[dict[str, Any]]:
        """Train; return the scores on the development data by epoch. The best epoch is kept, or the last."""
        sizes = [len(ids) for ids in self._tokenise(sentences)["input_ids"]]
        batches = LengthGroupedBatches(sizes, batch_size, seed)
        steps = epochs * len(batches)
        optimizer = torch.optim.AdamW(self._parameter_groups(), lr=rate, fused=True)
        warmup = round(WARMUP * steps)
        schedule = get_linear_schedule_with_warmup(optimizer, warmup, steps)  # type: ignore[no-untyped-call]
        best, scores = None, []
        for epoch in range(epochs):
            self.model.train()
            batches.set_epoch(epoch)
            total = 0.0
            for batch in batches:
                loss = self._compute_loss([sentences[index] for index in batch])
                loss.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
                total += loss.item()
            say(f"epoch {epoch + 1}: loss {total / len(batches):.4f}")
            if dev is not None:
                scores.append(scores_of(evaluate(dev, self.predict(dev))))
                say(f"  development F1 {percent(summarise([scores[-1]['f1']]))}")
                if scores[-1]["f1"] >= max(of_epoch["f1"] for of_epoch in scores):
                    best = copy.deepcopy(self.model.state_dict())
        if best is not None:
            self.model.load_state_dict(best)
        return scores

    def predict(self, sentences: Sequence[Sentence], batch_size: int = 32) -> list[Sentence]:
        """Return the sentences with the entities of the most probable tags.

        An entity's confidence is the mean probability of its words' tags. A word without a piece, or beyond
        what the encoder sees, is tagged O.
        """
        self.model.eval()
        order = sorted(range(len(sentences)), key=lambda index: -len(sentences[index]))
        predicted = list(sentences)
        for at in range(0, len(order), batch_size):
            chosen = order[at : at + batch_size]
            encoded = self._tokenise([sentences[index] for index in chosen], padding=True)
            with torch.inference_mode():
                probability, best = self._score(encoded).softmax(dim=-1).max(dim=-1)  # [B, S]
            for row, index in enumerate(chosen):
                tags, confidence = ["O"] * len(sentences[index]), [1.0] * len(sentences[index])
                for position, word in first_pieces(encoded.word_ids(row)):
                    tags[word] = self.tags[int(best[row, position])]
                    confidence[word] = float(probability[row, position])
                predicted[index] = sentences[index].with_entities(entities_of(tags, confidence))
        return predicted

    def _compute_loss(self, sentences: Sequence[Sentence]) -> Tensor:
        encoded = self._tokenise(sentences, padding=True)
        labels = torch.full(encoded["input_ids"].shape, IGNORED)  # [B, S]
        for row, sentence in enumerate(sentences):
            tags = [self.tags.index(tag) for tag in tags_of(sentence)]
            for position, word in first_pieces(encoded.word_ids(row)):
                labels[row, position] = tags[word]
        scores = self._score(encoded)
        return nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten(), ignore_index=IGNORED)

    def _score(self, encoded: Any) -> Tensor:
        scores: Tensor = self.model(**encoded).logits  # [B, S, tags]
        return scores

    def _tokenise(self, sentences: Sequence[Sentence], *, padding: bool = False) -> Any:
        return self.tokenizer(
            [list(sentence.words) for sentence in sentences],
            is_split_into_words=True,
            truncation=True,
            max_length=MOST_PIECES,
            padding=padding,
            return_tensors="pt" if padding else None,
        )

    def _parameter_groups(self) -> list[dict[str, Any]]:
        """Biases and norms do not decay."""
        weights = [weight for weight in self.model.parameters() if weight.requires_grad]
        return [
            {"params": [weight for weight in weights if weight.ndim > 1], "weight_decay": WEIGHT_DECAY},
            {"params": [weight for weight in weights if weight.ndim < 2], "weight_decay": 0.0},
        ]


def first_pieces(words: Sequence[int | None]) -> Iterator[tuple[int, int]]:
    """Yield the position of each word's first piece, and the word; `words` has the word of each piece."""
    for position, word in enumerate(words):
        if word is not None and (position == 0 or words[position - 1] != word):
            yield position, word


def tags_of(sentence: Sentence) -> list[str]:
    """Return the IOB2 tags of the words; entities must not overlap."""
    tags = ["O"] * len(sentence)
    for entity in sentence.entities:
        tags[entity.start : entity.end] = [f"B-{entity.type}"] + [f"I-{entity.type}"] * (len(entity) - 1)
    return tags


def entities_of(tags: Sequence[str], confidence: Sequence[float]) -> list[Entity]:
    """Return the entities of IOB2 tags; an I that continues nothing begins an entity, as in seqeval."""
    entities = []
    start = 0
    for end in range(1, len(tags) + 1):
        if end < len(tags) and tags[end].startswith("I-") and tags[end][2:] == tags[end - 1][2:]:
            continue
        if tags[start] != "O":
            score = min(1.0, sum(confidence[start:end]) / (end - start))
            entities.append(Entity(start, end, tags[start][2:], score))
        start = end
    return entities


def keep_outermost_names(sentence: Sentence) -> Sentence:
    """Return the sentence with its names; of those that overlap, with the longest, and then the first."""
    entities: list[Entity] = []
    named = (entity for entity in sentence.entities if entity.meta["named"])
    for entity in sorted(named, key=lambda one: (-len(one), one.start)):
        if all(entity.end <= other.start or other.end <= entity.start for other in entities):
            entities.append(entity)
    return sentence.with_entities(entities)


def read_parts(folder: Path, corpus: str, sentences: int | None) -> dict[str, list[Sentence]]:
    """Return the parts of a flat corpus, with this number of training sentences."""
    parts = {part: list(read(folder / CORPORA[corpus].format(part))) for part in ("train", "dev", "test")}
    if corpus == "gum-named":
        parts = {part: [keep_outermost_names(one) for one in of_part] for part, of_part in parts.items()}
    if sentences is not None:
        parts["train"] = draw(parts["train"], sentences, seed=0)
    return {part: [one for one in of_part if one.words] for part, of_part in parts.items()}


def run_token_classification(
    parts: dict[str, list[Sentence]], seed: int, arguments: argparse.Namespace
) -> dict[str, Any]:
    types = sorted({entity.type for sentence in parts["train"] for entity in sentence.entities})
    start = time.process_time()
    tagger = Tagger(_resolve_name(arguments.encoder), types, seed)
    dev = parts["dev"] if arguments.score == "test" else None
    settings = arguments.epochs, arguments.batch_size, arguments.learning_rate
    epochs = tagger.fit(parts["train"], dev, *settings, seed)
    seconds = time.process_time() - start
    return {
        arguments.score: scores_of(evaluate(parts[arguments.score], tagger.predict(parts[arguments.score]))),
        "epochs": epochs,
        "cpu_seconds": round(seconds),
    }


def run_fencepost(
    parts: dict[str, list[Sentence]], seed: int, arguments: argparse.Namespace
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        outcome = fencepost.train(
            parts["train"],
            Path(folder) / "model",
            parts["dev"] if arguments.score == "test" else None,
            encoder=arguments.encoder,
            epochs=arguments.epochs,
            batch_size=arguments.batch_size,
            seed=seed,
            quiet=True,
        )
        seconds = time.process_time() - start
    predicted = list(make_recogniser(outcome.model).predict(parts[arguments.score]))
    return {
        arguments.score: scores_of(evaluate(parts[arguments.score], predicted)),
        "epochs": [{"f1": epoch["dev_f1"]} for epoch in outcome.epochs],
        "cpu_seconds": round(seconds),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", choices=CORPORA)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=1e-4, help="of token classification")
    parser.add_argument("--encoder", default="minilm", help="minilm, or the folder of an encoder")
    parser.add_argument("--sentences", type=int, help="number of training sentences, drawn at random")
    parser.add_argument("--score", choices=("test", "dev"), default="test", help="the part that is scored")
    parser.add_argument("--fencepost", action="store_true", help="train boundary smoothing, too")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, help="the file of the results")
    arguments = parser.parse_args()
    folder = corpora()
    if folder is None:
        report({"benchmark": "token_classification", "skipped": "no corpora"})
        return
    torch.set_num_threads(arguments.threads)
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    parts = read_parts(folder, arguments.corpus, arguments.sentences)
    peers = {"token classification": run_token_classification}
    if arguments.fencepost:
        peers["boundary smoothing"] = run_fencepost
    by_seed: dict[int, dict[str, dict[str, Any]]] = {}
    out = arguments.out or RESULTS / f"token_classification_{arguments.corpus}.json"
    out.parent.mkdir(exist_ok=True)
    for seed in arguments.seeds:
        by_seed[seed] = {}
        for name, run in peers.items():
            by_seed[seed][name] = row = run(parts, seed, arguments)
            scored = row[arguments.score]
            say(f"seed {seed}, {name}: {arguments.score} F1 {100 * scored['f1']:.1f}, {row['cpu_seconds']} s")
        result = {
            "commit": code_version(),
            "corpus": arguments.corpus,
            "sentences": {part: len(of_part) for part, of_part in parts.items()},
            "encoder": Path(arguments.encoder).name,
            **{name: getattr(arguments, name) for name in ("epochs", "batch_size", "learning_rate")},
            "threads": arguments.threads,
            "scored": arguments.score,
            **machine(),
            "seeds": by_seed,
            "mean": summarise([without_epochs(of_seed) for of_seed in by_seed.values()]),
        }
        out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    say_scores(result["mean"], arguments.score)
    report({"benchmark": "token_classification", **result})


def without_epochs(peers: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {
        name: {key: value for key, value in row.items() if key != "epochs"} for name, row in peers.items()
    }


def say_scores(means: dict[str, Any], part: str) -> None:
    header = [f"{part} F1", "all", *LENGTHS, "CPU seconds"]
    rows = [
        [
            name,
            percent(mean[part]["f1"]),
            *(percent(mean[part]["by_length"][group]["f1"]) for group in LENGTHS),
            f"{mean['cpu_seconds']['mean']:.0f}",
        ]
        for name, mean in means.items()
    ]
    say_table(header, rows)


if __name__ == "__main__":
    main()
