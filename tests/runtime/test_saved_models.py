"""Models that earlier versions have saved still load, with the same predictions."""

from pathlib import Path

import pytest

import fencepost
from fencepost.methods.registry import METHODS

SAVED = Path(__file__).parents[1] / "saved_models"
FOLDERS = sorted(path.parent for path in SAVED.glob("*/*/config.json"))


def test_this_minor_version_has_a_saved_model_of_each_method() -> None:
    minor = fencepost.__version__.rpartition(".")[0]
    saved = {folder.name for folder in FOLDERS if folder.parent.name.rpartition(".")[0] == minor}
    assert saved == set(METHODS)


@pytest.mark.parametrize("engine", ["pytorch", "onnx"])
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_saved_models_predict_the_expected_entities(folder: Path, engine) -> None:
    expected = list(fencepost.read(folder / "expected.jsonl"))
    assert any(sentence.entities for sentence in expected)
    predicted = fencepost.load(folder, engine=engine).predict(expected)
    for ours, theirs in zip(predicted, expected, strict=True):
        assert [entity.key for entity in ours.entities] == [entity.key for entity in theirs.entities]
        scores = [entity.score for entity in theirs.entities]
        assert [entity.score for entity in ours.entities] == pytest.approx(scores, abs=1e-4)
