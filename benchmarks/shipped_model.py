"""Makes the English model that ships with the package: trains, exports and scores it, puts it in its place.

    python -m benchmarks.shipped_model FOLDER [--install] [--set KEY=VALUE ...]

Needs GUM. Learns from its sentences with `license: attribution` alone, of the training and the development
part; scores are those of the int8 graphs on the whole test part. A model that is in FOLDER already is not
trained again. `--install` copies what prediction needs, and the model card, into the package. Prints one JSON
object as its last line.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import fencepost
from benchmarks.common import corpora, machine, report, say
from fencepost import Sentence
from fencepost.config import Config
from fencepost.data import read
from fencepost.evaluation import Evaluation, Score, evaluate
from fencepost.methods.model import Model
from fencepost.runtime.export import check, export
from fencepost.runtime.folder import compute_sums, files_of, write_sums
from fencepost.runtime.loading import SHIPPED
from fencepost.runtime.pytorch import load_model
from fencepost.training import train

TEMPLATE = Path(__file__).with_suffix(".md")
SETTINGS = ["method.name=boundary-smoothing", "training.epochs=10"]
FILES = (
    "config.json",
    "vocabulary.json",
    "tokenizer.json",
    "special_tokens.json",
    "onnx/export.json",
    "onnx/encoder.int8.onnx",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--install", action="store_true")
    parser.add_argument("--set", action="append", default=[], dest="changes", metavar="KEY=VALUE")
    arguments = parser.parse_args()
    data = corpora()
    if data is None:
        report({"benchmark": "shipped_model", "skipped": "no corpora"})
        return
    folder: Path = arguments.folder
    parts = {part: list(read(data / "gum" / f"{part}.jsonl")) for part in ("train", "dev", "test")}
    learnt, chosen = free(parts["train"]), free(parts["dev"])
    if not (folder / "config.json").is_file():
        config = Config.compose(changes=[*SETTINGS, *arguments.changes], flags={"training": {"seed": 1}})
        say(f"{len(learnt):,} sentences to learn from, {len(chosen):,} to choose the epoch by")
        train(config, learnt, folder, chosen, quiet=False)
    model = load_model(folder)
    export(model, folder, int8=True)
    checked = check(folder, parts["dev"], log=say)
    of_test = evaluate(parts["test"], fencepost.load(folder, engine="int8").predict(parts["test"]))
    scores = of_test.to_dict()
    say(f"int8 on the test part: F1 {100 * scores['f1']:.2f}, ECE {scores['ece']:.3f}")
    if arguments.install:
        install(folder, card(model, of_test, checked, len(learnt), len(parts["test"])))
    result = {name: scores[name] for name in ("precision", "recall", "f1", "ece", "by_type")}
    report(
        {"benchmark": "shipped_model", **machine(), "checked": checked, "size_mb": size_mb(folder), **result}
    )


def free(sentences: list[Sentence]) -> list[Sentence]:
    """Those whose licence asks for nothing but attribution."""
    return [sentence for sentence in sentences if sentence.meta.get("license") == "attribution"]


def wanted(folder: Path) -> list[Path]:
    """Return the files that prediction needs: of the encoder only the int8 graph."""
    graphs = json.loads((folder / "onnx" / "export.json").read_text(encoding="utf-8"))["graphs"]
    return [Path(name) for name in (*FILES, *(f"onnx/{name}.onnx" for name in graphs if name != "encoder"))]


def size_mb(folder: Path) -> float:
    return round(sum((folder / name).stat().st_size for name in wanted(folder)) / 1e6, 1)


def install(folder: Path, text: str) -> None:
    if SHIPPED.exists():
        shutil.rmtree(SHIPPED)
    for name in wanted(folder):
        (SHIPPED / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / name, SHIPPED / name)
    (SHIPPED / "README.md").write_text(text, encoding="utf-8")
    write_sums(SHIPPED, compute_sums(SHIPPED, files_of(SHIPPED)))


def card(model: Model, scores: Evaluation, checked: dict[str, Any], learnt: int, tested: int) -> str:
    """Return the model card with the scores of this run."""
    lengths = scores.by_length_group([1, 2, 3, 5, 10])
    return TEMPLATE.read_text(encoding="utf-8").format(
        types=", ".join(f"`{type_}`" for type_ in model.types),
        method=model.config.method.name,
        epochs=model.config.training.epochs,
        learnt=f"{learnt:,}",
        tested=f"{tested:,}",
        of_types=_table({"all": scores.overall, **scores.by_type}),
        of_lengths=_table(lengths),
        ece=f"{scores.to_dict()['ece']:.3f}",
        f1_float=_percent(checked["f1"]),
        f1_int8=_percent(checked["int8"]["f1"]),
        in_float=", ".join(checked["int8"]["in_float"]) or "none",
        fencepost=fencepost.__version__,
    )


def _table(rows: dict[str, Score]) -> str:
    return "\n".join(
        f"| {name} | {_percent(of.precision)} | {_percent(of.recall)} | {_percent(of.f1)} | {of.support:,} |"
        for name, of in rows.items()
    )


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.1f}"


if __name__ == "__main__":
    main()
