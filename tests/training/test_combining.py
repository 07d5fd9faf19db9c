"""`combine`: several models that predict as one, on every engine."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import fencepost
from fencepost.config import Config
from fencepost.data.entity import Entity, Sentence
from fencepost.errors import DataError, UsageError
from fencepost.methods.combination.settings import CombinationSettings
from fencepost.runtime.folder import compare_sums, files_of, is_model_file, read_sums
from fencepost.runtime.loading import load
from fencepost.runtime.pytorch import save_model
from fencepost.training import train
from fencepost.training.combining import combine, fit_weights
from tests.runtime import models
from tests.runtime.models import NESTED

METHODS = list(models.METHODS)


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Folders of one random model of each method, with graphs."""
    folder = tmp_path_factory.mktemp("members")
    return [models.saved(models.random_model(name), folder / name) for name in METHODS]


@pytest.fixture(scope="module")
def combination(members: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("combination") / "model"
    combine(members, out)
    return out


def entities(sentences: list[Sentence]) -> list[list[tuple[int, int, str]]]:
    return [[entity.key for entity in sentence.entities] for sentence in sentences]


def test_equal_members_predict_like_one(tmp_path: Path) -> None:
    """The mean of equal logits is their value, so nothing changes."""
    folder = tmp_path / "one"
    save_model(models.trained(), folder)
    combine([folder, folder], tmp_path / "both")
    one, both = (load(path, engine="pytorch") for path in (folder, tmp_path / "both"))
    sentences = [*NESTED, *models.sentences()]
    expected, predicted = list(one.predict(sentences)), list(both.predict(sentences))
    assert entities(predicted) == entities(expected)
    assert any(sentence.entities for sentence in predicted)
    for ours, theirs in zip(predicted, expected, strict=True):
        assert [e.score for e in ours.entities] == pytest.approx([e.score for e in theirs.entities], abs=1e-5)


def test_engines_agree_alone_and_in_batches(combination: Path) -> None:
    sentences = models.sentences(count=30)
    torch_model, onnx = (
        load(combination, engine=engine, settings={"threshold": 0.1}) for engine in ("pytorch", "onnx")
    )
    assert (torch_model.engine, onnx.engine) == ("pytorch", "onnx")
    together = list(onnx.predict(sentences))
    assert entities(together) == entities(list(torch_model.predict(sentences)))
    assert entities(together) == entities([next(onnx.predict([sentence])) for sentence in sentences])
    assert sum(len(sentence.entities) for sentence in together) > 10


def test_combines_members_with_types_in_another_order(members: list[Path], tmp_path: Path) -> None:
    """A model that was trained further has new types after the old ones."""
    folder = tmp_path / "one"
    save_model(models.trained(), folder)
    other = Path(shutil.copytree(folder, tmp_path / "other"))
    config = json.loads((other / "config.json").read_text())
    config["types"] = [config["types"][index] for index in (2, 0, 1)]
    (other / "config.json").write_text(json.dumps(config))
    (other / "SHA256SUMS").unlink()
    combine([folder, other], tmp_path / "both")
    settings = {"threshold": 0.02, "select": "keep-all"}
    one, two, both = (
        {entity.key for entity in next(load(path, settings=settings).predict(NESTED[:1])).entities}
        for path in (folder, other, tmp_path / "both")
    )
    assert one != two
    assert both == one | two  # the types of both are right, although their numbers differ


def test_predicts_long_and_empty_texts(combination: Path) -> None:
    ner = load(combination)
    document = ner("Ada met Charles in London. " * 300)
    assert all(document.text[e.start : e.end] == e.text for e in document)
    assert list(ner("")) == []
    assert list(ner.predict([Sentence([])])) == [Sentence([])]


def test_weights_are_fitted_to_development_data(members: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "good"
    save_model(models.trained(), folder)
    result = combine([members[1], folder], tmp_path / "out", NESTED)
    assert result.dev is not None
    assert result.dev.overall.f1 >= max(one.overall.f1 for one in result.members) > 0.8
    assert result.settings.slopes[1] > result.settings.slopes[0]  # the first is random
    ner = load(tmp_path / "out")
    assert fencepost.evaluate(NESTED, ner.predict(NESTED)).overall.f1 == result.dev.overall.f1
    assert set(ner.settings["threshold"].values()) == {result.threshold}
    saved = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert saved["dev"]["dev_f1"] == result.dev.overall.f1
    card = (tmp_path / "out" / "README.md").read_text()
    assert "`boundary-offset`, `boundary-smoothing`" in card


def test_fitted_weights_have_the_lowest_loss() -> None:
    """One good and one random member: no weights near the fitted ones are better."""
    random = np.random.default_rng(0)
    correct = random.random(400) < 0.4
    knows = np.clip(np.where(correct, 0.8, 0.2) + 0.15 * random.standard_normal(400), 0.02, 0.98)
    guesses = np.where(random.random(400) < 0.3, np.nan, random.uniform(0.02, 0.98, 400))
    probability = np.stack((knows, guesses), axis=1)
    start = CombinationSettings.from_members(["knows", "guesses"])
    fitted = fit_weights(start, probability, correct)
    assert fitted.slopes[0] > 1 > abs(fitted.slopes[1])

    def cost(settings: CombinationSettings) -> float:
        z = np.log(np.nan_to_num(probability, nan=0.5) / (1 - np.nan_to_num(probability, nan=0.5)))
        value = settings.bias + z @ settings.slopes + ~np.isnan(probability) @ settings.offsets
        loss = np.logaddexp(0, np.where(correct, -value, value)).sum()
        weights = np.array([*settings.slopes, *settings.offsets, settings.bias])
        prior = np.array([*start.slopes, *start.offsets, start.bias])
        return float(loss + ((weights - prior) ** 2).sum() / 2)

    best = cost(fitted)
    for key in ("slopes", "offsets"):
        for step in (-0.05, 0.05):
            values = tuple(value + step for value in getattr(fitted, key))
            assert cost(fitted.model_copy(update={key: values})) > best


def test_combination_is_saved_like_any_model(combination: Path, tmp_path: Path) -> None:
    names = files_of(combination)
    assert names[-1] == "config.json"
    assert all(is_model_file(name) for name in names)
    assert "members/4/onnx/encoder.onnx" in names
    load(combination).save_pretrained(tmp_path / "copy")
    assert files_of(tmp_path / "copy") == names
    sums = read_sums(tmp_path / "copy")
    assert sums is not None
    assert set(compare_sums(tmp_path / "copy", sums).values()) == {"ok"}
    (tmp_path / "copy" / "members" / "2" / "model.safetensors").write_bytes(b"")
    assert compare_sums(tmp_path / "copy", sums)["members/2/model.safetensors"] == "changed"


def test_spacy_saves_and_loads_a_combination(combination: Path, tmp_path: Path) -> None:
    """As one file of bytes and as a folder; a link in place of a member's folder is not followed."""
    spacy = pytest.importorskip("spacy")
    nlp = spacy.blank("en")
    options = {"settings": {"threshold": 0.02}}
    nlp.add_pipe("fencepost", config={"model": str(combination), **options})
    expected = [(e.text, e.type) for e in load(combination, **options)("Ada met Charles in London.")]
    assert expected
    nlp.to_disk(tmp_path / "pipeline")
    again = spacy.load(tmp_path / "pipeline")
    assert files_of(tmp_path / "pipeline" / "fencepost" / "model") == files_of(combination)
    copy = spacy.blank("en")
    copy.add_pipe("fencepost", config=options)
    copy.from_bytes(nlp.to_bytes())
    for one in (nlp, again, copy):
        doc = one("Ada met Charles in London.")
        assert [(span.text, span.label_) for span in doc.spans["fencepost"]] == expected
    other = tmp_path / "other" / "fencepost" / "model" / "members"
    other.mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (other / "1").symlink_to(tmp_path / "outside")
    with pytest.raises(UsageError, match="is a link"):
        nlp.to_disk(tmp_path / "other")
    assert not list((tmp_path / "outside").iterdir())


@pytest.mark.parametrize(
    "name",
    ["members/1/../config.json", "members/0/config.json", "members/1/members/2/config.json", "members/1"],
)
def test_invalid_member_paths_are_not_model_files(name: str) -> None:
    assert not is_model_file(name)


def test_reports_missing_members(combination: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(combination, tmp_path / "model"))
    shutil.rmtree(folder / "members" / "3")
    with pytest.raises(DataError, match="not that of a combination of 3 members"):
        load(folder)
    (folder / "members" / "3").symlink_to(folder)
    with pytest.raises(DataError, match="cannot be one itself"):
        load(folder)
    (folder / "members" / "3").unlink()
    shutil.rmtree(folder / "members")
    with pytest.raises(DataError, match="a combination, but its members are missing"):
        load(folder)


def test_refuses_unsuitable_members(members: list[Path], combination: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(UsageError, match="2 to 12 models"):
        combine(members[:1], out)
    with pytest.raises(UsageError, match="a combination already"):
        combine([members[0], combination], out)
    with pytest.raises(UsageError, match="already exists"):
        combine(members, combination)
    with pytest.raises(UsageError, match="no entities of the models' types"):
        combine(members, out, [Sentence(["a"], [Entity(0, 1, "OTHER")])])
    assert not list(out.glob("*"))  # no file was written
    other = models.random_model("boundary-smoothing")
    other.types = ("LOC", "ORG", "XYZ")
    save_model(other, tmp_path / "other")
    with pytest.raises(UsageError, match=r"different types.* only one of them has PER, XYZ"):
        combine([members[0], tmp_path / "other"], out)


def test_refuses_to_train_a_combination(tmp_path: Path) -> None:
    config = Config.compose(changes=["method.name=combination", "encoder.name=scratch"])
    with pytest.raises(UsageError, match="combination cannot be trained"):
        train(config, NESTED, tmp_path / "model")
