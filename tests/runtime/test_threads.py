"""Batches that threads compute at once: the same results, errors, and limited threads."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from fencepost.data.entity import Sentence
from fencepost.errors import DataError
from fencepost.runtime import onnx as onnx_module
from fencepost.runtime.engine import Predictor
from fencepost.runtime.loading import load_engine
from tests.cli.conftest import heed_ctrl_c
from tests.runtime import models

WORDS = ("Ada", "Charles", "London", "Toronto", "University", "met", "nobody", "of", "opened", "the")


@pytest.fixture(scope="module", params=list(models.METHODS))
def exported(request, tmp_path_factory) -> Path:
    """Folder of an exported model of each method."""
    return models.saved(models.random_model(request.param), tmp_path_factory.mktemp("model"))


def sentences(count: int = 60) -> list[Sentence]:
    """Return sentences of random lengths, some without words."""
    chance = random.Random(0)  # noqa: S311
    return [Sentence(chance.choices(WORDS, k=chance.randint(0, 12))) for _ in range(count)]


def small_batches(folder: Path, threads: int, engine: Any = "onnx") -> Predictor:
    return load_engine(folder, engine, threads=threads).with_options({"batch_size": 3})


def record_threads(predictor: Predictor, monkeypatch) -> list[tuple[int, bool]]:
    """Return a list to which each batch adds its thread, and whether its graphs are those of one thread."""
    calls: list[tuple[int, bool]] = []
    compute = predictor.predict_batch

    def predict_batch(batch: Any, watch: Any = None, graphs: Any = None) -> Any:
        calls.append((threading.get_ident(), graphs is not None))
        return compute(batch, watch, graphs)

    monkeypatch.setattr(predictor, "predict_batch", predict_batch)
    return calls


def test_threads_give_the_same_results_as_one(exported: Path, monkeypatch) -> None:
    expected = small_batches(exported, 1).predict_entities(sentences())
    assert any(expected)
    for threads in (2, 3, 8):
        predictor = small_batches(exported, threads)
        calls = record_threads(predictor, monkeypatch)
        assert predictor.predict_entities(sentences()) == expected
        assert all(single for _, single in calls)
        assert threading.get_ident() not in {thread for thread, _ in calls}
        assert len({thread for thread, _ in calls}) <= threads


def test_batches_are_computed_in_parallel(folder: Path, monkeypatch) -> None:
    """Two threads wait for each other within their batches; a single one would time out."""
    predictor = small_batches(folder, 2)
    meeting = threading.Barrier(2)
    inputs = predictor.inputs

    def meet(batch: Any) -> Any:
        meeting.wait(timeout=30)
        return inputs(batch)

    monkeypatch.setattr(predictor, "inputs", meet)
    for name in ("sizes", "block"):
        monkeypatch.setattr(meet, name, getattr(inputs, name), raising=False)
    even = [Sentence(["Ada"])] * 12
    assert len(predictor.make_batches(even)) == 4
    assert [len(entities) for entities in predictor.predict_entities(even)] == [1] * 12


def test_one_thread_computes_in_the_calling_thread(folder: Path, monkeypatch) -> None:
    predictor = small_batches(folder, 1)
    calls = record_threads(predictor, monkeypatch)
    predictor.predict_entities(sentences())
    assert set(calls) == {(threading.get_ident(), False)}
    assert predictor.engine._single is None  # type: ignore[attr-defined]  # no second copy


def test_few_batches_run_one_after_another(folder: Path, monkeypatch) -> None:
    """With fewer batches than threads, each batch uses all threads within its graph."""
    predictor = small_batches(folder, 3)
    calls = record_threads(predictor, monkeypatch)
    predictor.predict_entities([Sentence(["Ada"])])
    predictor.predict_entities([Sentence(["Ada"])] * 6)
    assert calls == [(threading.get_ident(), False)] * 3
    assert predictor.engine._single is None  # type: ignore[attr-defined]


def test_watch_is_called_in_the_calling_thread(folder: Path) -> None:
    predictor = small_batches(folder, 2)
    of_caller, watched = threading.get_ident(), []

    def watch(batch: Any, words: Any, scores: Any) -> None:
        assert threading.get_ident() == of_caller
        watched.extend(batch)

    expected = small_batches(folder, 1).predict_entities(sentences())
    assert predictor.predict_entities(sentences(), watch) == expected
    assert sorted(map(len, watched)) == sorted(len(one) for one in sentences() if len(one))


def test_error_of_a_thread_is_raised_and_stops_the_others(folder: Path, monkeypatch) -> None:
    predictor = small_batches(folder, 2)
    compute, batches = predictor.predict_batch, []

    def fail(batch: Any, watch: Any = None, graphs: Any = None) -> Any:
        batches.append(batch)
        if len(batches) == 2:
            raise DataError("the second batch is broken", source="here")
        return compute(batch, watch, graphs)

    monkeypatch.setattr(predictor, "predict_batch", fail)
    many = [Sentence(["Ada"])] * 900
    with pytest.raises(DataError, match="the second batch is broken"):
        predictor.predict_entities(many)
    assert len(batches) < len(predictor.make_batches(many)) == 300
    monkeypatch.undo()
    assert all(predictor.predict_entities(many))  # and it works again


def test_replaced_graphs_are_not_mixed_with_loaded_ones(exported: Path, tmp_path: Path) -> None:
    """The second copy is opened later, when the model may have been replaced or deleted."""
    expected = small_batches(exported, 1).predict_entities(sentences())
    for change in ("replace", "delete"):
        folder = Path(shutil.copytree(exported, tmp_path / change))
        predictor = small_batches(folder, 2)
        for path in (folder / "onnx").glob("*.onnx"):
            path.unlink()
            if change == "replace":
                shutil.copy(exported / "onnx" / path.name, path)
        assert predictor.predict_entities(sentences()) == expected
        assert predictor.engine.open_single() is None


def test_predicts_without_a_second_copy_if_memory_is_short(folder: Path, monkeypatch) -> None:
    predictor = small_batches(folder, 2)
    expected = small_batches(folder, 1).predict_entities(sentences())
    tried = []

    def refuse(path: Path, _: Any) -> Any:
        tried.append(path)
        raise DataError("the graph cannot be loaded: bad allocation", source=str(path))

    monkeypatch.setattr(onnx_module, "_open", refuse)
    for _ in range(2):
        assert predictor.predict_entities(sentences()) == expected
    assert len(tried) == 1


def test_pytorch_computes_batches_in_the_calling_thread(pytorch, monkeypatch) -> None:
    predictor = pytorch.with_options(batch_size=3)._predictor
    calls = record_threads(predictor, monkeypatch)
    predictor.predict_entities(sentences())
    assert len(calls) > 2
    assert set(calls) == {(threading.get_ident(), False)}


@pytest.mark.parametrize(
    ("threads", "variable", "expected"), [(None, "3", 3), (2, "3", 2), (None, "0", 5), (None, "2,1", 5)]
)
def test_number_of_threads_comes_from_option_or_environment(
    folder: Path, monkeypatch, threads, variable: str, expected: int
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", variable)
    monkeypatch.setattr(onnx_module, "count_cores", lambda: 5)
    assert load_engine(folder, "onnx", threads=threads).engine.threads == expected


SLOW = """
import os, sys, time
from fencepost.data.entity import Sentence
from fencepost.runtime.loading import load_engine
folder = __import__("pathlib").Path(sys.argv[1])
predictor = load_engine(folder, "onnx", threads=2).with_options({"batch_size": 1})
def predict_batch(batch, watch=None, graphs=None):
    os.write(1, b"computing\\n")  # at once, as two threads write
    time.sleep(0.2)
    return [[] for _ in batch]
predictor.predict_batch = predict_batch
predictor.predict_entities([Sentence(["Ada"])] * 10_000)
"""


@pytest.mark.skipif(os.name != "posix", reason="Windows has no SIGINT for one process")
def test_ctrl_c_ends_prediction(folder: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_ctrl_c,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "computing\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)  # all batches would take a quarter of an hour
    assert "KeyboardInterrupt" in errors
