"""The model card: its scores were measured, and the hub can read it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import EvalResult, ModelCard

from fencepost.errors import DataError
from fencepost.runtime.card import (
    NAME,
    Facts,
    add_metadata,
    has_metadata,
    make_card,
    make_metadata,
    render_card,
)
from tests.training.runs import DEV, config, result, run

CONFIG: dict[str, Any] = config().model_dump(mode="json") | {"text": {"language": "en"}}
DEV_SCORES = {"epoch": 2.0, "dev_precision": 0.5, "dev_recall": 0.25, "dev_f1": 1 / 3, "dev_ece": 0.2}
SCORE = {"precision": 0.75, "recall": 0.5, "f1": 0.6, "support": 1234}
TEST_SCORES = {**SCORE, "sentences": 1500, "ece": 0.0625, "by_type": {"PER": SCORE, "a|b`c": SCORE}}
CALIBRATION = {"temperature": 1.5, "shift": -0.5, "dev_ece_before": 0.2, "dev_ece_after": 0.03125}


def facts(**changes: Any) -> Facts:
    return Facts(**{"types": ["PER", "a|b`c"], "config": CONFIG, **changes})


def change_part(part: str, **values: Any) -> dict[str, Any]:
    return {**CONFIG, part: {**CONFIG[part], **values}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a run with development and test data."""
    out = tmp_path_factory.mktemp("card") / "model"
    run(out, config(epochs=2), test=DEV[:5])
    return out


def scores(text: str) -> dict[tuple[str, str], float]:
    """Return the values that the hub reads, by part and metric."""
    results = ModelCard(text).data.eval_results or []
    assert all(isinstance(one, EvalResult) for one in results)
    assert {(one.task_type, one.dataset_type) for one in results} <= {("token-classification", "unknown")}
    return {(one.dataset_split, one.metric_type): one.metric_value for one in results}


def test_hub_reads_the_measured_scores(folder):
    text, measured = (folder / "README.md").read_text(), result(folder)
    values = scores(text)
    for key in ("precision", "recall", "f1"):
        assert values["validation", key] == round(measured["dev"][f"dev_{key}"], 4)
        assert values["test", key] == round(measured["test"][key], 4)
    eces = {"validation": measured["calibration"]["dev_ece_after"], "test": measured["test"]["ece"]}
    assert {part: values.get((part, "ece")) for part in eces} == {
        part: None if ece is None else round(ece, 4) for part, ece in eces.items()
    }
    data = ModelCard(text).data
    assert (data.library_name, data.pipeline_tag, data.model_name) == (
        "fencepost",
        "token-classification",
        NAME,
    )
    assert data.tags == ["named-entity-recognition", "boundary-smoothing"]
    assert (data.license, data.datasets, data.language, data.base_model) == (None, None, None, None)


def test_card_made_from_a_folder_equals_that_of_its_run(folder):
    text, again = ((folder / "README.md").read_text(), make_card(folder))
    assert "M weights in total" in text
    assert [line for line in text.splitlines() if not line.startswith("- encoder")] == [
        line for line in again.splitlines() if not line.startswith("- encoder")
    ]


def test_card_has_scores_by_part_and_type():
    text = render_card(facts(dev=DEV_SCORES, test=TEST_SCORES, calibration=CALIBRATION, weights=2_500_000))
    assert scores(text) == {
        ("validation", "precision"): 0.5,
        ("validation", "recall"): 0.25,
        ("validation", "f1"): 0.3333,
        ("validation", "ece"): 0.0312,
        ("test", "precision"): 0.75,
        ("test", "recall"): 0.5,
        ("test", "f1"): 0.6,
        ("test", "ece"): 0.0625,
    }
    for line in (
        "| development, epoch 2 | 50.0 | 25.0 | 33.3 |",
        "| test | 75.0 | 50.0 | 60.0 |",
        "On the 1,500 sentences of the test data, by type:",
        "| `PER` | 75.0 | 50.0 | 60.0 | 1,234 |",
        "| `a\\|b'c` | 75.0 | 50.0 | 60.0 | 1,234 |",
        "- encoder: `scratch`; 2.5 M weights in total",
    ):
        assert f"\n{line}\n" in text
    assert "may be too high" not in text


