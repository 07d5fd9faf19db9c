"""Export of a model to graphs for onnxruntime, saved beside its weights.

The encoder is one graph; the method has others (`Network.graphs`). Only the encoder is quantised to `int8`:
it has nearly all weights and takes nearly all time. The method's graphs stay in single precision.
"""

from __future__ import annotations

import hashlib
import json
import logging
import tempfile
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
from fencepost.runtime.onnx import Precision, get_graph_file, list_precisions, load_predictor
from fencepost.runtime.pytorch import make_graphs
from fencepost.runtime.quantise import measure_sensitivity, optimise, quantise
from fencepost.runtime.silence import silence_logging, silence_stderr

_OPSET = 18

_MAX_BYTES = 2**31 - 2**24
"""Bytes of weights that fit into one ONNX file with the rest of a graph; larger ones are not optimised."""

_MAX_DIFFERENT = 0.002
"""Share of sentences that may differ in single precision: in some, two scores are almost equal."""

_SENSITIVITY_SENTENCES = 64
"""Number of sentences by which the sensitivity of layers is measured."""


class ExportFailed(FencepostError):
    """Graphs that could not be made, or are worse than the model."""


def export(model: Model, folder: str | Path, *, int8: bool = False) -> Path:
    """Write the graphs of a model that was saved in `folder`; return their folder.

    Raises `ExportFailed` if the model has no graphs, and `WriteError` if they cannot be written.
    """
    folder = Path(folder)
    target = folder / GRAPH_FOLDER
    model = model.eval()
    embedder = model.encoder.embedder
    with (
        raise_write_errors(target),
        tempfile.TemporaryDirectory(dir=folder, prefix=".exporting-") as directory,
    ):
        temporary = Path(directory)
        with torch.no_grad(), _use_eager_attention(embedder):
            graphs = make_graphs(model)
            for name, graph in graphs.items():
                _write_graph(graph, temporary / get_graph_file(name))
        if int8:
            quantise(temporary / get_graph_file(ENCODER), temporary / get_graph_file(ENCODER, "int8"))
        facts = {"types": model.types, "room": embedder.room, "graphs": list(graphs)}
        target.mkdir(exist_ok=True)
        (folder / FACTS_FILE).unlink(missing_ok=True)  # without it, incomplete graphs are not used
        for old in target.glob("*.onnx"):
            old.unlink()
        for path in temporary.iterdir():
            path.replace(target / path.name)
        write_facts(folder, {"fencepost": __version__, **facts})
    return target


def write_facts(folder: Path, facts: dict[str, Any]) -> None:
    """Write the facts about the graphs of the model in this folder, and the checksums of their files.

    The checksums are written first: graphs without facts are ignored, and so are their checksums.
    """
    path = folder / FACTS_FILE
    path.unlink(missing_ok=True)
    text = json.dumps(facts, indent=2) + "\n"
    sums = read_sums(folder)
    if sums is None:  # a model of an earlier version
        sums = compute_sums(folder, files_of(folder))
    sums = {name: digest for name, digest in sums.items() if not name.startswith(f"{GRAPH_FOLDER}/")}
    sums |= compute_sums(folder, [f"{GRAPH_FOLDER}/{graph.name}" for graph in path.parent.glob("*.onnx")])
    sums[FACTS_FILE] = hashlib.sha256(text.encode()).hexdigest()
    with raise_write_errors(folder / SUMS_FILE):
        write_sums(folder, sums)
    with whole_file(path) as stream:
        stream.write(text.encode())


def _write_graph(graph: Graph, path: Path) -> None:
    dynamic = {
        name: {number: axis for number, axis in enumerate(axes) if axis is not None}
        for name, axes in graph.axes.items()
    }
    # the exporter's messages about constants in graphs are for authors of networks
    with silence_logging(logging.WARNING), silence_stderr():
        try:
            torch.onnx.export(
                graph.module.eval(),
                tuple(graph.inputs.values()),
                str(path),
                input_names=list(graph.inputs),
                output_names=graph.outputs,
                dynamic_axes=dynamic,
                opset_version=_OPSET,
                dynamo=False,  # this exporter supports packed sequences, and takes a fraction of the time
            )
            if sum(weight.nbytes for weight in graph.module.parameters()) < _MAX_BYTES:
                optimise(path)
        except OSError:
            raise
        except Exception as error:
            message = f"this model cannot be exported as a graph ({path.stem}): {describe_error(error)}"
            raise ExportFailed(message) from error


