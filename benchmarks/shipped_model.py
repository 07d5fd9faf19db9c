"""Makes the English models of Fencepost: trains, exports, scores them, and puts them in their places.

    python -m benchmarks.shipped_model names FOLDER [--against MODEL] [--install]
    python -m benchmarks.shipped_model mentions FOLDER [--install]
    python -m benchmarks.shipped_model names FOLDER --trial [--wnut17] [--encoder minilm] [--set KEY=VALUE]

`names`, the default model, learns the names of GUM (see `benchmarks/names.py`); `mentions` learns all
mentions of GUM. Only sentences with `license: attribution` are used to train and to choose, of the training
and the development data; scores are those of the int8 graphs on the whole test data. A model that is in
FOLDER already is not trained again. `--against` scores a model of mentions on the same names, and measures
the speed of both in turn: its mentions are reduced to names as those of GUM are, with tags of parts of speech
that are guessed from how words are written, so that pronouns and most descriptions do not count against it,
and again with the gold tags, which the model of names does not have.

`--trial` scores a model on development data only, and appends a line to `results/shipped_trials.jsonl`: what
the encoder, the epochs and the data of `names` were chosen by. `--wnut17` adds the training data of WNUT17.

`--install` copies what prediction needs into the package, and writes the scores to `results/shipped.json` and
the model card, which is made from them. `--card` only writes the cards again, from that file. Prints one JSON
object as its last line.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common import RESULTS, ROOT, code_version, corpora, find_encoder, machine, report, say
from benchmarks.everyday import TEXTS, read_texts, score_everyday
from benchmarks.names import change_words, find_names, guess_tags, map_types, take_free, vary_case
from benchmarks.quality import MULTILINGUAL
from fencepost import Recogniser, Sentence, __version__, load
from fencepost.config import Config
from fencepost.data import read
from fencepost.evaluation import Score, evaluate
from fencepost.runtime.folder import compute_sums, files_of, read_saved_config, write_sums
from fencepost.runtime.loading import SHIPPED

if TYPE_CHECKING:
    from fencepost.evaluation import Evaluation

SCORES = RESULTS / "shipped.json"
TRIALS = RESULTS / "shipped_trials.jsonl"
BGE = "bge-small-en-v1.5"
CARDS = Path(__file__).with_name("cards")
FILES = (
    "config.json",
    "vocabulary.json",
    "tokenizer.json",
    "special_tokens.json",
    "onnx/export.json",
    "onnx/encoder.int8.onnx",
)
LENGTHS = [1, 2, 3, 5, 10]
LOWER_CASE = 0.15
"""Share of the training sentences in lower case, so that models do not depend on case alone."""


@dataclass(frozen=True)
class Recipe:
    """How a model is made: its settings, its training and development data, and where it is installed."""

    settings: Sequence[str]
    encoder: str
    read_training: Callable[[Path], list[Sentence]]
    convert: Callable[[Sentence], Sentence]
    target: Path


def read_names(data: Path, *, wnut17: bool = False) -> list[Sentence]:
    sentences = [find_names(sentence) for sentence in take_free(read(data / "gum" / "train.jsonl"))]
    if wnut17:
        sentences += [map_types(sentence) for sentence in read(data / "wnut17" / "train.conll")]
    return list(vary_case(sentences, LOWER_CASE, seed=1))


def read_mentions(data: Path) -> list[Sentence]:
    return list(vary_case(take_free(read(data / "gum" / "train.jsonl")), LOWER_CASE, seed=1))


RECIPES = {
    "names": Recipe(
        ["method.name=boundary-smoothing", "training.epochs=6", "training.seed=1"],
        BGE,
        read_names,
        find_names,
        SHIPPED,
    ),
    "mentions": Recipe(
        ["method.name=boundary-smoothing", "training.epochs=7", "training.seed=1"],
        "minilm",
        read_mentions,
        lambda sentence: sentence,
        ROOT / "fencepost-models" / "fencepost_models" / "mentions",
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("name", choices=RECIPES, nargs="?")
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--against", metavar="MODEL", help="folder of a model of mentions")
    parser.add_argument("--install", action="store_true")
    parser.add_argument("--trial", action="store_true", help="only score on development data")
    parser.add_argument("--wnut17", action="store_true")
    parser.add_argument(
        "--encoder", choices=("minilm", BGE, MULTILINGUAL), help="encoder instead of that of the recipe"
    )
    parser.add_argument("--card", action="store_true", help="write the cards again and do nothing else")
    parser.add_argument("--set", action="append", default=[], dest="changes", metavar="KEY=VALUE")
    arguments = parser.parse_args()
    data = corpora()
    if arguments.card:
        write_cards()
    elif data is None:
        report({"benchmark": "shipped_model", "skipped": "no corpora"})
    elif arguments.folder is None:
        parser.error("give the name of a model and a folder")
    else:
        report({"benchmark": "shipped_model", "model": arguments.name, **run(arguments, data)})


def run(arguments: argparse.Namespace, data: Path) -> dict[str, Any]:
    """Make a model, or only try it out; return its scores."""
    recipe = RECIPES[arguments.name]
    if arguments.encoder is not None:
        recipe = replace(recipe, encoder=arguments.encoder)
    if arguments.wnut17:
        recipe = replace(recipe, read_training=partial(read_names, wnut17=True))
    if arguments.trial:
        return try_out(recipe, arguments, data)
    result = make(recipe, arguments.folder, data, arguments.changes)
    tested = [recipe.convert(sentence) for sentence in read(data / "gum" / "test.jsonl")]
    ner = load(arguments.folder, engine="int8")
    result |= score(ner, tested)
    if arguments.name == "names":
        result["everyday"] = score_everyday(ner, read_texts(TEXTS))
        for line in result["everyday"].pop("lines"):
            say(line)
    if arguments.against is not None:
        result["against"] = compare(ner, load(arguments.against), tested)
    if arguments.install:
        install(arguments.name, arguments.folder, result)
    return result


def make(recipe: Recipe, folder: Path, data: Path, changes: Sequence[str]) -> dict[str, Any]:
    """Train, unless the folder has a model, and export; return facts about the model."""
    from fencepost.runtime.export import check, export
    from fencepost.runtime.pytorch import load_model

    all_dev = [recipe.convert(sentence) for sentence in read(data / "gum" / "dev.jsonl")]
    dev = take_free(all_dev)
    trained_on = train_model(recipe, folder, data, dev, changes)
    export(load_model(folder), folder, int8=True)
    checked = check(folder, all_dev, log=say)
    config = read_saved_config(folder).parse_config()
    return {
        **machine(),
        "fencepost": __version__,
        "commit": code_version(),
        "settings": [*recipe.settings, *changes],
        "encoder": recipe.encoder,
        "trained_on": trained_on,
        "chosen_on": len(dev),
        "threshold": config.predict.threshold,
        "size_mb": round(sum((folder / name).stat().st_size for name in list_files(folder)) / 1e6, 1),
        "dev_f1": checked["f1"],
        "dev_f1_int8": checked["int8"]["f1"],
        "in_float": checked["int8"]["in_float"],
    }


def train_model(
    recipe: Recipe, folder: Path, data: Path, dev: Sequence[Sentence], changes: Sequence[str]
) -> int:
    """Train, unless the folder has a model; return the number of training sentences."""
    from fencepost.training import train

    training = recipe.read_training(data)
    if not (folder / "config.json").is_file():
        path = recipe.encoder if recipe.encoder == "minilm" else find_encoder(recipe.encoder)
        config = Config.compose(changes=[*recipe.settings, f"encoder.name={path}", *changes])
        say(f"{len(training):,} sentences to train on, {len(dev):,} to choose the epoch by")
        train(config, training, folder, dev, quiet=False)
    return len(training)


def try_out(recipe: Recipe, arguments: argparse.Namespace, data: Path) -> dict[str, Any]:
    """Train, score on development data, and append a line to the results."""
    dev = [recipe.convert(sentence) for sentence in take_free(read(data / "gum" / "dev.jsonl"))]
    trained_on = train_model(recipe, arguments.folder, data, dev, arguments.changes)
    ner = load(arguments.folder, engine="pytorch")
    parts = {
        "gum": dev,
        "gum in lower case": [change_words(sentence, str.lower) for sentence in dev],
        "wnut17": [map_types(sentence) for sentence in read(data / "wnut17" / "dev.conll")],
    }
    config = read_saved_config(arguments.folder).parse_config()
    line = {
        **machine(),
        "model": arguments.name,
        "commit": code_version(),
        "encoder": recipe.encoder,
        "trained_on_wnut17": arguments.wnut17,
        "epochs": config.training.epochs,
        "trained_on": trained_on,
        **{name: to_row(score_once(ner, sentences).overall) for name, sentences in parts.items()},
    }
    with TRIALS.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(line) + "\n")
    return line


def score(ner: Recogniser, sentences: Sequence[Sentence]) -> dict[str, Any]:
    """Return the scores on all sentences, by type, length and genre, and of changed texts."""
    of_all = score_once(ner, sentences)
    by_genre = defaultdict(list)
    for sentence in sentences:
        by_genre[str(sentence.meta["genre"])].append(sentence)
    scores = of_all.to_dict()
    say(f"int8 on the test data: F1 {100 * scores['f1']:.2f}, ECE {scores['ece']:.3f}")
    result: dict[str, Any] = {
        "sentences": len(sentences),
        "all": to_row(of_all.overall),
        "ece": scores["ece"],
        "by_type": {name: to_row(row) for name, row in of_all.by_type.items()},
        "by_length": {name: to_row(row) for name, row in of_all.by_length_group(LENGTHS).items()},
        "by_genre": {name: to_row(score_once(ner, own).overall) for name, own in sorted(by_genre.items())},
        "changed": {},
    }
    for name, change in CHANGES.items():
        result["changed"][name] = to_row(score_once(ner, [change(one) for one in sentences]).overall)
        say(f"{name}: F1 {100 * result['changed'][name]['f1']:.2f}")
    return result


def score_once(ner: Recogniser, sentences: Sequence[Sentence]) -> Evaluation:
    return evaluate(sentences, ner.predict(sentence.with_entities(()) for sentence in sentences))


def to_row(of: Score) -> dict[str, Any]:
    return {
        "precision": round(of.precision, 4),
        "recall": round(of.recall, 4),
        "f1": round(of.f1, 4),
        "entities": of.support,
    }


def compare(ner: Recogniser, other: Recogniser, sentences: Sequence[Sentence]) -> dict[str, Any]:
    """Return the scores of a model of mentions, reduced to names, and the speeds of both models in turn."""
    mentions = list(other.predict(sentence.with_entities(()) for sentence in sentences))
    guessed = evaluate(sentences, [find_names(guess_tags(sentence)) for sentence in mentions]).overall
    gold = evaluate(sentences, [find_names(sentence) for sentence in mentions]).overall
    texts = [sentence.text for sentence in sentences]
    rates: dict[str, list[float]] = {"model": [], "other": []}
    for _ in range(5):
        for name, one in (("model", ner), ("other", other)):
            start = time.perf_counter()
            for _ in one.pipe(texts):
                pass
            rates[name].append(len(texts) / (time.perf_counter() - start))
    speeds = {name: round(statistics.median(of)) for name, of in rates.items()}
    say(f"other model: F1 {100 * guessed.f1:.2f}, with gold tags {100 * gold.f1:.2f}; a second: {speeds}")
    return {"guessed_tags": to_row(guessed), "gold_tags": to_row(gold), "sentences_per_second": speeds}


# Changed texts


def misspell(sentence: Sentence) -> Sentence:
    """Return the sentence with two letters exchanged in a tenth of its words of four or more letters."""
    dice = random.Random(" ".join(sentence.words))

    def change(word: str) -> str:
        if len(word) < 4 or not word.isalpha() or dice.random() >= 0.1:
            return word
        at = dice.randrange(1, len(word) - 2)
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]

    return change_words(sentence, change)


def drop_final_punctuation(sentence: Sentence) -> Sentence:
    last = len(sentence) - 1
    if (
        last < 1
        or sentence.words[last] not in (".", "!", "?")
        or any(e.end > last for e in sentence.entities)
    ):
        return sentence
    others = {
        name: values[:last]
        for name in ("pos", "space_after")
        if (values := getattr(sentence, name)) is not None
    }
    return replace(sentence, words=sentence.words[:last], **others)


CHANGES: dict[str, Callable[[Sentence], Sentence]] = {
    "in lower case": lambda sentence: change_words(sentence, str.lower),
    "in capitals": lambda sentence: change_words(sentence, str.upper),
    "with typing errors": misspell,
    "with ’ for '": lambda sentence: change_words(sentence, lambda word: word.replace("'", "’")),
    "with ' for ’": lambda sentence: change_words(sentence, lambda word: word.replace("’", "'")),
    "without final punctuation": drop_final_punctuation,
}


# The folder and the card


def list_files(folder: Path) -> list[Path]:
    """Return the files that prediction needs: of the encoder only the int8 graph."""
    graphs = json.loads((folder / "onnx" / "export.json").read_text(encoding="utf-8"))["graphs"]
    return [Path(name) for name in (*FILES, *(f"onnx/{name}.onnx" for name in graphs if name != "encoder"))]


def install(name: str, folder: Path, result: dict[str, Any]) -> None:
    """Copy a model to its place, and keep its scores."""
    target = RECIPES[name].target
    if target.exists():
        shutil.rmtree(target)
    for file in list_files(folder):
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / file, target / file)
    config = target / "config.json"
    encoder = find_encoder(BGE)
    if encoder is not None:  # the name of the hub instead of a path of this machine
        text = config.read_text(encoding="utf-8").replace(json.dumps(str(encoder)), f'"BAAI/{BGE}"')
        config.write_text(text, encoding="utf-8")
    scores = json.loads(SCORES.read_text(encoding="utf-8")) if SCORES.is_file() else {}
    text = json.dumps({**scores, name: result}, indent=1, ensure_ascii=False)
    SCORES.write_text(text + "\n", encoding="utf-8")
    write_cards([name])


def write_cards(names: Iterable[str] = RECIPES) -> None:
    """Write the model cards and the checksums of installed models."""
    for name in names:
        target = RECIPES[name].target
        (target / "README.md").write_text(make_card(name), encoding="utf-8")
        write_sums(target, compute_sums(target, files_of(target)))


def make_card(name: str) -> str:
    """Return the card of a model, from its scores."""
    result = json.loads(SCORES.read_text(encoding="utf-8"))[name]
    values: dict[str, Any] = {
        "settings": ", ".join(f"`{setting}`" for setting in result["settings"]),
        "types": ", ".join(f"`{type_}`" for type_ in result["by_type"]),
        "fencepost": result["fencepost"],
        "trained_on": f"{result['trained_on']:,}",
        "chosen_on": f"{result['chosen_on']:,}",
        "tested": f"{result['sentences']:,}",
        "threshold": describe_threshold(result["threshold"]),
        "of_types": make_table({"all": result["all"], **result["by_type"]}),
        "of_lengths": make_table(result["by_length"]),
        "of_genres": make_table(result["by_genre"]),
        "of_changes": make_table({"as it is": result["all"], **result["changed"]}),
        "ece": f"{result['ece']:.3f}",
        "f1_float": percent(result["dev_f1"]),
        "f1_int8": percent(result["dev_f1_int8"]),
        "in_float": ", ".join(result["in_float"]) or "none",
    }
    if "everyday" in result:
        values |= {
            f"everyday_{key}": percent(value) if isinstance(value, float) else value
            for key, value in result["everyday"].items()
        }
        other = result["against"]
        values |= {
            "f1": percent(result["all"]["f1"]),
            "other_f1": percent(other["guessed_tags"]["f1"]),
            "other_f1_gold_tags": percent(other["gold_tags"]["f1"]),
            "speed": other["sentences_per_second"]["model"],
            "other_speed": other["sentences_per_second"]["other"],
        }
    return (CARDS / f"{name}.md").read_text(encoding="utf-8").format(**values)


def describe_threshold(threshold: float | dict[str, float] | None) -> str:
    if isinstance(threshold, dict):
        numbers = set(threshold.values())
        return f"{numbers.pop():.2f}" if len(numbers) == 1 else str(threshold)
    return "the default" if threshold is None else f"{threshold:.2f}"


def make_table(rows: dict[str, dict[str, Any]]) -> str:
    return "\n".join(
        f"| {name} | {percent(of['precision'])} | {percent(of['recall'])} | {percent(of['f1'])} "
        f"| {of['entities']:,} |"
        for name, of in rows.items()
    )


def percent(ratio: float) -> str:
    return f"{100 * ratio:.1f}"


if __name__ == "__main__":
    main()
