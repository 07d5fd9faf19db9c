"""`fencepost.load`: the choice of the engine, and messages about invalid folders."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fencepost
from fencepost.errors import DataError, FencepostError, UsageError
from fencepost.runtime import loading, onnx, pytorch
from fencepost.runtime.loading import find_model, load
from fencepost.runtime.recogniser import Recogniser
from tests.runtime import models

TEXT = "Ada met Charles in London"


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """Folder of a model that was exported to both precisions."""
    return models.saved(models.trained(), tmp_path_factory.mktemp("whole"), int8=True)


@pytest.fixture
def folder(whole, tmp_path) -> Path:
    """Copy of the folder that a test may damage."""
    return Path(shutil.copytree(whole, tmp_path / "model"))


def change(path: Path, change_tree: Callable[[dict[str, Any]], Any]) -> None:
    tree = json.loads(path.read_text(encoding="utf-8"))
    change_tree(tree)
    path.write_text(json.dumps(tree), encoding="utf-8")


# Engines


def test_auto_is_the_fastest_good_engine(folder: Path) -> None:
    assert fencepost.load is load
    assert load(folder).engine == "onnx"  # the quality of int8 is unknown
    assert load(str(folder), engine="int8").engine == "int8"
    facts = folder / "onnx" / "export.json"
    change(facts, lambda tree: tree.update(checked={"int8": {"good": False}}))
    assert load(folder).engine == "onnx"
    change(facts, lambda tree: tree.update(checked={"int8": {"good": True}}))
    assert load(folder).engine == "int8"
    assert load(folder, engine="onnx").engine == "onnx"
    assert load(folder, engine="pytorch").engine == "pytorch"
    (folder / "onnx" / "encoder.int8.onnx").unlink()
    assert load(folder).engine == "onnx"
    with pytest.raises(UsageError, match="not exported to int8; run fencepost export"):
        load(folder, engine="int8")
    (folder / "onnx" / "export.json").unlink()  # without it, an export did not finish
    assert load(folder).engine == "pytorch"
    shutil.rmtree(folder / "onnx")
    assert load(folder, engine="auto").engine == "pytorch"
    with pytest.raises(UsageError, match=f"{folder}: this model was not exported to float32"):
        load(folder, engine="onnx")
    with pytest.raises(UsageError, match="there is no engine 'onx'; did you mean onnx"):
        load(folder, engine="onx")


@pytest.mark.parametrize("threads", [0, -1])
def test_rejects_fewer_threads_than_one(folder, threads):
    with pytest.raises(UsageError, match=f"^threads: should be at least 1, .* not {threads}$"):
        load(folder, threads=threads)


@pytest.mark.parametrize("checked", [None, 3, [], {"int8": True}, {"int8": {}}, {"int8": {"good": "yes"}}])
def test_int8_is_the_default_only_after_a_successful_check(folder: Path, checked) -> None:
    change(folder / "onnx" / "export.json", lambda tree: tree.update(checked=checked))
    assert load(folder).engine == "onnx"


@pytest.mark.parametrize("engine", ["pytorch", "onnx", "int8"])
def test_all_engines_predict_the_learnt_entities(engine: str, whole: Path) -> None:
    ner = load(whole, engine=engine)
    assert isinstance(ner, Recogniser)
    assert [(span.text, span.type) for span in ner(TEXT)] == [
        ("Ada", "PER"),
        ("Charles", "PER"),
        ("London", "LOC"),
    ]


@pytest.mark.parametrize("engine", ["pytorch", "onnx"])
def test_load_accepts_options_and_refuses_wrong_ones(engine: str, whole: Path) -> None:
    ner = load(whole, engine=engine, types=["LOC"], settings={"select": "flat", "batch_size": 2}, threads=1)
    assert [span.text for span in ner(TEXT)] == ["London"]
    trim = ["possessive", "quotes", "brackets"]  # the training data has none of these
    assert ner.settings == {"select": "flat", "threshold": None, "batch_size": 2, "trim": trim}
    assert load(whole, engine=engine, min_confidence=1.0)(TEXT) == []
    with pytest.raises(UsageError, match=r"predict\.selekt: there is no such key"):
        load(whole, engine=engine, settings={"selekt": "flat"})
    with pytest.raises(UsageError, match=r"predict\.batch_size: "):
        load(whole, engine=engine, settings={"batch_size": "many"})
    with pytest.raises(UsageError, match="there is no type 'CITY'"):
        load(whole, engine=engine, types=["CITY"])


def test_method_settings_can_change_when_loading(tmp_path) -> None:
    model = models.random_model("diffusion")
    models.saved(model, tmp_path)
    for engine in ("pytorch", "onnx"):
        ner = load(tmp_path, engine=engine)
        assert any(sentence.entities for sentence in ner.predict(models.sentences()))
        assert not any(
            sentence.entities for sentence in ner.with_options(threshold=1).predict(models.sentences())
        )
        assert ner.with_options(steps=2).settings["steps"] == 2
        with pytest.raises(UsageError, match=r"predict\.steps: should be greater than or equal to 1, not 0"):
            ner.with_options(steps=0)
        with pytest.raises(UsageError, match=r"predict\.decay: there is no such key"):
            ner.with_options(decay=0.5)


def test_with_options_does_not_change_the_model(whole: Path) -> None:
    model = pytorch.load_model(whole)
    ner = Recogniser(pytorch.make_predictor(model))
    other = ner.with_options(select="flat")
    assert model.config.predict.select == "nested"
    assert (ner.settings["select"], other.settings["select"]) == ("nested", "flat")


# Models by name


def test_installed_models_are_found_by_name(monkeypatch, tmp_path, whole) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_model() == find_model("names") == loading.SHIPPED
    mentions = find_model("mentions")
    assert (mentions.name, mentions.parent.name) == ("mentions", "fencepost_models")
    assert find_model("neither") == Path("neither")
    shutil.copytree(whole, tmp_path / "names")
    (tmp_path / "mentions").mkdir()
    assert find_model("names") == Path("names")  # a folder of the user has priority
    assert find_model(Path("mentions")) == Path("mentions")
    assert load("names").types == load(whole).types


def test_names_the_package_of_a_model_that_is_not_installed(monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(loading, "entry_points", lambda **_: ())
    with pytest.raises(UsageError, match=r"mentions is in a package .*: pip install fencepost-models"):
        load("mentions")
    with pytest.raises(UsageError, match=r"neither: not a model folder .*an installed model: names"):
        load("neither")
    with pytest.raises(UsageError, match=r"fencepost.load\('owner/model'\).save_pretrained\(FOLDER\)"):
        load(Path("owner/model"))  # as commands do, which download nothing


# What cannot be loaded


def test_refuses_a_folder_without_a_model(tmp_path, monkeypatch) -> None:
    for path in (tmp_path, tmp_path / "missing", __file__):
        for engine in ("auto", "onnx", "pytorch"):
            with pytest.raises(UsageError, match="not a model folder"):
                load(path, engine=engine)
    monkeypatch.setattr(loading, "SHIPPED", tmp_path / "names")
    with pytest.raises(UsageError, match="names: not a model folder"):
        load()


def test_pytorch_needs_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    assert load(folder, engine="onnx").engine == "onnx"
    with pytest.raises(UsageError, match=f"{folder}: this model has graphs for prediction, but no weights"):
        load(folder, engine="pytorch")


@pytest.mark.parametrize("name", ["encoder.onnx", "spans.onnx"])
@pytest.mark.parametrize("content", [None, 0, 0.5, b"PK\x03\x04"])
def test_reports_damaged_graphs(folder: Path, name: str, content) -> None:
    path = folder / "onnx" / name
    whole = path.read_bytes()
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content if isinstance(content, bytes) else whole[: int(len(whole) * content)])
    with pytest.raises(FencepostError) as caught:
        load(folder, engine="onnx")
    message = str(caught.value)
    assert "\n" not in message
    if content is None and name == "encoder.onnx":
        assert message == f"{folder}: this model was not exported to float32; run fencepost export"
    else:
        assert message.startswith(f"{path}: the graph cannot be loaded: ")
        assert message.endswith("; export the model again")


@pytest.mark.parametrize("name", ["config.json", "vocabulary.json", "onnx/export.json"])
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"null"])
def test_refuses_files_that_are_not_json_objects(folder: Path, name: str, content: bytes) -> None:
    (folder / name).write_bytes(content)
    with pytest.raises(DataError) as caught:
        load(folder, engine="onnx")
    assert re.match(f"{folder / name}: this file (is not|does not contain)", str(caught.value))


def test_reports_a_missing_vocabulary(folder: Path) -> None:
    (folder / "vocabulary.json").unlink()
    with pytest.raises(DataError, match=r"vocabulary\.json: cannot be read: No such file"):
        load(folder)


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/b", "..", "", "encoder.int8"])
def test_refuses_graph_names_outside_the_folder(folder: Path, name: str) -> None:
    change(folder / "onnx" / "export.json", lambda tree: tree["graphs"].append(name))
    with pytest.raises(DataError) as caught:
        load(folder, engine="onnx")
    path = folder / "onnx" / "export.json"
    assert str(caught.value).startswith(f"{path}: this is not an exported fencepost model: ")
    assert repr(name) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("config.json", lambda tree: tree.clear()),
        ("config.json", lambda tree: tree.pop("types")),
        ("config.json", lambda tree: tree["config"].pop("encoder")),
        ("config.json", lambda tree: tree["config"].pop("predict")),
        ("config.json", lambda tree: tree["config"].update(method=3)),
        ("config.json", lambda tree: tree["config"]["method"].update(name="magic")),
        ("config.json", lambda tree: tree["config"]["method"].update(name="diffusion")),
        ("config.json", lambda tree: tree.update(calibration={"temperature": 0})),
        ("config.json", lambda tree: tree["config"]["text"].update(language=["en"])),
        ("onnx/export.json", lambda tree: tree.clear()),
        ("onnx/export.json", lambda tree: tree.pop("graphs")),
        ("onnx/export.json", lambda tree: tree.pop("room")),
        ("onnx/export.json", lambda tree: tree.update(graphs=3)),
        ("onnx/export.json", lambda tree: tree.update(room=40)),
        ("vocabulary.json", lambda tree: tree.clear()),
    ],
)
def test_refuses_files_with_missing_or_wrong_values(folder: Path, name: str, broken) -> None:
    change(folder / name, broken)
    with pytest.raises(FencepostError, match=str(folder)):
        load(folder, engine="onnx")


@pytest.mark.parametrize("room", ["40", 0, -1, 4.5])
def test_refuses_an_invalid_room(folder: Path, room) -> None:
    change(folder / "onnx" / "export.json", lambda tree: tree.update(room=room))
    with pytest.raises(FencepostError, match=f"room is {room!r}"):
        load(folder, engine="onnx")


def test_names_wrong_keys_of_the_config(folder: Path) -> None:
    change(folder / "config.json", lambda tree: tree["config"]["encoder"].update(pooling="sum", contxt=1))
    with pytest.raises(UsageError) as caught:
        load(folder, engine="onnx")
    first, second = str(caught.value).splitlines()
    assert first.startswith(f"{folder / 'config.json'}: encoder.pooling: ")
    assert "did you mean encoder.context?" in second


def test_reports_a_missing_tokenizer(tmp_path) -> None:
    encoder = {"name": str(models.save_bert(tmp_path / "bert")), "lstm": {"size": 0}}
    folder = models.saved(models.random_model("boundary-smoothing", encoder), tmp_path / "model")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(DataError, match=r"tokenizer\.json: cannot be read: No such file"):
        load(folder)


def test_all_engines_have_the_same_interface(whole: Path) -> None:
    """Their attributes and methods return the same values."""
    engines = [onnx.load_predictor(whole), onnx.load_predictor(whole, "int8"), pytorch.load_predictor(whole)]
    for engine in engines:
        assert (engine.types, engine.language, engine.context) == (("LOC", "ORG", "PER"), "en", 0)
        assert (engine.room, engine.sizes(["a", "b"])) == (None, [1, 1])
        assert engine.predict_entities([]) == []
        assert engine.predict_settings.select == "nested"
    assert [engine.name for engine in engines] == ["onnx", "int8", "pytorch"]