@contextmanager
def _use_eager_attention(embedder: Embedder) -> Iterator[None]:
    """Compute attention as products and a softmax: in a graph, PyTorch's fused attention is slower."""
    if not isinstance(embedder, Pretrained):
        yield
        return
    transformer = embedder.transformer
    before = transformer.config._attn_implementation
    transformer.set_attn_implementation("eager")
    try:
        yield
    finally:
        transformer.set_attn_implementation(before)


def check(
    folder: Path, sentences: Sequence[Sentence], *, max_loss: float = 0.5, log: Callable[[str], None]
) -> dict[str, Any]:
    """Compare the graphs in a model's folder with the model itself on annotated sentences.

    Graphs in single precision must predict the same entities. With `int8` at most `max_loss` points of F1 may
    be lost; while more are, the most sensitive layers are put back into single precision, one by one. The
    results are saved beside the graphs and returned. Graphs that fail are removed with an `ExportFailed`.
    """
    expected = list(load(folder, engine="pytorch", device="cpu").predict(sentences))
    model_f1 = evaluate(sentences, expected).overall.f1
    if not model_f1:  # then nothing can be lost, and any graph would pass
        raise UsageError(
            "the model predicts none of the entities in the data that the graphs are checked with; use data "
            f"annotated with the model's types: {', '.join(load(folder, engine='onnx').types)}"
        )
    facts = read_json_object(folder / FACTS_FILE)
    results: dict[str, Any] = {"sentences": len(sentences), "f1": model_f1}
    different, f1 = _compare(folder, "onnx", sentences, expected)
    results["float32"] = {"f1": f1, "sentences_that_differ": different}
    log(f"float32: F1 {100 * f1:.2f} (PyTorch {100 * model_f1:.2f}); {different:,} sentences differ")
    if different > _MAX_DIFFERENT * len(sentences):
        _remove(folder, facts, results, "float32")
        raise ExportFailed(
            f"the graphs predict other entities than the model in {different:,} of {len(sentences):,} "
            "sentences; they have been removed"
        )
    if "int8" in list_precisions(folder):
        results["int8"] = _check_int8(folder, sentences, expected, model_f1 - max_loss / 100, log)
        if not results["int8"]["good"]:
            _remove(folder, facts, results, "int8")
            raise ExportFailed(
                f"int8: F1 {100 * results['int8']['f1']:.2f} is more than {max_loss:g} below the model's "
                f"{100 * model_f1:.2f}; the int8 graph has been removed, the float32 graphs are good"
            )
    write_facts(folder, {**facts, "checked": results})
    return results


def _compare(
    folder: Path, engine: EngineName, sentences: Sequence[Sentence], expected: Sequence[Sentence]
) -> tuple[int, float]:
    """Return the number of sentences with other entities than expected, and the F1 of the graphs."""
    predicted = list(load(folder, engine=engine).predict(sentences))
    pairs = zip(predicted, expected, strict=True)
    different = sum({e.key for e in one.entities} != {e.key for e in other.entities} for one, other in pairs)
    return different, evaluate(sentences, predicted).overall.f1


def _check_int8(
    folder: Path,
    sentences: Sequence[Sentence],
    expected: Sequence[Sentence],
    min_f1: float,
    log: Callable[[str], None],
) -> dict[str, Any]:
    """Return the results of the int8 graph, with parts put back into single precision while F1 is too low."""
    source, target = (folder / GRAPH_FOLDER / get_graph_file(ENCODER, one) for one in ("float32", "int8"))
    in_float: list[str] = []
    remaining: list[str] | None = None
    while True:
        different, f1 = _compare(folder, "int8", sentences, expected)
        good = f1 >= min_f1
        exceptions = f" with {', '.join(in_float)} in float32" if in_float else ""
        log(f"int8{exceptions}: F1 {100 * f1:.2f}; {different:,} sentences differ")
        if remaining is None and not good:
            inputs = load_predictor(folder, "float32").inputs
            windows = [inputs.split(sentence)[0].sentence for sentence in sentences if sentence.words]
            arrays = [inputs([window]) for window in windows[:_SENSITIVITY_SENTENCES]]
            remaining = list(measure_sensitivity(source, arrays))
            log(f"the most sensitive parts: {', '.join(remaining[:3])}")
        if good or not remaining:
            return {"f1": f1, "sentences_that_differ": different, "in_float": in_float, "good": good}
        in_float.append(remaining.pop(0))
        with raise_write_errors(target):
            quantise(source, target, in_float)


def _remove(folder: Path, facts: dict[str, Any], results: dict[str, Any], precision: Precision) -> None:
    """Remove graphs that failed the check, so that nothing uses them; the facts say why."""
    pattern = "*.onnx" if precision == "float32" else get_graph_file("*", precision)
    for path in (folder / GRAPH_FOLDER).glob(pattern):
        path.unlink()
    write_facts(folder, {**facts, "checked": results})
