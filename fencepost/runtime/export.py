"""Exporting: a model's graphs for onnxruntime, beside its weights.

The encoder is one graph, the method's parts are others (`Network.graphs`). `int8` is of the encoder alone,
where nearly all weights and nearly all time are; what decides about entities stays in single precision.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from fencepost import __version__
from fencepost.data.entity import Sentence
from fencepost.data.files import read_json_object
from fencepost.data.output import raise_write_errors, whole_file
from fencepost.encoder.embedder import Embedder
from fencepost.encoder.pretrained import Pretrained
from fencepost.errors import FencepostError, UsageError, describe_error
from fencepost.evaluation import evaluate
from fencepost.methods.model import Model
from fencepost.methods.network import Graph
from fencepost.runtime.engine import ENCODER, EngineName
from fencepost.runtime.folder import (
    FACTS_FILE,
    GRAPH_FOLDER,
    SUMS_FILE,
    compute_sums,
    files_of,
    read_sums,
    write_sums,
)
from fencepost.runtime.loading import load
from fencepost.runtime.onnx import Precision, exported_precisions, graph_file, load_predictor
from fencepost.runtime.pytorch import model_graphs
from fencepost.runtime.quantise import optimise, quantise, sensitivity

_OPSET = 18

_ONE_FILE = 2**31 - 2**24
"""Bytes of weights that fit into one file beside the rest of a graph; a larger one is not fused."""

_DIFFER = 0.002
"""The share of sentences that may differ in single precision: in some, two numbers are all but equal."""

_JUDGED = 64
"""Sentences by which the sensitivity of layers is judged."""


class ExportFailed(FencepostError):
    """The graphs could not be made, or are not as good as the model."""


def export(model: Model, folder: str | Path, *, int8: bool = False) -> Path:
    """Write the graphs of a model that was saved in `folder`; return their folder.

    Raises `ExportFailed` if the model has no graphs, and `WriteError` if they cannot be written.
    """
    folder = Path(folder)
    target = folder / GRAPH_FOLDER
    model = model.eval()
    with raise_write_errors(target), tempfile.TemporaryDirectory(dir=folder, prefix=".exporting-") as made:
        temporary = Path(made)
        with torch.no_grad(), _plain_attention(model.encoder.embedder):
            graphs = model_graphs(model)
            for name, graph in graphs.items():
                _write(graph, temporary / graph_file(name))
        if int8:
            quantise(temporary / graph_file(ENCODER), temporary / graph_file(ENCODER, "int8"))
        embedder = model.encoder.embedder
        facts: dict[str, Any] = {
            "fencepost": __version__,
            "types": model.types,
            "room": embedder.room,
            "graphs": list(graphs),
        }
        target.mkdir(exist_ok=True)
        (folder / FACTS_FILE).unlink(missing_ok=True)  # without it, graphs are none until all are there
        for old in target.glob("*.onnx"):
            old.unlink()
        for path in temporary.iterdir():
            path.replace(target / path.name)
        write_facts(folder, facts)
    return target


def write_facts(folder: Path, facts: dict[str, Any]) -> None:
    """Write what is known about the graphs of the model in this folder, and the sums of their files.

    The sums are there first: without its facts, a graph does not count, and a sum of it neither.
    """
    path = folder / FACTS_FILE
    path.unlink(missing_ok=True)
    text = json.dumps(facts, indent=2) + "\n"
    sums = read_sums(folder)
    if sums is None:  # a model of an older version
        sums = compute_sums(folder, files_of(folder))
    sums = {name: digest for name, digest in sums.items() if not name.startswith(f"{GRAPH_FOLDER}/")}
    sums |= compute_sums(folder, [f"{GRAPH_FOLDER}/{graph.name}" for graph in path.parent.glob("*.onnx")])
    sums[FACTS_FILE] = hashlib.sha256(text.encode()).hexdigest()
    with raise_write_errors(folder / SUMS_FILE):
        write_sums(folder, sums)
    with whole_file(path) as stream:
        stream.write(text.encode())


def _write(graph: Graph, path: Path) -> None:
    dynamic = {
        name: {at: axis for at, axis in enumerate(axes) if axis is not None}
        for name, axes in graph.axes.items()
    }
    with _quietly():
        try:
            torch.onnx.export(
                graph.module.eval(),
                tuple(graph.inputs.values()),
                str(path),
                input_names=list(graph.inputs),
                output_names=graph.outputs,
                dynamic_axes=dynamic,
                opset_version=_OPSET,
                dynamo=False,  # it follows packed sequences, and takes a fraction of the time
            )
            if sum(weight.nbytes for weight in graph.module.parameters()) < _ONE_FILE:
                optimise(path)
        except OSError:
            raise
        except Exception as error:
            message = f"this model cannot be made a graph ({path.stem}): {describe_error(error)}"
            raise ExportFailed(message) from error


@contextmanager
def _plain_attention(embedder: Embedder) -> Iterator[None]:
    """Attention as products and a softmax: as a graph, what PyTorch has in one piece is slower."""
    if not isinstance(embedder, Pretrained):
        yield
        return
    transformer = embedder.transformer
    usual = transformer.config._attn_implementation
    transformer.set_attn_implementation("eager")
    try:
        yield
    finally:
        transformer.set_attn_implementation(usual)


@contextmanager
def _quietly() -> Iterator[None]:
    """What exporters say about constants in graphs is meant for those who write networks.

    A part of it is written by C++, past Python, to the standard error of the process.
    """
    before, kept = logging.root.manager.disable, os.dup(2)
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), Path(os.devnull).open("w") as nowhere:
            warnings.simplefilter("ignore")
            sys.stderr.flush()
            os.dup2(nowhere.fileno(), 2)
            yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        logging.disable(before)


def check(
    folder: Path, sentences: Sequence[Sentence], *, max_loss: float = 0.5, tell: Callable[[str], None]
) -> dict[str, Any]:
    """Holds the graphs in a model's folder against the model itself, on annotated sentences.

    Graphs in single precision must find the same entities. With `int8` at most `max_loss` points of F1 may be
    lost; while more are, the layers that lose most are put back into single precision, one by one. What was
    measured is written down beside the graphs; graphs that fail are removed, and `ExportFailed` is raised.
    """
    exact = list(load(folder, engine="pytorch", device="cpu").predict(sentences))
    of_model = evaluate(sentences, exact).overall.f1
    if not of_model:  # then nothing can be lost, and anything would be good
        raise UsageError(
            "the model finds none of the entities in the data that the graphs are checked with; it must be "
            f"annotated with the model's types: {', '.join(load(folder, engine='onnx').types)}"
        )
    facts = read_json_object(folder / FACTS_FILE)
    checked: dict[str, Any] = {"sentences": len(sentences), "f1": of_model}
    differ, of_graphs = _compared(folder, "onnx", sentences, exact)
    checked["float32"] = {"f1": of_graphs, "sentences_that_differ": differ}
    tell(f"float32: F1 {100 * of_graphs:.2f} (PyTorch {100 * of_model:.2f}); {differ:,} sentences differ")
    if differ > _DIFFER * len(sentences):
        _remove(folder, facts, checked, "float32")
        raise ExportFailed(
            f"the graphs find other entities than the model in {differ:,} of {len(sentences):,} sentences; "
            "they have been removed"
        )
    if "int8" in exported_precisions(folder):
        checked["int8"] = _check_int8(folder, sentences, exact, of_model - max_loss / 100, tell)
        if not checked["int8"]["good"]:
            _remove(folder, facts, checked, "int8")
            raise ExportFailed(
                f"int8: F1 {100 * checked['int8']['f1']:.2f} is more than {max_loss:g} below the model's "
                f"{100 * of_model:.2f}; the int8 graph has been removed, the float32 graphs are good"
            )
    write_facts(folder, {**facts, "checked": checked})
    return checked


def _compared(
    folder: Path, engine: EngineName, sentences: Sequence[Sentence], exact: Sequence[Sentence]
) -> tuple[int, float]:
    """In how many sentences the graphs find other entities than the model, and their F1."""
    found = list(load(folder, engine=engine).predict(sentences))
    pairs = zip(found, exact, strict=True)
    differ = sum({e.key for e in one.entities} != {e.key for e in other.entities} for one, other in pairs)
    return differ, evaluate(sentences, found).overall.f1


def _check_int8(
    folder: Path,
    sentences: Sequence[Sentence],
    exact: Sequence[Sentence],
    least: float,
    tell: Callable[[str], None],
) -> dict[str, Any]:
    source, target = (folder / GRAPH_FOLDER / graph_file(ENCODER, one) for one in ("float32", "int8"))
    in_float: list[str] = []
    waiting: list[str] | None = None
    while True:
        differ, f1 = _compared(folder, "int8", sentences, exact)
        good = f1 >= least
        kept = f" with {', '.join(in_float)} in float32" if in_float else ""
        tell(f"int8{kept}: F1 {100 * f1:.2f}; {differ:,} sentences differ")
        if waiting is None and not good:
            inputs = load_predictor(folder, "float32").inputs
            some = [inputs.split(sentence)[0].sentence for sentence in sentences if sentence.words][:_JUDGED]
            waiting = list(sensitivity(source, [inputs([sentence]) for sentence in some]))
            tell(f"the most sensitive parts: {', '.join(waiting[:3])}")
        if good or not waiting:
            return {"f1": f1, "sentences_that_differ": differ, "in_float": in_float, "good": good}
        in_float.append(waiting.pop(0))
        with raise_write_errors(target):
            quantise(source, target, in_float)


def _remove(folder: Path, facts: dict[str, Any], checked: dict[str, Any], precision: Precision) -> None:
    """Remove the graphs that are not good, so that nothing uses them; the facts say why."""
    failed = "*.onnx" if precision == "float32" else graph_file("*", precision)
    for path in (folder / GRAPH_FOLDER).glob(failed):
        path.unlink()
    write_facts(folder, {**facts, "checked": checked})
