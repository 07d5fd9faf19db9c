"""The computation of BiLSTMs in training, against the packed sequences of PyTorch."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from fencepost.encoder.bilstm import run_bilstm


def run_packed(lstm: nn.LSTM, inputs: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(lstm(packed)[0], batch_first=True, total_length=inputs.shape[1])[0]


def gradients_of(states: torch.Tensor, lstm: nn.LSTM, inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    weights = torch.linspace(-1, 1, states.numel()).reshape(states.shape)
    return torch.autograd.grad((states * weights).sum(), [inputs, *lstm.parameters()])


@given(
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=5),
    padding=st.integers(0, 2),
    layers=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_states_and_gradients_in_training_are_those_of_packed_sequences(lengths, padding, layers, seed):
    torch.manual_seed(seed)
    lstm = nn.LSTM(3, 4, layers, batch_first=True, bidirectional=True).train()
    counts = torch.tensor(lengths)
    inputs = torch.randn(len(lengths), max(lengths) + padding, 3, requires_grad=True)
    ours, expected = run_bilstm(lstm, inputs, counts), run_packed(lstm, inputs, counts)
    assert torch.allclose(ours, expected, atol=1e-6)
    for one, other in zip(
        gradients_of(ours, lstm, inputs), gradients_of(expected, lstm, inputs), strict=True
    ):
        assert torch.allclose(one, other, atol=1e-5)


@pytest.mark.parametrize(("layers", "differs"), [(1, False), (2, True)])
def test_dropout_is_between_layers_and_only_in_training(layers, differs):
    lstm = nn.LSTM(3, 4, layers, batch_first=True, bidirectional=True, dropout=0.5 if layers > 1 else 0.0)
    inputs, lengths = torch.randn(2, 5, 3), torch.tensor([5, 3])
    trained = [run_bilstm(lstm.train(), inputs, lengths) for _ in range(2)]
    assert torch.equal(*trained) != differs
    predicted = [run_bilstm(lstm.eval(), inputs, lengths) for _ in range(2)]
    assert torch.equal(*predicted)


def test_inputs_in_bfloat16_are_read_in_single_precision():
    lstm = nn.LSTM(3, 4, batch_first=True, bidirectional=True)
    inputs, lengths = torch.randn(2, 5, 3).bfloat16(), torch.tensor([5, 3])
    with torch.autocast("cpu", torch.bfloat16):
        states = run_bilstm(lstm.train(), inputs, lengths)
    assert states.dtype == torch.float32
    assert torch.allclose(states, run_packed(lstm, inputs.float(), lengths), atol=1e-6)
