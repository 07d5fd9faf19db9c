"""`fencepost compare`, as a user runs it: models and files of other programs."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from fencepost.cli.scores import print_table
from fencepost.data import write
from fencepost.data.entity import Entity, Sentence
from fencepost.evaluation import adjust_p_values, compare_models, compute_intervals, evaluate, match
from fencepost.runtime.pytorch import load_model, save_model
from tests.methods.running import predict
from tests.runtime import models

WORDS = ["Ada", "met", "Charles", "in", "London"]
FEW = ["--resamples", 200, "--permutations", 999]


def predictions(
    recall: float, wrong: float, seed: int, count: int = 40, score: float = 0.8
) -> list[Sentence]:
    """Return sentences with this share of the entities, and wrong ones with this probability."""
    chance = np.random.default_rng(seed)
    sentences = []
    for _ in range(count):
        right = [e for e in models.NESTED[1].entities if chance.random() < recall]
        more = [Entity(1, 2, "LOC")] * (chance.random() < wrong)
        sentences.append(Sentence(WORDS, [Entity(e.start, e.end, e.type, score) for e in [*right, *more]]))
    return sentences


GOLD = [models.NESTED[1]] * 40
FOUND = {
    "good": predictions(0.9, 0.1, 1),
    "alike": predictions(0.88, 0.1, 2),
    "bad": predictions(0.3, 0.6, 3),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compare")
    write(GOLD, folder / "gold.jsonl")
    for name, sentences in FOUND.items():
        write(sentences, folder / f"{name}.jsonl")
    write(
        [Sentence(s.words, [Entity(*e.key) for e in s.entities]) for s in FOUND["good"]],
        folder / "good.conll",
    )
    for name in ("boundary-smoothing", "locate-and-label"):
        save_model(models.random_model(name), folder / name)
    save_model(models.trained(), folder / "trained")
    write(models.NESTED * 5, folder / "nested.jsonl")
    return folder


@pytest.fixture
def compared(run, folder: Path):
    def compared(*arguments: object, data: str = "gold.jsonl") -> dict[str, Any]:
        there = [folder / str(one) if (folder / str(one)).exists() else one for one in arguments]
        output = run("compare", *there, "--data", folder / data, *FEW, "--json", "--quiet").stdout
        result: dict[str, Any] = json.loads(output)
        return result

    return compared


def test_compares_files_of_other_programs(compared, folder: Path) -> None:
    content = compared("good.jsonl", "alike.jsonl", "bad.jsonl")
    names = [f"{name}.jsonl" for name in FOUND]
    assert list(content["models"]) == names
    assert content["sentences"] == 40
    assert content["data"] == str(folder / "gold.jsonl")
    assert content["folders"] == {name: str(folder / name) for name in names}
    matches = {name: match(GOLD, predicted) for name, predicted in FOUND.items()}
    for name, predicted in FOUND.items():
        of_model, expected = content["models"][f"{name}.jsonl"], evaluate(GOLD, predicted)
        assert of_model["f1"]["value"] == pytest.approx(expected.overall.f1)
        assert of_model["precision"]["value"] == pytest.approx(expected.overall.precision)
        assert of_model["macro_f1"] == expected.macro_f1
        assert of_model["ece"] == expected.to_dict()["ece"]
        assert list(of_model["by_type"]) == ["LOC", "PER"]
        for type_, scores in of_model["by_type"].items():
            assert scores["f1"]["value"] == pytest.approx(expected.by_type[type_].f1)
        bounds = compute_intervals(matches[name], 200)[None].f1
        assert of_model["f1"] == {"value": bounds.value, "low": bounds.low, "high": bounds.high}
        assert bounds.low <= bounds.value <= bounds.high
    pairs = [("good", "alike"), ("good", "bad"), ("alike", "bad")]
    expected_pairs = [compare_models(matches[one], matches[other], 200, 999) for one, other in pairs]
    assert [one["models"] for one in content["pairs"]] == [[f"{a}.jsonl", f"{b}.jsonl"] for a, b in pairs]
    assert [one["p"] for one in content["pairs"]] == [one.p for one in expected_pairs]
    assert [one["p_holm"] for one in content["pairs"]] == adjust_p_values([one.p for one in expected_pairs])
    assert [one["f1_difference"]["value"] for one in content["pairs"]] == [
        one.f1.value for one in expected_pairs
    ]
    by_chance, clear, also = content["pairs"]
    assert by_chance["p"] > 0.05
    assert clear["p"] == also["p"] == 0.001
    assert clear["p_holm"] == 0.003
    assert clear["f1_difference"]["low"] > 0.2


def test_limit_compares_the_first_sentences(compared) -> None:
    content = compared("good.jsonl", "bad.jsonl", "--limit", 10)
    assert content["sentences"] == 10
    expected = evaluate(GOLD[:10], FOUND["bad"][:10]).overall.f1
    assert content["models"]["bad.jsonl"]["f1"]["value"] == pytest.approx(expected)


def test_tables_show_scores_and_significance(run, folder: Path) -> None:
    files = [folder / f"{name}.jsonl" for name in FOUND]
    labels = ["--label", "good", "--label", "alike", "--label", "[/bad] model"]
    output = run("compare", *files, "--data", folder / "gold.jsonl", *FEW, *labels).stdout
    lines = [" ".join(line.split()) for line in output.splitlines()]
    value = 100 * evaluate(GOLD, FOUND["good"]).overall.f1
    assert any(line.startswith("good ") and f"{value:.1f} [" in line for line in lines)
    text = " ".join(lines)
    assert "Strict scores, in percent, with 95 % intervals" in text
    assert "p, Holm" in text
    assert "not significant" in text
    assert "good is better" in text
    assert "[/bad]" in text
    assert "corrected for several tests" in text
    two = run("compare", *files[:2], "--data", folder / "gold.jsonl", *FEW).stdout
    assert "Holm" not in two


def test_equal_predictions_in_two_formats_do_not_differ(compared, folder: Path) -> None:
    content = compared("good.jsonl", "good.conll")
    assert content["pairs"] == [
        {
            "models": ["good.jsonl", "good.conll"],
            "f1_difference": {"value": 0.0, "low": 0.0, "high": 0.0},
            "p": 1.0,
            "p_holm": 1.0,
        }
    ]
    assert content["models"]["good.conll"]["ece"] is None  # a format without confidences


def test_compares_models_and_files(compared, folder: Path) -> None:
    """The order has no effect, and a file equals the model that wrote it."""
    sentences = models.NESTED * 5
    write(predict(load_model(folder / "trained"), sentences), folder / "found.jsonl")
    content = compared("boundary-smoothing", "trained", "found.jsonl", data="nested.jsonl")
    assert content["models"]["trained"] == content["models"]["found.jsonl"]
    assert content["engines"] == {"boundary-smoothing": "pytorch", "trained": "pytorch", "found.jsonl": None}
    worse, other, same = content["pairs"]
    assert worse["models"] == ["boundary-smoothing", "trained"]
    assert worse["f1_difference"]["value"] < 0
    assert worse["p"] == other["p"] < 0.05
    assert (same["p"], same["f1_difference"]["value"]) == (1.0, 0.0)


def test_compares_a_model_with_itself(compared, folder: Path) -> None:
    content = compared("trained", "trained", data="nested.jsonl")
    assert list(content["models"]) == [f"1: {folder / 'trained'}", f"2: {folder / 'trained'}"]
    assert content["pairs"][0]["p"] == 1.0


def test_compares_without_predictions_and_without_entities(compared, folder: Path) -> None:
    write([s.with_entities([]) for s in GOLD], folder / "nothing.jsonl")
    content = compared("good.jsonl", "nothing.jsonl")
    assert content["models"]["nothing.jsonl"]["f1"] == {"value": 0.0, "low": 0.0, "high": 0.0}
    assert content["pairs"][0]["p"] == 0.001
    empty = compared("good.jsonl", "nothing.jsonl", data="nothing.jsonl")
    assert empty["pairs"][0]["f1_difference"]["value"] == 0.0
    assert empty["pairs"][0]["p"] == 1.0


def test_writes_json_to_a_file_beside_the_tables(run, folder: Path, tmp_path: Path) -> None:
    files = [folder / "good.jsonl", folder / "bad.jsonl", "--data", folder / "gold.jsonl", *FEW]
    output = run("compare", *files, "--json", tmp_path / "result.json").stdout
    assert "good.jsonl is better" in " ".join(output.split())
    assert list(json.loads((tmp_path / "result.json").read_text())["models"]) == ["good.jsonl", "bad.jsonl"]
    (tmp_path / "mine.json").write_text("[]")
    refused = run("compare", *files, "--json", tmp_path / "mine.json", code=2)
    assert "not a result of fencepost" in refused.stderr
    assert (tmp_path / "mine.json").read_text() == "[]"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("good.jsonl", "--data", "gold.jsonl"), "give two or more models"),
        (("good.jsonl", "bad.jsonl"), "give the data with --data"),
        (("good.jsonl", "no-such", "--data", "gold.jsonl"), "no-such"),
        (("good.jsonl", "bad.jsonl", "--data", "no-such.jsonl"), "no-such.jsonl"),
        (
            ("good.jsonl", "nested.jsonl", "--data", "gold.jsonl"),
            "nested.jsonl: sentence 1 has different words",
        ),
        (("good.jsonl", "bad.jsonl", "--data", "empty.jsonl"), "contains no sentences"),
        (("good.jsonl", "empty.jsonl", "--data", "gold.jsonl"), "empty.jsonl: contains no sentences"),
        (
            ("good.jsonl", "bad.jsonl", "--data", "gold.jsonl", "--label", "a"),
            "in this order, not a",
        ),
        (("good.jsonl", "trained", "--data", "gold.jsonl", "--engine", "onnx"), "was not exported"),
        (
            ("good.jsonl", "trained", "--data", "gold.jsonl", "--set", "a=1"),
            "only prediction settings of a trained model can be changed",
        ),
    ],
)
def test_refuses_wrong_arguments(run, folder: Path, arguments: tuple[str, ...], message: str) -> None:
    (folder / "empty.jsonl").write_text("")
    there = [folder / one if (folder / one).exists() else one for one in arguments]
    assert message in run("compare", *there, code=2).stderr


def test_print_table_escapes_and_aligns_cells() -> None:
    stream = io.StringIO()
    rows = [
        ("[/x] \x1b[31m", 1234, 0.25, "12.5", None, "left"),
        ("b", 5, 3.0, "-1.0", 0.0, "a [b]"),
    ]
    print_table(Console(file=stream, width=200), "Title", ("[bold]model", "n", "x", "p", "ece", "note"), rows)
    title, header, _, first, second = (line for line in stream.getvalue().splitlines() if line.strip())
    assert title.strip() == "Title"
    assert header.split() == ["[bold]model", "n", "x", "p", "ece", "note"]
    assert first.split() == ["[/x]", "\N{REPLACEMENT CHARACTER}[31m", "1,234", "0.250", "12.5", "left"]
    assert second.split() == ["b", "5", "3", "-1.0", "0.000", "a", "[b]"]
    assert first.index("1,234") + 5 == second.index(" 5 ") + 2  # numbers on the right
    assert first.index("left") == second.index("a [b]")  # texts on the left
    print_table(Console(file=stream), "Nothing", ("a", "b"), [])
