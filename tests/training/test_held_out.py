from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fencepost.data.entity import Sentence
from fencepost.errors import UsageError
from fencepost.training import hold_out


def corpus(*docs: str | None) -> list[Sentence]:
    return [Sentence(["word"], id=str(index), doc=doc) for index, doc in enumerate(docs)]


@given(
    st.lists(st.sampled_from([None, None, *"abcdefgh"]), min_size=2, max_size=40),
    st.floats(0.01, 0.99),
    st.integers(0, 5),
)
def test_parts_keep_the_order_and_whole_documents(docs: list[str | None], share: float, seed: int) -> None:
    sentences = corpus(*docs)
    sizes = [1] * docs.count(None) + [docs.count(doc) for doc in set(docs) - {None}]
    assume(len(sizes) > 1)
    rest, out = hold_out(sentences, share, seed)
    assert sorted(rest + out, key=lambda s: int(s.id)) == sentences
    for part in (rest, out):
        assert part
        assert [int(s.id) for s in part] == sorted(int(s.id) for s in part)
    assert not {s.doc for s in rest if s.doc} & {s.doc for s in out if s.doc}
    assert hold_out(sentences, share, seed) == (rest, out)
    reached = len(out) >= share * len(sentences) - 1e-9
    one_left = len({s.doc if s.doc is not None else s.id for s in rest}) == 1
    assert reached or one_left


def test_share_is_reached_and_barely_exceeded() -> None:
    sentences = corpus(*(f"doc {index // 5}" for index in range(500)))
    for seed in range(5):
        rest, out = hold_out(sentences, 0.1, seed)
        assert (len(rest), len(out)) == (450, 50)
    _, out = hold_out(sentences, 0.101, 1)
    assert len(out) == 55


def test_large_document_stays_in_the_training_data() -> None:
    sentences = corpus(*["large"] * 90, *["small"] * 10)
    for seed in range(10):
        rest, _ = hold_out(sentences, 0.1, seed)
        assert {s.doc for s in rest} == {"large"}


def test_other_seed_holds_out_other_sentences() -> None:
    sentences = corpus(*[None] * 100)
    assert hold_out(sentences, 0.2, 1)[1] != hold_out(sentences, 0.2, 2)[1]
    assert len(hold_out(sentences, 0.2, 1)[1]) == math.ceil(0.2 * 100)


def test_at_least_one_document_is_left_for_training() -> None:
    rest, out = hold_out(corpus("a", "b"), 0.99, 1)
    assert len(rest) == len(out) == 1


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5, float("nan")])
def test_refuses_a_share_outside_0_and_1(share: float) -> None:
    with pytest.raises(UsageError, match="between 0 and 1, not"):
        hold_out(corpus("a", "b"), share, 1)


def test_refuses_a_single_document() -> None:
    with pytest.raises(UsageError, match=r"has only 1 document, .* give --dev"):
        hold_out(corpus("a", "a", "a"), 0.5, 1)
    with pytest.raises(UsageError, match="has no sentences"):
        hold_out([], 0.5, 1)
