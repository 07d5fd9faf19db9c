"""SpanMarker, with its own Trainer.

Its evaluation during training downloads a script from a hub, so the last epoch is used, not the best one.
Each example is padded to the maximum length of a sentence and of its span markers, so a maximum that is
longer than the sentences costs time and changes nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

from datasets import Dataset  # type: ignore[import-untyped,unused-ignore]
from span_marker import SpanMarkerModel, Trainer
from transformers import TrainingArguments

from benchmarks.peers.workers.frame import (
    Predict,
    ScoredMark,
    Task,
    get_tags,
    list_tags,
    list_types,
    read_rows,
    run_worker,
)

MAX_SUBWORDS = 128
"""Length that sentences are padded and cut to; of the test sentences of WNUT17, fewer than 1 % are longer."""


def train(task: Task) -> Predict:
    rows = read_rows(task, "train")
    tags = list_tags(list_types(rows))
    data = Dataset.from_dict(
        {
            "tokens": [row.words for row in rows],
            "ner_tags": [[tags.index(tag) for tag in get_tags(row)] for row in rows],
        }
    )
    model = SpanMarkerModel.from_pretrained(
        task.encoder, labels=tags, model_max_length=MAX_SUBWORDS, entity_max_length=task.options["longest"]
    )
    arguments = TrainingArguments(
        output_dir=str(task.folder / "checkpoints"),
        num_train_epochs=task.epochs,
        per_device_train_batch_size=task.batch_size,
        learning_rate=task.learning_rate,
        warmup_ratio=0.1,  # type: ignore[call-arg,unused-ignore]  # an argument of transformers 4
        weight_decay=0.01,
        seed=task.seed,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=data)
    trainer.train()

    def predict(texts: Sequence[list[str]]) -> list[list[ScoredMark]]:
        return [
            [
                (entity["word_start_index"], entity["word_end_index"], entity["label"], entity["score"])
                for entity in of_sentence
            ]
            for of_sentence in model.predict(list(texts), batch_size=32)
        ]

    return predict


if __name__ == "__main__":
    run_worker(train)
