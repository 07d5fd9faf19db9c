"""Hidden words: whole words, some in each sentence, and a loss over these only."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fencepost.data.entity import Sentence
from fencepost.encoder.arrays import number_subwords
from fencepost.encoder.pretrained import Pretrained, get_embedding
from fencepost.encoder.settings import EncoderSettings
from fencepost.encoder.subwords import Subwords
from fencepost.training.masking import MaskedLanguageModel, hide_words
from tests.encoder import tiny
from tests.runtime.models import save_bert

MASK = 4
SUBWORDS = Subwords(tiny.wordpiece(), unknown=3, pad=1, first=(0,), last=(2,))
SENTENCES = st.lists(
    st.lists(st.sampled_from([*tiny.WORDS, "unheard-of", "x"]), min_size=1, max_size=9).map(Sentence),
    min_size=1,
    max_size=5,
)


@given(SENTENCES, st.floats(0.01, 0.9), st.integers(0, 1000))
def test_hides_whole_words(sentences: list[Sentence], share: float, seed: int) -> None:
    arrays = number_subwords(sentences, SUBWORDS, 100, context=False, first_only=False)
    batch = hide_words(arrays, share, MASK, np.random.default_rng(seed))
    owner, before, after = arrays["piece_words"], arrays["ids"], batch.ids.numpy()
    hidden = np.zeros(before.shape, dtype=bool)
    hidden[batch.row, batch.column] = True
    assert (batch.target.numpy() == before[batch.row, batch.column]).all()
    assert not hidden[owner < 0].any()  # special tokens and padding
    assert (before[~hidden] == after[~hidden]).all()
    for row, of_row in enumerate(owner):
        words = set(of_row[hidden[row]].tolist())
        assert words  # at least one
        assert hidden[row].sum() == np.isin(of_row, list(words)).sum()  # with all of their sub-words
        for word in words:
            masked = after[row, of_row == word] == MASK
            assert masked.all() or not masked.any()


def test_hides_the_given_share_of_words() -> None:
    sentences = [Sentence(["London"] * 40)] * 200
    arrays = number_subwords(sentences, SUBWORDS, 1000, context=False, first_only=False)
    batch = hide_words(arrays, 0.2, MASK, np.random.default_rng(0))
    words = {
        (row, arrays["piece_words"][row, column]) for row, column in zip(batch.row, batch.column, strict=True)
    }
    assert len({(int(r), int(w)) for r, w in words}) / 8000 == pytest.approx(0.2, abs=0.02)
    masked = (batch.ids[batch.row, batch.column] == MASK).float().mean().item()
    assert masked == pytest.approx(0.8, abs=0.02)


def test_loss_equals_that_of_a_full_softmax(tmp_path) -> None:
    """The expected loss is computed at all positions, as libraries do it, and then selected."""
    encoder = Pretrained.fetch(EncoderSettings(name=str(save_bert(tmp_path))), prompts=0)
    model = MaskedLanguageModel(encoder).eval()
    sentences = [Sentence(tiny.WORDS), Sentence(tiny.WORDS[3:6])]
    arrays = number_subwords(sentences, encoder.subwords, 38, context=False, first_only=False)
    batch = hide_words(arrays, 0.3, MASK, np.random.default_rng(1))
    with torch.no_grad():
        mask = torch.arange(batch.ids.shape[1]) < batch.lengths[:, None]
        vectors = encoder.transformer(input_ids=batch.ids, attention_mask=mask.long()).last_hidden_state
        features = model.norm(torch.nn.functional.gelu(vectors @ model.dense.weight.T + model.dense.bias))
        log_p = (features @ get_embedding(encoder.transformer).weight.T + model.bias).log_softmax(dim=2)
        expected = -log_p[batch.row, batch.column, batch.target].sum()
        assert model(batch).item() == pytest.approx(expected.item(), rel=1e-5)
