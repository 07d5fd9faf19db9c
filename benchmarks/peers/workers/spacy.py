"""spaCy with a transformer, as `spacy init config --gpu` recommends, and `spancat` or `ner`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import spacy
from spacy.cli.init_config import init_config
from spacy.tokens import Doc, DocBin, Span
from spacy.training.initialize import init_nlp
from spacy.training.loop import train as train_pipeline

from benchmarks.peers.workers.frame import Predict, Row, ScoredMark, Task, read_rows, run_worker

SPANS = "sc"


def train(task: Task) -> Predict:
    component = task.options["component"]
    rows = {part: read_rows(task, part) for part in ("train", "dev")}
    for part, of_part in rows.items():
        blank = spacy.blank("en")
        docs = DocBin(docs=[make_doc(blank, row, component) for row in of_part])
        docs.to_disk(task.folder / f"{part}.spacy")
    config = init_config(lang="en", pipeline=[component], optimize="accuracy", gpu=True)
    steps = -(-len(rows["train"]) // task.batch_size)
    changes: dict[str, Any] = {
        "paths.train": str(task.folder / "train.spacy"),
        "paths.dev": str(task.folder / "dev.spacy"),
        "system.seed": task.seed,
        "components.transformer.model.name": task.encoder,
        "training.max_epochs": task.epochs,
        "training.max_steps": 0,
        "training.patience": 0,
        "training.eval_frequency": steps,
        "training.accumulate_gradient": 1,
        "training.batcher": {
            "@batchers": "spacy.batch_by_sequence.v1",
            "size": task.batch_size,
            "get_length": None,
        },
        "training.optimizer.learn_rate": {
            "@schedules": "warmup_linear.v1",
            "warmup_steps": task.epochs * steps // 10,
            "total_steps": task.epochs * steps,
            "initial_rate": task.learning_rate,
        },
    }
    if component == "spancat":
        changes["components.spancat.suggester"] = {
            "@misc": "spacy.ngram_range_suggester.v1",
            "min_size": 1,
            "max_size": task.options["longest"],
        }
    for path, value in changes.items():
        place: Any = config
        *parents, last = path.split(".")
        for parent in parents:
            place = place[parent]
        place[last] = value
    nlp = init_nlp(config)
    (task.folder / "pipeline").mkdir()
    train_pipeline(nlp, task.folder / "pipeline")
    nlp = spacy.load(task.folder / "pipeline" / "model-best")

    def predict(texts: Sequence[list[str]]) -> list[list[ScoredMark]]:
        docs = (Doc(nlp.vocab, words=words) for words in texts)
        return [list_entities(doc, component) for doc in nlp.pipe(docs, batch_size=64)]

    return predict


def make_doc(nlp: Any, row: Row, component: str) -> Doc:
    doc = Doc(nlp.vocab, words=row.words)
    spans = [Span(doc, start, end, label=type_) for start, end, type_ in row.entities]
    if component == "ner":
        doc.ents = spans
    else:
        doc.spans[SPANS] = spans
    return doc


def list_entities(doc: Doc, component: str) -> list[ScoredMark]:
    """Return the entities; `ner` has no confidences."""
    if component == "ner":
        return [(span.start, span.end, span.label_, 1.0) for span in doc.ents]
    group = doc.spans[SPANS]
    scores = group.attrs["scores"]
    return [
        (span.start, span.end, span.label_, float(score)) for span, score in zip(group, scores, strict=True)
    ]


if __name__ == "__main__":
    run_worker(train)
