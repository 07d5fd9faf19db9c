"""Bidirectional LSTMs over sequences of different lengths."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def run_bilstm(lstm: nn.LSTM, inputs: Tensor, lengths: Tensor) -> Tensor:
    """Map `[B, T, d]` to the states of both directions, `[B, T, 2 * hidden_size]`, with zeros for padding.

    The LSTM must be bidirectional and have `batch_first`. It computes in single precision.
    """
    with torch.autocast(inputs.device.type, enabled=False):  # bfloat16 has no packed LSTM on CPUs
        if lstm.training and inputs.device.type == "cpu":
            return _run_directions(lstm, inputs.float(), lengths)
        packed = pack_padded_sequence(inputs.float(), lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, _ = lstm(packed)
    return pad_packed_sequence(states, batch_first=True, total_length=inputs.shape[1])[0]


def _run_directions(lstm: nn.LSTM, states: Tensor, lengths: Tensor) -> Tensor:
    """Run each direction by itself and without packing, whose gradient takes twice as long on CPUs."""
    positions = torch.arange(states.shape[1])
    is_inside = positions < lengths[:, None]  # [B, T]
    reverse = torch.where(is_inside, lengths[:, None] - 1 - positions, positions)[..., None]  # [B, T, 1]
    start = states.new_zeros(1, states.shape[0], lstm.hidden_size)
    for layer in range(lstm.num_layers):
        if layer:
            states = dropout(states, lstm.dropout)
        weights, backward_weights = lstm.all_weights[2 * layer : 2 * layer + 2]
        reversed_states = states.gather(1, reverse.expand_as(states))
        forward, backward = (
            torch.lstm(inputs, (start, start), list[Tensor](own), lstm.bias, 1, 0.0, True, False, True)[0]
            for inputs, own in ((states, weights), (reversed_states, backward_weights))
        )
        states = torch.cat((forward, backward.gather(1, reverse.expand_as(backward))), dim=2)
    return states * is_inside[..., None]
