"""A run that is interrupted and resumed."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from fencepost.data import read
from fencepost.errors import DataError, UsageError
from fencepost.runtime import chunks
from fencepost.runtime.prediction.text import Text
from fencepost.runtime.suggestion import Chooser, checkpoint
from fencepost.runtime.suggestion.blocks import to_text
from fencepost.runtime.suggestion.checkpoint import Checkpoint
from fencepost.runtime.suggestion.chooser import STRATEGIES
from tests.methods.running import recogniser_of
from tests.runtime import models

SENTENCES = list(islice(read("sample:train"), 30))
TEXTS = [Text(sentence.text, {"source": number}) for number, sentence in enumerate(SENTENCES)]


@pytest.fixture(scope="module")
def recogniser():
    return recogniser_of(models.random_model("boundary-smoothing"))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(chunks, "TEXTS", 4)


def stopping(texts, after):
    """Yield some texts, then raise the exception of Ctrl-C."""
    yield from texts[:after]
    raise KeyboardInterrupt


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("texts", [TEXTS, list(map(to_text, SENTENCES))], ids=["raw", "words"])
def test_resumed_run_chooses_the_same_sentences(recogniser, tmp_path, strategy, texts):
    def start():
        chooser = Chooser(recogniser, 2, strategy=strategy, exclude=SENTENCES[:3])
        return chooser, Checkpoint(tmp_path / "x.npz", {"model": 1}, chooser.describe())

    whole, _ = start()
    whole.read(texts)
    for after in (9, 23, 30):
        chooser, saved = start()
        chooser.state = saved.load() or chooser.state
        with pytest.raises(KeyboardInterrupt):
            chooser.read(stopping(texts, after), saved.save)
        assert start()[1].load().texts == after // 4 * 4
    chooser, saved = start()
    chooser.state = saved.load()
    chooser.read(texts, saved.save)
    assert chooser.finish() == whole.finish() != []
    assert chooser.state.digest == whole.state.digest
    assert (chooser.state.sentences, chooser.state.excluded) == (whole.state.sentences, whole.state.excluded)


def test_saves_only_after_the_interval(recogniser, tmp_path, monkeypatch):
    path = tmp_path / "x.npz"
    Chooser(recogniser, 2).read(TEXTS, Checkpoint(path, {}, {}).save)
    assert not path.exists()
    monkeypatch.setattr(checkpoint, "EVERY", 0.0)
    Chooser(recogniser, 2).read(TEXTS, Checkpoint(path, {}, {}).save)
    assert Checkpoint(path, {}, {}).load().texts == len(TEXTS)


def saved_at(recogniser, path, after=12):
    chooser = Chooser(recogniser, 2)
    with pytest.raises(KeyboardInterrupt):
        chooser.read(stopping(TEXTS, after), Checkpoint(path, {"a": 1}, {"b": 1}).save)
    return Checkpoint(path, {"a": 1}, {"b": 1}).load()


@pytest.mark.parametrize(
    "texts",
    [TEXTS[1:], TEXTS[:8], [], [*TEXTS[:11], Text("other"), *TEXTS[12:]]],
    ids=["moved", "less", "none", "other"],
)
def test_refuses_to_resume_with_other_texts(recogniser, tmp_path, texts):
    chooser = Chooser(recogniser, 2)
    chooser.state = saved_at(recogniser, tmp_path / "x.npz")
    with pytest.raises(UsageError, match="first 12 texts are not those"):
        chooser.read(texts)


def test_refuses_to_resume_another_run(recogniser, tmp_path):
    path = tmp_path / "x.npz"
    saved_at(recogniser, path)
    for model, options, reason in (
        ({"a": 2}, {"b": 1}, "another model"),
        ({"a": 1}, {"b": 2}, "other options"),
    ):
        with pytest.raises(UsageError, match=f"was made with {reason}; use --force to start again"):
            Checkpoint(path, model, options).load()


def test_refuses_a_damaged_checkpoint(recogniser, tmp_path):
    path = tmp_path / "x.npz"
    assert Checkpoint(path, {}, {}).load() is None
    saved_at(recogniser, path)
    content = path.read_bytes()
    pickled = tmp_path / "pickle.npz"
    np.savez(pickled, about=np.array([{"a": 1}], dtype=object))
    for damaged in (b"", content[:100], content[:-200], b"not an archive", pickled.read_bytes()):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match="cannot be continued; use --force to start again"):
            Checkpoint(path, {"a": 1}, {"b": 1}).load()
