"""Packages bring methods of their own: here, folders with what `pip install` would leave there."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from fencepost.methods.decoders import DECODERS
from fencepost.methods.networks import METHODS
from typer.testing import CliRunner

from fencepost import load
from fencepost.cli.frame import app
from fencepost.config import Config
from fencepost.errors import UsageError
from fencepost.methods.boundary_smoothing.network import BoundarySmoothing
from fencepost.methods.decoder import Decoder
from fencepost.methods.model import Model
from fencepost.runtime.export import export
from tests.runtime.models import NESTED, SCRATCH

torch.set_num_threads(1)

OWN = ["boundary-smoothing", "boundary-offset", "locate-and-label", "diffusion"]
PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
POINTS = {
    "methods": {"ends": "fencepost_ends.method:Ends"},
    "decoders": {"ends": "fencepost_ends.decoder:EndsDecoder"},
}


def install(folder: Path, name: str, points: dict[str, dict[str, str]]) -> None:
    """A package as far as its entry points go."""
    info = folder / f"{name.replace('-', '_')}-0.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1\n")
    groups = (
        f"[fencepost.{group}]\n" + "".join(f"{key} = {value}\n" for key, value in of_group.items())
        for group, of_group in points.items()
    )
    (info / "entry_points.txt").write_text("\n".join(groups))


@pytest.fixture
def site(tmp_path, monkeypatch) -> Iterator[Path]:
    """A folder that Python looks for packages in; what is imported from it is forgotten afterwards."""
    for registry in (METHODS, DECODERS):
        monkeypatch.setattr(registry, "_known", dict(registry._known))
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "fencepost_ends"]:
        del sys.modules[name]


@pytest.fixture
def ends(site) -> Path:
    """The package of docs/extending.md, made of its blocks."""
    method, decoder = re.findall(
        r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    method, _ = method.split('METHODS["ends"] = Ends')
    package = site / "fencepost_ends"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "decoder.py").write_text(decoder)
    (package / "method.py").write_text(
        f"{method}\nfrom fencepost_ends.decoder import EndsPredict\n\nEnds.Predict = EndsPredict\n"
    )
    install(site, "fencepost-ends", POINTS)
    return site


def test_a_method_of_a_package_learns_is_saved_exported_and_loaded(ends, tmp_path) -> None:
    torch.manual_seed(0)
    model = Model.build(Config.parse({"method": {"name": "ends", "size": 16}, "encoder": SCRATCH}), NESTED)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(80):
        optimizer.zero_grad()
        model(model.collate(NESTED))["loss"].backward()
        optimizer.step()
    folder = tmp_path / "model"
    model.eval().save(folder)
    export(model, folder)
    for engine in ("pytorch", "onnx"):
        found = load(folder, engine=engine).predict(NESTED)
        assert [[e.key for e in s.entities] for s in found] == [[e.key for e in s.entities] for s in NESTED]
    strict = load(folder, engine="onnx", settings={"threshold": 0.999}).predict(NESTED)
    assert not any(sentence.entities for sentence in strict)


def test_the_command_line_knows_it(ends) -> None:
    wanted = ["train", "--method", "ends", "--set", "method.size=9", "--show-config"]
    told = CliRunner().invoke(app, wanted, catch_exceptions=False)
    assert told.exit_code == 0
    assert "method:\n  name: ends\n  size: 9\n" in told.stdout
    assert "threshold: 0.5" in told.stdout
    assert "batch_size: 8" in told.stdout


def test_it_is_listed_where_a_name_is_wrong(ends) -> None:
    assert list(METHODS) == [*OWN, "ends"]
    assert len(METHODS) == 5
    with pytest.raises(UsageError, match="no method 'end'; did you mean ends"):
        Config.parse({"method": {"name": "end"}})
    assert "fencepost_ends" not in sys.modules, "a name is no reason to import it"


def test_a_name_that_is_there_stays_what_it_is(site) -> None:
    install(site, "impostor", {"methods": {"boundary-smoothing": "nowhere:Impostor"}})
    assert list(METHODS) == OWN
    assert METHODS["boundary-smoothing"] is BoundarySmoothing


def test_one_that_cannot_be_imported_is_told_of_when_it_is_asked_for(site) -> None:
    (site / "failing.py").write_text("1 / 0\n")
    points = {"gone": "nowhere_at_all:Gone", "failing": "failing:Any", "empty": "json:Empty"}
    install(site, "broken-methods", {"methods": points, "decoders": {"gone": "nowhere_at_all:Gone"}})
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
    with pytest.raises(UsageError, match="the decoder gone of the package broken-methods cannot be imported"):
        DECODERS["gone"]


@pytest.mark.parametrize("value", ["json:loads", "json:JSONDecoder", "fencepost.decoders:Decoder"])
def test_one_that_is_no_method_is_refused(site, value: str) -> None:
    install(site, "other-things", {"methods": {"other": value}})
    with pytest.raises(
        UsageError, match=f"method other of the package other-things is no subclass of Method: {value}"
    ):
        METHODS["other"]


def test_two_packages_with_one_name_are_both_told(site) -> None:
    for package in ("first", "second"):
        install(site, package, {"methods": {"ends": f"{package}:Ends"}})
    with pytest.raises(UsageError, match="ends of the package first and second: which of them is meant"):
        METHODS["ends"]


def test_a_name_that_nobody_brings_is_missing_as_from_any_dictionary(site) -> None:
    assert "ends" not in DECODERS
    assert DECODERS.get("ends") is None
    with pytest.raises(KeyError, match="no decoder 'ends'; is the package that brings it installed"):
        DECODERS["ends"]


def test_registered_in_a_program_it_comes_before_one_of_a_package(ends) -> None:
    class Mine(Decoder):
        candidates = None

    DECODERS["ends"] = Mine
    assert DECODERS["ends"] is Mine
    del DECODERS["ends"]
    assert DECODERS["ends"].__name__ == "EndsDecoder"