def test_card_says_what_was_not_measured():
    text = render_card(facts())
    assert "model-index" not in text
    assert "The model has not been scored" in text
    assert "the quality of the model is unknown" in text
    assert "Confidences are not calibrated" in text
    assert "weights in total" not in text
    without_test = render_card(facts(dev=DEV_SCORES))
    assert scores(without_test).keys() == {("validation", key) for key in ("precision", "recall", "f1")}
    assert "There was no test data. The scores are those on the development data" in without_test
    without_dev = render_card(facts(test={**TEST_SCORES, "ece": None}))
    assert scores(without_dev).keys() == {("test", key) for key in ("precision", "recall", "f1")}
    assert "development" not in without_dev.replace("sentences of the test data", "")


@pytest.mark.parametrize(
    ("encoder", "base"),
    [
        ("scratch", None),
        ("minilm", "sentence-transformers/all-MiniLM-L6-v2"),
        ("google-bert/bert-base-cased", "google-bert/bert-base-cased"),
        ("bert-base-cased", "bert-base-cased"),
        ("./my/encoder", None),
        ("/home/me/encoder", None),
        ("a/b/c", None),
    ],
)
def test_base_model_is_an_encoder_that_the_hub_knows(encoder, base):
    assert make_metadata(facts(config=change_part("encoder", name=encoder))).get("base_model") == base


def test_card_hides_the_path_of_an_encoder_folder(tmp_path, monkeypatch):
    (tmp_path / "mine" / "bert").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    text = render_card(facts(config=change_part("encoder", name="mine/bert")))
    assert "- encoder: `bert`\n" in text
    assert "mine" not in text


def test_card_names_only_a_chosen_language():
    """`en` is also the default, so it does not count as chosen."""
    assert "language" not in make_metadata(facts())
    german = facts(config={**CONFIG, "text": {"language": "de"}})
    assert make_metadata(german)["language"] == "de"
    assert "by the rules for `de`." in render_card(german)


def test_card_of_a_flat_model_says_so():
    sentence = "- The model predicts no entity inside another."
    assert sentence in render_card(facts(config=change_part("predict", select="flat")))
    assert sentence not in render_card(facts(config=change_part("predict", select="nested")))


def test_makes_a_card_for_an_older_folder(tmp_path):
    config = {key: value for key, value in CONFIG.items() if key != "text"}
    (tmp_path / "config.json").write_text(json.dumps({"types": ["PER"], "config": config}))
    assert "Predicts entities of 1 types: `PER`." in make_card(tmp_path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", "{"),
        ("config.json", "[]"),
        ("config.json", "{}"),
        ("config.json", '{"types": ["a"], "config": {}}'),
        ("metrics.json", "{"),
        ("metrics.json", '{"dev": {"epoch": 1}}'),
        ("metrics.json", '{"test": 7}'),
    ],
)
def test_reports_a_damaged_folder(tmp_path, name, content):
    (tmp_path / "config.json").write_text(json.dumps({"types": ["PER"], "config": CONFIG}))
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError) as caught:
        make_card(tmp_path)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "metadata", "body"),
    [
        ("# Mine\n", {}, "# Mine"),
        ("---\n---\n# Mine\n", {}, "# Mine"),
        ("---\na: 1\n---\n# Mine\n\n---\n", {"a": 1}, "# Mine\n\n---"),
        ("---\r\na: 1\r\n---\r\n# Mine", {"a": 1}, "# Mine"),
    ],
)
def test_adding_metadata_keeps_the_existing_card(text, metadata, body):
    again = add_metadata(text, {"b": 2})
    assert ModelCard(again).data.to_dict() == {**metadata, "b": 2}
    assert ModelCard(again).text.strip() == body
    assert ModelCard(add_metadata(again, {"b": 3})).data.to_dict() == {**metadata, "b": 3}


def test_metadata_must_be_at_the_top():
    assert not has_metadata("# Mine\n\n---\na: 1\n---\n")
