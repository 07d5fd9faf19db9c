"""What 8-bit integers cost and gain: single precision, a range for each batch, a scale for each row.

    python -m benchmarks.quantisation MODEL CORPUS [--sentences 400] [--rounds 5] [--threads 1 2]

MODEL is a folder with graphs (`fencepost export`), CORPUS the one that it was trained on (gum, genia). Three
graphs of its encoder take turns in one run: that of the model in single precision (`float`), one that
onnxruntime quantises with the range of activations in each batch (`dynamic`), and what `fencepost export
--int8` makes (`rows`). For each:

- `encoder_seconds` and `words_to_entities_seconds`: for the first sentences of the test part, in the batches
  of prediction, by the number of threads: CPU time of the process and time on the clock, the least of
  all rounds; and how many times as fast as `float` that is, by CPU time
- `error`: of word vectors, relative to those in single precision
- `alone`: what the same sentences give one by one: the largest difference of a number in word vectors and of
  a confidence, and the number of entities that are found in one company and not in the other
- `f1`: on the whole test part

Prints one JSON object as its last line.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnxruntime.quantization import QuantType, quantize_dynamic

import fencepost
from benchmarks.common import corpora, machine, report, say
from fencepost import Sentence
from fencepost.data import read
from fencepost.evaluation import evaluate
from fencepost.runtime.engine import ENCODER, EngineName, Predictor
from fencepost.runtime.folder import GRAPH_FOLDER, SUMS_FILE
from fencepost.runtime.onnx import get_graph_file, load_predictor
from fencepost.runtime.quantise import find_parts, quantise

KINDS = ("float", "dynamic", "rows")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("corpus")
    parser.add_argument("--sentences", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    arguments = parser.parse_args()
    data = corpora()
    if data is None:
        report({"benchmark": "quantisation", "skipped": "no corpora"})
        return
    test = list(read(data / arguments.corpus / "test.jsonl"))
    some = [sentence for sentence in test if sentence.words][: arguments.sentences]
    with tempfile.TemporaryDirectory() as name:
        folders = {kind: make_folder(arguments.model, Path(name) / kind, kind) for kind in KINDS}
        results: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}
        for threads in arguments.threads:
            predictors = {kind: load(folder, kind, threads) for kind, folder in folders.items()}
            add_seconds(results, predictors, some, threads, arguments.rounds)
        exact = encode(predictors["float"], some, together=True)
        for kind, predictor in predictors.items():
            results[kind] |= compare(predictor, some, exact)
            engine: EngineName = "onnx" if kind == "float" else "int8"
            predicted = fencepost.load(folders[kind], engine=engine).predict(test)
            results[kind]["f1"] = round(100 * evaluate(test, predicted).overall.f1, 2)
            say(f"{kind}: {results[kind]}")
    facts = {"model": arguments.model.name, "corpus": arguments.corpus, "sentences": len(some)}
    report({"benchmark": "quantisation", **machine(), **facts, "rounds": arguments.rounds, **results})


def make_folder(model: Path, folder: Path, kind: str) -> Path:
    """Return a copy of a model's folder with a graph of this kind."""
    shutil.copytree(model, folder, ignore=shutil.ignore_patterns("*.safetensors", "checkpoints", SUMS_FILE))
    source, target = (folder / GRAPH_FOLDER / get_graph_file(ENCODER, one) for one in ("float32", "int8"))
    if kind == "rows":
        quantise(source, target)
    elif kind == "dynamic":
        quantize_dynamic(
            str(source),
            str(target),
            op_types_to_quantize=["MatMul", "Gather"],
            nodes_to_quantize=[name for names in find_parts(source).values() for name in names],
            per_channel=True,
            weight_type=QuantType.QInt8,
            extra_options={"MatMulConstBOnly": True, "DefaultTensorType": onnx.TensorProto.FLOAT},
        )
    return folder


def load(folder: Path, kind: str, threads: int) -> Predictor:
    return load_predictor(folder, "float32" if kind == "float" else "int8", threads=threads)


def fit(predictor: Predictor, sentences: Sequence[Sentence]) -> list[Sentence]:
    """Return the sentences, or of those that are too long their first windows."""
    return [predictor.inputs.split(sentence)[0].sentence for sentence in sentences]


def add_seconds(
    results: dict[str, dict[str, Any]],
    predictors: dict[str, Predictor],
    sentences: Sequence[Sentence],
    threads: int,
    rounds: int,
) -> None:
    some = fit(predictors["float"], sentences)
    batches = [[some[index] for index in batch] for batch in predictors["float"].make_batches(some)]
    arrays = [predictors["float"].inputs(batch) for batch in batches]
    tasks: dict[str, Callable[[Predictor], Any]] = {
        "encoder_seconds": lambda predictor: [predictor.engine.graphs[ENCODER](**one) for one in arrays],
        "words_to_entities_seconds": lambda predictor: predictor.predict_entities(some),
    }
    for name, task in tasks.items():
        times: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
        for _ in range(rounds):
            for kind, predictor in predictors.items():
                cpu, clock = time.process_time(), time.perf_counter()
                task(predictor)
                times[kind].append((time.process_time() - cpu, time.perf_counter() - clock))
        least = {
            kind: [round(min(column), 3) for column in zip(*of, strict=True)] for kind, of in times.items()
        }
        for kind, (cpu, clock) in least.items():
            of_kind = {"cpu": cpu, "clock": clock, "ratio": round(least["float"][0] / cpu, 2)}
            results[kind].setdefault(name, {})[f"{threads} threads"] = of_kind


def encode(
    predictor: Predictor, sentences: Sequence[Sentence], *, together: bool
) -> list[npt.NDArray[np.float32]]:
    """Return the word vectors of each sentence, without padding."""
    some = fit(predictor, sentences)
    vectors: list[npt.NDArray[np.float32]] = [np.zeros((0, 1), np.float32)] * len(some)
    for batch in predictor.make_batches(some) if together else [[index] for index in range(len(some))]:
        outputs = predictor.engine.graphs[ENCODER](**predictor.inputs([some[index] for index in batch]))[0]
        for index, output in zip(batch, outputs, strict=True):
            vectors[index] = output[: len(some[index])]
    return vectors


def compare(
    predictor: Predictor, sentences: Sequence[Sentence], exact: Sequence[npt.NDArray[np.float32]]
) -> dict[str, Any]:
    together, alone = (encode(predictor, sentences, together=one) for one in (True, False))
    off, of_all = np.concatenate(together) - np.concatenate(exact), np.concatenate(exact)
    some = fit(predictor, sentences)
    differ, farthest, count = 0, 0.0, 0
    for sentence, entities in zip(some, predictor.predict_entities(some), strict=True):
        here = {entity.key: entity.score for entity in entities}
        there = {entity.key: entity.score for entity in predictor.predict_batch([sentence], None)[0]}
        differ, count = differ + len(here.keys() ^ there.keys()), count + len(here)
        farthest = max([farthest, *(abs(here[key] - there[key]) for key in here.keys() & there.keys())])
    vectors = max(float(np.abs(one - other).max()) for one, other in zip(together, alone, strict=True))
    return {
        "error": float(f"{np.sqrt((off**2).mean() / (of_all**2).mean()):.2g}"),
        "entities": count,
        "alone": {
            "largest_difference_of_vectors": float(f"{vectors:.2g}"),
            "largest_difference_of_confidences": float(f"{farthest:.2g}"),
            "entities_that_differ": differ,
        },
    }


if __name__ == "__main__":
    main()
