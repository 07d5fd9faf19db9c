"""Token classification with the Trainer of Hugging Face's transformers: IOB2 tags of first sub-words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from seqeval.metrics import f1_score
from transformers import (
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForTokenClassification,
    Trainer,
    TrainingArguments,
)

from benchmarks.peers.workers.frame import (
    Predict,
    Row,
    ScoredMark,
    Task,
    get_tags,
    join_tags,
    list_tags,
    list_types,
    read_rows,
    run_worker,
)

IGNORED = -100


def train(task: Task) -> Predict:
    rows = {part: read_rows(task, part) for part in ("train", "dev")}
    tags = list_tags(list_types(rows["train"]))
    tokenizer = AutoTokenizer.from_pretrained(task.encoder, local_files_only=True)
    model = AutoModelForTokenClassification.from_pretrained(
        task.encoder, num_labels=len(tags), local_files_only=True, dtype=torch.float32
    )

    def encode(row: Row) -> dict[str, Any]:
        encoded = tokenizer(row.words, is_split_into_words=True, truncation=True, max_length=512)
        own = [tags.index(tag) for tag in get_tags(row)]
        words = encoded.word_ids()
        labels = [
            IGNORED if word is None or (at and words[at - 1] == word) else own[word]
            for at, word in enumerate(words)
        ]
        return {**encoded, "labels": labels}

    def score(evaluated: Any) -> dict[str, float]:
        best = evaluated.predictions.argmax(axis=-1)
        pairs = [
            [(tags[gold], tags[guess]) for gold, guess in zip(*row, strict=True) if gold != IGNORED]
            for row in zip(evaluated.label_ids, best, strict=True)
        ]
        gold, guesses = ([[pair[side] for pair in row] for row in pairs] for side in (0, 1))
        return {"f1": f1_score(gold, guesses)}

    arguments = TrainingArguments(
        output_dir=str(task.folder / "checkpoints"),
        num_train_epochs=task.epochs,
        per_device_train_batch_size=task.batch_size,
        learning_rate=task.learning_rate,
        warmup_steps=task.epochs * len(rows["train"]) // task.batch_size // 10,
        weight_decay=0.01,
        seed=task.seed,
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        load_best_model_at_end=True,
        metric_for_best_model="f1",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=[encode(row) for row in rows["train"]],
        eval_dataset=[encode(row) for row in rows["dev"]],
        data_collator=DataCollatorForTokenClassification(tokenizer),
        compute_metrics=score,
    )
    trainer.train()
    model.eval()

    def predict(texts: Sequence[list[str]]) -> list[list[ScoredMark]]:
        """Batches have sentences of similar length, as in Fencepost's prediction."""
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        result: list[list[ScoredMark]] = [[] for _ in texts]
        for at in range(0, len(order), 32):
            chosen = order[at : at + 32]
            encoded = tokenizer(
                [texts[index] for index in chosen],
                is_split_into_words=True,
                truncation=True,
                max_length=512,
                padding=True,
                return_tensors="pt",
            )
            with torch.inference_mode():
                probability, best = model(**encoded).logits.softmax(dim=-1).max(dim=-1)
            for row, index in enumerate(chosen):
                words = encoded.word_ids(row)
                first = [
                    place for place, word in enumerate(words) if word is not None and words[place - 1] != word
                ]
                result[index] = join_tags(
                    [words[place] for place in first],
                    [tags[best[row, place]] for place in first],
                    [float(probability[row, place]) for place in first],
                )
        return result

    return predict


if __name__ == "__main__":
    run_worker(train)
