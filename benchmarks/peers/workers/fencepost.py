"""Fencepost, with its defaults and the options of the task."""

from __future__ import annotations

from collections.abc import Sequence

import fencepost
from benchmarks.peers.workers.frame import Predict, ScoredMark, Task, read_rows, run_worker
from fencepost import Entity, Sentence
from fencepost.training.scoring import make_recogniser


def train(task: Task) -> Predict:
    parts = {
        part: [
            Sentence(row.words, [Entity(*entity) for entity in row.entities]) for row in read_rows(task, part)
        ]
        for part in ("train", "dev")
    }
    outcome = fencepost.train(
        parts["train"],
        task.folder / "model",
        parts["dev"],
        encoder=task.encoder,
        epochs=task.epochs,
        batch_size=task.batch_size,
        seed=task.seed,
        quiet=True,
        **task.options,
    )
    recogniser = make_recogniser(outcome.model)

    def predict(texts: Sequence[list[str]]) -> list[list[ScoredMark]]:
        return [
            [(entity.start, entity.end, entity.type, entity.score) for entity in sentence.entities]
            for sentence in recogniser.predict([Sentence(words) for words in texts])
        ]

    return predict


if __name__ == "__main__":
    run_worker(train)
