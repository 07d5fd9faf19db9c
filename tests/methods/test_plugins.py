"""Methods of other packages, which are folders like those that `pip install` creates."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from fencepost import load
from fencepost.cli import app
from fencepost.config import Config
from fencepost.data import write
from fencepost.errors import UsageError
from fencepost.methods.boundary_smoothing import METHOD
from fencepost.methods.registry import METHODS, Method
from tests.runtime.models import NESTED

torch.set_num_threads(1)

OWN = ["boundary-smoothing", "boundary-offset", "locate-and-label", "diffusion"]
PAGE = Path(__file__).parents[2] / "docs" / "extending.md"


def install(folder: Path, name: str, points: dict[str, str]) -> None:
    """Write the entry points of a package."""
    info = folder / f"{name.replace('-', '_')}-0.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1\n")
    lines = "".join(f"{key} = {value}\n" for key, value in points.items())
    (info / "entry_points.txt").write_text(f"[fencepost.methods]\n{lines}")


@pytest.fixture
def site(tmp_path, monkeypatch) -> Iterator[Path]:
    """Folder on the path of Python; modules imported from it are removed afterwards."""
    monkeypatch.setattr(METHODS, "_known", dict(METHODS._known))
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "fencepost_ends"]:
        del sys.modules[name]


@pytest.fixture
def ends(site) -> Path:
    """Package that is made of the blocks of docs/extending.md."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    package = site / "fencepost_ends"
    package.mkdir()
    for name, block in zip(("__init__.py", "network.py"), blocks, strict=True):
        (package / name).write_text(block)
    install(site, "fencepost-ends", {"ends": "fencepost_ends:METHOD"})
    return site


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(one) for one in arguments], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.stdout


def keys(sentences) -> list[list[tuple[int, int, str]]]:
    return [[entity.key for entity in sentence.entities] for sentence in sentences]


def test_method_of_a_package_works_in_every_command(ends, tmp_path) -> None:
    """Trained, predicted on both engines, exported and checked, scored, reported, analysed and tuned."""
    data, model = tmp_path / "data.jsonl", tmp_path / "model"
    write(NESTED * 4, data)
    small = [
        "encoder.name=scratch",
        "encoder.lstm.size=16",
        "encoder.lstm.dropout=0",
        "training.batch_size=4",
    ]
    options = ["--train", data, "--dev", data, "--method", "ends"]
    options += [part for setting in small for part in ("--set", setting)]
    run("train", *options, "--test", data, "--epochs", "30", "--out", model)
    assert (model / "report.html").is_file()
    assert keys(load(model).predict(NESTED)) == keys(NESTED)
    run("export", model, "--check", data)
    scores = {}
    for engine in ("pytorch", "onnx"):
        ner = load(model, engine=engine)
        assert keys(ner.predict(NESTED)) == keys(NESTED)
        assert not any(s.entities for s in ner.with_options(threshold=0.999).predict(NESTED))
        scores[engine] = json.loads(run("evaluate", model, data, "--engine", engine, "--json", "-"))
        assert scores[engine]["engine"] == engine
    assert scores["onnx"]["f1"] == pytest.approx(scores["pytorch"]["f1"])
    assert "confidence" in run("analyze", "method", model, data, "--out", tmp_path / "analysis").lower()
    run("report", model, "--data", data, "--out", tmp_path / "report.html")
    run("tune", *options, "--trials", "2", "--epochs", "1", "--out", tmp_path / "tuned")
    assert "method.size" in (tmp_path / "tuned" / "trials.csv").read_text(encoding="utf-8")


def test_importing_a_method_does_not_import_pytorch(ends, tmp_path) -> None:
    script = "import sys; import fencepost_ends; assert 'torch' not in sys.modules"
    paths = os.pathsep.join([str(ends), *filter(None, sys.path)])
    subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": paths}, check=True)


def test_command_line_accepts_a_method_of_a_package(ends) -> None:
    text = run("train", "--method", "ends", "--set", "method.size=9", "--show-config")
    assert "method:\n  name: ends\n  size: 9\n" in text
    assert "batch_size: 8" in text


def test_messages_suggest_methods_of_packages(ends) -> None:
    assert list(METHODS) == [*OWN, "ends"]
    assert len(METHODS) == 5
    with pytest.raises(UsageError, match="no method 'end'; did you mean ends"):
        Config.parse({"method": {"name": "end"}})
    assert "fencepost_ends" not in sys.modules, "a name is no reason to import it"


def test_package_cannot_replace_a_built_in_method(site) -> None:
    install(site, "impostor", {"boundary-smoothing": "nowhere:Impostor"})
    assert list(METHODS) == OWN
    assert METHODS["boundary-smoothing"] is METHOD


def test_broken_method_is_reported_only_when_used(site) -> None:
    (site / "failing.py").write_text("1 / 0\n")
    points = {"gone": "nowhere_at_all:Gone", "failing": "failing:Any", "empty": "json:Empty"}
    install(site, "broken-methods", points)
    assert Config.parse({}).method.name == "boundary-smoothing"
    assert list(METHODS) == [*OWN, *sorted(points)]
    for name, reason in (
        ("gone", "No module named 'nowhere_at_all'"),
        ("failing", "ZeroDivisionError: division by zero"),
        ("empty", "module 'json' has no attribute 'Empty'"),
    ):
        with pytest.raises(UsageError) as caught:
            Config.parse({"method": {"name": name}})
        assert str(caught.value).startswith(f"the method {name} of the package broken-methods cannot be")
        assert reason in str(caught.value)


@pytest.mark.parametrize("value", ["json:loads", "json:JSONDecoder", "fencepost.methods.decoder:Decoder"])
def test_refuses_entry_points_that_are_not_methods(site, value: str) -> None:
    install(site, "other-things", {"other": value})
    expected = f"method other of the package other-things is not a fencepost.methods.registry.Method: {value}"
    with pytest.raises(UsageError, match=expected):
        METHODS["other"]


def test_names_both_packages_of_an_ambiguous_method(site) -> None:
    for package in ("first", "second"):
        install(site, package, {"ends": f"{package}:Ends"})
    with pytest.raises(UsageError, match="ends of the package first and second is ambiguous"):
        METHODS["ends"]


def test_unknown_method_is_a_missing_key(site) -> None:
    assert "ends" not in METHODS
    assert METHODS.get("ends") is None
    with pytest.raises(KeyError, match="no method 'ends'; is the package that provides it installed"):
        METHODS["ends"]


def test_method_registered_in_python_overrides_that_of_a_package(ends) -> None:
    mine = Method(METHOD.settings, decoder=METHOD.decoder, network=METHOD.load_network())
    METHODS["ends"] = mine
    assert METHODS["ends"] is mine
    assert mine.load_network() is METHOD.load_network()
    del METHODS["ends"]
    assert METHODS["ends"].settings.__name__ == "EndsSettings"
