"""The best sentences of a stream."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fencepost.data.entity import Sentence
from fencepost.runtime.suggestion.pool import Pool, compute_key, draw_number


@given(st.lists(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), max_size=6), max_size=6), st.integers(1, 7))
def test_pool_keeps_the_best_of_all_blocks(blocks, size):
    pool, every = Pool(size), []
    for number, scores in enumerate(blocks):
        sentences = [Sentence([f"{number}-{row}"]) for row in range(len(scores))]
        numbers = np.array([draw_number(compute_key(one.words), 1) for one in sentences])
        vectors = np.full((len(scores), 2), number, dtype=np.float32)
        pool = pool.add(np.array(scores), numbers, vectors, sentences)
        every += zip(scores, numbers.tolist(), sentences, strict=True)
    best = sorted(every, key=lambda row: (-row[0], -row[1]))[:size]
    assert list(pool.sentences) == [sentence for *_, sentence in best]
    assert pool.scores.tolist() == [score for score, *_ in best]
    assert [int(row[0]) for row in pool.vectors] == [int(s.words[0].split("-")[0]) for s in pool.sentences]
    assert pool.lowest == (best[-1][0] if len(best) == size else -np.inf)
    assert pool.keys == {compute_key(sentence.words) for sentence in pool.sentences}


def test_key_ignores_word_boundaries_and_spaces():
    assert (
        compute_key(["London", "'s", "x"])
        == compute_key(["London's", "x"])
        == compute_key(["London's\u00a0x"])
    )
    assert compute_key(["a"]) != compute_key(["b"])


def test_random_numbers_depend_on_seed_and_text():
    numbers = [draw_number(compute_key([str(n)]), seed) for seed in (1, 2) for n in range(500)]
    assert len(set(numbers)) == 1000
    assert 0.45 < np.mean(numbers) < 0.55
    assert abs(np.corrcoef(numbers[:500], numbers[500:])[0, 1]) < 0.15
