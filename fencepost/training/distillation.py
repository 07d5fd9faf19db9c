"""Distillation: training on annotated sentences and on raw text as a teacher, another model, annotates it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fencepost.config import Config
from fencepost.data.entity import Sentence
from fencepost.errors import UsageError
from fencepost.runtime.loading import describe_model
from fencepost.runtime.recogniser import Recogniser
from fencepost.training.data import SoftData
from fencepost.training.run import Outcome, train

SOFT_PER_ANNOTATED = 4
"""Default number of raw sentences for each annotated one."""

_FLOOR = 0.05
"""Lowest confidence, before calibration, of the teacher's candidates that the student learns."""

_LEAST_WORDS = 3
"""Number of words of the shortest raw sentences that are used."""


def distil(
    config: Config,
    teacher: Recogniser,
    texts: Iterable[Sequence[str]],
    sentences: Sequence[Sentence],
    out: str | Path,
    dev: Sequence[Sentence] | None = None,
    test: Sequence[Sentence] | None = None,
    *,
    count: int | None = None,
    **options: Any,
) -> Outcome:
    """Train a model on annotated sentences and on raw sentences that a teacher annotates.

    `texts` are the words of raw sentences, of which `count` are drawn at random, by default four for each
    annotated sentence. Sentences of the annotated data are left out. The student learns the teacher's
    calibrated probabilities of all candidates, also of those that the teacher would not predict. `options`
    are those of `train`.

    Raises `UsageError` for texts without usable sentences, and for a teacher of other types.
    """
    _check_types(teacher, sentences)
    annotated = [*sentences, *(dev or ()), *(test or ())]
    count = SOFT_PER_ANNOTATED * len(sentences) if count is None else count
    sample, read = draw_sentences(texts, annotated, count, config.training.seed, teacher)
    if not sample:
        raise UsageError(
            f"the texts have {read:,} sentences, but none of {_LEAST_WORDS} words or more that is not "
            "annotated already; give other texts"
        )
    soft = annotate(teacher, sample, config.training.seed)
    identity = json.dumps([describe_model(teacher), sample])
    counts = {"read": read, "drawn": len(sample), "used": len(soft)}
    data = SoftData(soft, hashlib.sha256(identity.encode()).hexdigest(), counts)
    return train(config, sentences, out, dev, test, soft=data, **options)


def _check_types(teacher: Recogniser, sentences: Sequence[Sentence]) -> None:
    types = {entity.type for sentence in sentences for entity in sentence.entities}
    if different := types ^ set(teacher.types):
        raise UsageError(
            "the teacher and the training data must have the same types; only one of them has "
            f"{', '.join(sorted(different))}"
        )


def draw_sentences(
    texts: Iterable[Sequence[str]], annotated: Iterable[Sentence], count: int, seed: int, teacher: Recogniser
) -> tuple[list[Sequence[str]], int]:
    """Draw different sentences at random, not more than `count`; return them and the number read.

    Short sentences and annotated ones are not drawn. Texts are read once, with at most `count` sentences in
    memory. Warns (`LanguageWarning`) if the texts do not seem to be in the teacher's language.
    """
    check, read, usable = teacher.make_language_check(), 0, 0
    known = {sentence.words for sentence in annotated}
    random = np.random.default_rng(seed)
    sample: list[Sequence[str]] = []  # may contain sentences more than once
    for read, words in enumerate(texts, start=1):  # noqa: B007 - used after the loop
        if check.rest:
            check.add(words)
        if len(words) < _LEAST_WORDS or tuple(words) in known:
            continue
        usable += 1
        if len(sample) < count:
            sample.append(words)
        elif (place := int(random.integers(usable))) < count:  # each sentence so far is equally likely
            sample[place] = words
    check.finish_text()
    return list(dict.fromkeys(map(tuple, sample))), read


def annotate(teacher: Recogniser, texts: Sequence[Sequence[str]], seed: int) -> list[Sentence]:
    """Return the sentences with the teacher's candidates as soft entities.

    A sentence is used with a probability that is its certainty, so those that the teacher is unsure about
    count less.
    """
    random = np.random.default_rng(seed)
    candidates = teacher.with_options(threshold=_FLOOR, select="keep-all")
    sentences = candidates.predict(Sentence(words, meta={"soft_entities": True}) for words in texts)
    return [sentence for sentence in sentences if random.random() < compute_certainty(sentence)]


def compute_certainty(sentence: Sentence) -> float:
    """Return the mean of |2 p - 1| over the candidates' probabilities p; 1 without candidates."""
    return float(np.mean([abs(2 * entity.score - 1) for entity in sentence.entities] or [1.0]))
