"""Functions that all decoders share."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

from fencepost.methods.decoder import GraphMismatch, WordArrays, run_graph, sigmoid, softmax


def test_taking_sentences_trims_padding() -> None:
    vectors = np.arange(24, dtype=np.float32).reshape(3, 4, 2)
    words = WordArrays(vectors, np.array([4, 1, 2]), vectors[:, :1])
    some = words.take([2, 1])
    np.testing.assert_array_equal(some.vectors, vectors[[2, 1], :2])
    np.testing.assert_array_equal(some.prompts, vectors[[2, 1], :1])
    assert some.lengths.tolist() == [2, 1]
    assert set(words.inputs()) == {"vectors", "prompts"}
    assert set(WordArrays(vectors, words.lengths).inputs()) == {"vectors"}


def test_sigmoid_and_softmax_equal_those_of_scipy() -> None:
    logits = np.array([[-1e4, -200.0, -3.0, 0.0], [0.5, 40.0, 1e4, 2.0]], dtype=np.float32)
    np.testing.assert_allclose(sigmoid(logits), scipy.special.expit(logits), rtol=1e-6)
    np.testing.assert_allclose(softmax(logits), scipy.special.softmax(logits, axis=-1), rtol=1e-6)


def test_outputs_of_graphs_are_checked() -> None:
    numbers = np.zeros((2, 3), dtype=np.float32)
    graphs = {"good": lambda **_: [numbers]}
    assert run_graph(graphs, "good", {}, ("f", (2, 3)))[0] is numbers
    for expected in (("i", (2, 3)), ("f", (3, 2))):
        with pytest.raises(GraphMismatch, match="the outputs of the graph good are"):
            run_graph(graphs, "good", {}, expected)
    with pytest.raises(GraphMismatch, match="the graph other is missing"):
        run_graph(graphs, "other", {}, ("f", (2, 3)))
