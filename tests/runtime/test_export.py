"""Exporting: the files that are written and removed, and the accuracy of 8 bits."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fencepost.data.output import WriteError
from fencepost.errors import UsageError
from fencepost.runtime import export as export_module
from fencepost.runtime.export import ExportFailed, check, export
from fencepost.runtime.loading import load
from fencepost.runtime.onnx import list_precisions
from fencepost.runtime.pytorch import save_model
from fencepost.runtime.quantise import find_parts
from tests.limits import file_size_limit
from tests.methods.running import predict
from tests.runtime import models

FLOAT32 = {"encoder.onnx", "spans.onnx", "export.json"}


def names(folder: Path) -> set[str]:
    return {path.name for path in (folder / "onnx").iterdir()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return models.saved(models.trained(), tmp_path_factory.mktemp("model"), int8=True)


@pytest.fixture(scope="module")
def wide(tmp_path_factory) -> Path:
    """Folder of a model whose weights dominate the file size."""
    scratch = models.SCRATCH["scratch"] | {"word_size": 4000}
    encoder = models.SCRATCH | {"scratch": scratch, "lstm": {"size": 0}}
    folder = tmp_path_factory.mktemp("wide")
    return models.saved(models.random_model("boundary-smoothing", encoder), folder, int8=True)


def test_graphs_are_in_a_folder_beside_the_weights(folder: Path) -> None:
    assert names(folder) == {*FLOAT32, "encoder.int8.onnx"}
    assert list_precisions(folder) == ["int8", "float32"]
    facts = json.loads((folder / "onnx" / "export.json").read_text(encoding="utf-8"))
    assert facts["graphs"] == ["encoder", "spans"]
    assert facts["room"] is None
    assert {path.name for path in folder.iterdir()} == {
        "config.json",
        "model.safetensors",
        "vocabulary.json",
        "SHA256SUMS",
        "onnx",
    }


def test_int8_is_smaller(wide: Path) -> None:
    whole, small = ((wide / "onnx" / name).stat().st_size for name in ("encoder.onnx", "encoder.int8.onnx"))
    assert small < 0.5 * whole


def test_int8_predicts_nearly_the_same_entities(folder: Path) -> None:
    sentences = models.sentences(60)
    exact, rough = (
        {
            (s.id, *entity.key): entity.score
            for s in load(folder, engine=engine).predict(sentences)
            for entity in s.entities
        }
        for engine in ("onnx", "int8")
    )
    both = exact.keys() & rough.keys()
    assert len(both) > 50
    assert len(both) >= 0.9 * max(len(exact), len(rough))
    differences = [abs(exact[key] - rough[key]) for key in both]
    assert max(differences) > 0  # it is another graph
    assert sum(differences) / len(both) < 0.05


def test_second_export_replaces_all_graphs(tmp_path) -> None:
    models.saved(models.trained(), tmp_path, int8=True)
    before = load(tmp_path)("Ada met Charles in London")
    other = models.random_model("boundary-offset", seed=1)
    save_model(other, tmp_path)
    assert export(other, tmp_path) == tmp_path / "onnx"
    assert names(tmp_path) == {"encoder.onnx", "offsets.onnx", "export.json"}  # without int8
    assert list_precisions(tmp_path) == ["float32"]
    sentences = models.sentences()
    predicted = list(load(tmp_path).predict(sentences))
    assert [[e.key for e in s.entities] for s in predicted] == [
        [e.key for e in s.entities] for s in predict(other, sentences)
    ]
    save_model(models.trained(), tmp_path)
    export(models.trained(), tmp_path)
    export(models.trained(), tmp_path, int8=True)
    assert names(tmp_path) == {*FLOAT32, "encoder.int8.onnx"}
    assert load(tmp_path)("Ada met Charles in London") == before


def test_saving_new_weights_disables_old_graphs(tmp_path) -> None:
    """A model that is trained again in its folder predicts with its new weights."""
    models.saved(models.random_model("boundary-smoothing"), tmp_path)
    save_model(models.trained(), tmp_path)
    assert [span.text for span in load(tmp_path)("Ada met Charles in London")] == ["Ada", "Charles", "London"]


def test_failed_export_keeps_the_old_graphs(tmp_path, monkeypatch) -> None:
    models.saved(models.trained(), tmp_path)
    before = {path.name: path.read_bytes() for path in (tmp_path / "onnx").iterdir()}

    def fail(*_, **__) -> None:
        raise RuntimeError("no such operator\nand much more")

    monkeypatch.setattr(export_module.torch.onnx, "export", fail)
    with pytest.raises(ExportFailed) as caught:
        export(models.trained(), tmp_path, int8=True)
    assert str(caught.value) == "this model cannot be exported as a graph (encoder): no such operator"
    assert {path.name: path.read_bytes() for path in (tmp_path / "onnx").iterdir()} == before
    assert not list(tmp_path.glob(".exporting-*"))


def test_export_does_not_change_the_model(tmp_path) -> None:
    """The graphs have no dropout, even if the model is in training mode."""
    changes = {"method": {"dropout": 0.9}}
    model = models.random_model("boundary-smoothing", **changes)
    sentences = models.sentences()
    before = predict(model, sentences)
    model.train()
    models.saved(model, tmp_path)
    assert predict(model, sentences) == before
    predicted = load(tmp_path, engine="onnx").predict(sentences)
    assert [[e.key for e in s.entities] for s in predicted] == [[e.key for e in s.entities] for s in before]
    assert all(weight.requires_grad for weight in model.parameters())


# Checked on annotated sentences


def test_checked_int8_graph_becomes_the_default(tmp_path) -> None:
    models.saved(models.trained(), tmp_path, int8=True)
    messages: list[str] = []
    checked = check(tmp_path, models.NESTED, max_loss=100, log=messages.append)
    assert checked["float32"] == {"f1": 1.0, "sentences_that_differ": 0}
    assert (checked["f1"], checked["sentences"], checked["int8"]["good"]) == (1.0, len(models.NESTED), True)
    facts = json.loads((tmp_path / "onnx" / "export.json").read_text(encoding="utf-8"))
    assert facts["checked"] == checked
    assert load(tmp_path).engine == "int8"
    assert [line.partition(":")[0] for line in messages] == ["float32", "int8"]
    export(models.trained(), tmp_path, int8=True)
    assert load(tmp_path).engine == "onnx"  # the new graphs have not been checked


def test_check_removes_an_int8_graph_that_loses_too_much(tmp_path) -> None:
    """Before that, one part after the other is set to single precision."""
    models.saved(models.trained(), tmp_path, int8=True)
    messages: list[str] = []
    with pytest.raises(ExportFailed, match="the int8 graph has been removed, the float32 graphs are good"):
        check(tmp_path, models.NESTED, max_loss=-1, log=messages.append)  # better than the model: impossible
    assert names(tmp_path) == FLOAT32
    assert load(tmp_path).engine == "onnx"
    parts = find_parts(tmp_path / "onnx" / "encoder.onnx")
    assert len([line for line in messages if line.startswith("int8")]) == 1 + len(parts) > 2
    assert not (tmp_path / "onnx" / "encoder.int8.onnx").exists()
    assert load(tmp_path)("Ada met Charles in London")


def test_check_removes_graphs_of_another_model(tmp_path) -> None:
    save_model(models.trained(), tmp_path)
    export(models.random_model("boundary-smoothing"), tmp_path, int8=True)
    with pytest.raises(ExportFailed, match=r"the graphs predict other entities .* they have been removed"):
        check(tmp_path, models.NESTED, log=lambda _: None)
    assert list_precisions(tmp_path) == []
    assert load(tmp_path).engine == "pytorch"


def test_check_refuses_data_without_matching_entities(tmp_path) -> None:
    models.saved(models.trained(), tmp_path, int8=True)
    for data in (
        [sentence.with_entities(()) for sentence in models.NESTED],
        [
            sentence.with_entities(replace(entity, type="another") for entity in sentence.entities)
            for sentence in models.NESTED
        ],
    ):
        with pytest.raises(UsageError, match=r"predicts none of the entities .* the model's types: "):
            check(tmp_path, data, log=lambda _: None)
    assert load(tmp_path).engine == "onnx"  # so int8 is still not known to be good


def test_interrupted_export_leaves_no_usable_graphs(tmp_path, monkeypatch) -> None:
    models.saved(models.trained(), tmp_path)
    moved: list[Path] = []
    replace_ = Path.replace

    def interrupted(self: Path, target: Path) -> Path:
        moved.append(self)
        if len(moved) == 2:
            raise KeyboardInterrupt
        return replace_(self, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        export(models.trained(), tmp_path, int8=True)
    assert list_precisions(tmp_path) == []
    assert load(tmp_path).engine == "pytorch"


def test_full_disk_names_the_graph_folder_and_keeps_old_graphs(tmp_path) -> None:
    models.saved(models.trained(), tmp_path)
    with file_size_limit(2000), pytest.raises(WriteError, match=rf"^{tmp_path}/onnx: cannot be written: "):
        export(models.trained(), tmp_path)
    assert load(tmp_path).engine == "onnx"  # the old graphs
