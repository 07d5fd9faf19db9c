"""The files of a model folder: its config, and the checksums that reveal damage."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fencepost.errors import DataError
from fencepost.methods.model import Model
from fencepost.runtime import export as exporting
from fencepost.runtime import folder as folder_module
from fencepost.runtime.folder import (
    SUMS_FILE,
    compare_sums,
    compute_sums,
    files_of,
    read_saved_config,
    read_sums,
    verify_sums,
    write_sums,
)
from fencepost.runtime.loading import SHIPPED
from fencepost.runtime.pytorch import load_model, save_model
from tests.runtime import models


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    return models.saved(models.trained(), tmp_path_factory.mktemp("whole"))


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "model"))


def statuses(folder: Path) -> dict[str, str]:
    sums = read_sums(folder)
    assert sums is not None
    return compare_sums(folder, sums)


def flip_bit(path: Path, at: int = -9) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def test_saving_and_exporting_write_checksums_of_all_files(folder: Path) -> None:
    assert set(statuses(folder).values()) == {"ok"}
    assert statuses(folder).keys() == set(files_of(folder)) - {SUMS_FILE}
    verify_sums(folder, "model")


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="sha256sum is not installed")
def test_sha256sum_verifies_the_checksums(folder: Path) -> None:
    command = ["sha256sum", "--check", "--strict", "--quiet", SUMS_FILE]
    assert subprocess.run(command, cwd=folder, check=False).returncode == 0
    flip_bit(folder / "model.safetensors")
    assert subprocess.run(command, cwd=folder, check=False, capture_output=True).returncode == 1


@pytest.mark.parametrize(
    "name", ["model.safetensors", "config.json", "vocabulary.json", "onnx/spans.onnx", "onnx/export.json"]
)
def test_checksums_detect_one_changed_bit(folder: Path, name: str) -> None:
    flip_bit(folder / name)
    assert [one for one, status in statuses(folder).items() if status != "ok"] == [name]
    with pytest.raises(DataError) as caught:
        verify_sums(folder, "owner/model")
    assert str(caught.value).startswith("owner/model: the SHA-256 checksums of these files in ")
    assert f"{name} (changed)" in str(caught.value)


def test_checksums_report_missing_and_new_files(folder: Path) -> None:
    (folder / "vocabulary.json").unlink()
    shutil.copyfile(folder / "onnx" / "spans.onnx", folder / "onnx" / "more.onnx")
    problems = {name: status for name, status in statuses(folder).items() if status != "ok"}
    assert problems == {"vocabulary.json": "missing", "onnx/more.onnx": "not listed"}


def test_weights_may_be_missing_if_there_are_graphs(folder: Path) -> None:
    (folder / "model.safetensors").unlink()  # the graphs are enough
    assert set(statuses(folder).values()) == {"ok"}
    (folder / "onnx" / "export.json").unlink()  # then no graph is ever loaded, and the weights are missing
    assert statuses(folder)["model.safetensors"] == "missing"


def test_card_and_scores_may_change(folder: Path) -> None:
    (folder / "README.md").write_text("mine", encoding="utf-8")
    (folder / "metrics.json").write_text("{}", encoding="utf-8")
    assert set(statuses(folder).values()) == {"ok"}


def test_saving_exporting_and_checking_update_checksums(folder: Path) -> None:
    model = load_model(folder)
    save_model(model, folder)
    assert set(statuses(folder).values()) == {"ok"}
    assert not any(name.startswith("onnx/") for name in statuses(folder))
    exporting.export(model, folder)
    exporting.check(folder, models.NESTED, max_loss=100, log=lambda _: None)
    assert "checked" in json.loads((folder / "onnx" / "export.json").read_text(encoding="utf-8"))
    assert set(statuses(folder).values()) == {"ok"}
    assert {"onnx/encoder.onnx", "onnx/export.json"} <= statuses(folder).keys()


def test_export_does_not_update_the_checksum_of_changed_weights(folder: Path) -> None:
    model = load_model(folder)
    flip_bit(folder / "model.safetensors")
    exporting.export(model, folder)
    assert statuses(folder)["model.safetensors"] == "changed"


def save_and_export(model: Model, folder: Path) -> None:
    save_model(model, folder)
    exporting.export(model, folder)


@pytest.mark.parametrize("moves", range(8))
def test_interrupted_save_leaves_no_wrong_checksums(folder: Path, monkeypatch, moves: int) -> None:
    model = load_model(folder)
    replace, count = Path.replace, iter(range(moves))

    def replace_some(path: Path, target: Path) -> Path:
        if next(count, None) is None:
            raise KeyboardInterrupt
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", replace_some)
    with pytest.raises(KeyboardInterrupt):
        save_and_export(model, folder)
    monkeypatch.undo()
    sums = read_sums(folder)
    assert sums is None or set(compare_sums(folder, sums).values()) == {"ok"}


def test_export_adds_checksums_to_an_older_model(folder: Path) -> None:
    (folder / SUMS_FILE).unlink()
    assert read_sums(folder) is None
    verify_sums(folder, "model")
    exporting.export(load_model(folder), folder)
    assert set(statuses(folder).values()) == {"ok"}
    assert "model.safetensors" in statuses(folder)


def test_shipped_model_has_correct_checksums() -> None:
    assert set(statuses(SHIPPED).values()) == {"ok"}
    assert "onnx/encoder.int8.onnx" in statuses(SHIPPED)


SUM = "0" * 64


@pytest.mark.parametrize(
    "text",
    [
        "x",
        SUM,
        f"{SUM} config.json",
        f"{SUM[1:]}  config.json",
        f"{SUM}  ../config.json",
        f"{SUM}  /etc/passwd",
        f"{SUM}  onnx/../x.onnx",
        f"{SUM}  config.json\n{SUM}  config.json",
        "\udcff",
    ],
)
def test_refuses_invalid_checksum_files(tmp_path: Path, text: str) -> None:
    (tmp_path / SUMS_FILE).write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(DataError, match=SUMS_FILE):
        read_sums(tmp_path)


def test_failed_write_keeps_the_old_checksums(folder: Path, monkeypatch) -> None:
    before = read_sums(folder)
    monkeypatch.setattr(folder_module, "format_sums", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_sums(folder, compute_sums(folder, []))
    assert read_sums(folder) == before


# config.json

GOOD: dict[str, Any] = {"types": ["A", "B"], "config": {}, "calibration": {"temperature": 1, "shift": 0.5}}


def test_reads_a_valid_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(GOOD), encoding="utf-8")
    saved = read_saved_config(tmp_path)
    assert (saved.types, saved.calibration) == (("A", "B"), {"temperature": 1, "shift": 0.5})


@pytest.mark.parametrize(
    "change",
    [
        {"types": []},
        {"types": "AB"},
        {"types": ["A", "A"]},
        {"types": ["A", ""]},
        {"types": ["A", 3]},
        {"types": ["A", None]},
        {"types": ["\ud800"]},
        {"types": [f"T{number}" for number in range(10_001)]},
        {"types": {"A": 1}},
        {"config": "x"},
        {"config": []},
        {"calibration": {"temperature": True, "shift": 0}},
        {"calibration": {"temperature": "1", "shift": 0}},
        {"calibration": {"temperature": 1, "shift": 0, "more": 1}},
        {"calibration": [1, 0]},
    ],
)
def test_refuses_invalid_configs(tmp_path: Path, change: dict[str, Any]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(GOOD | change), encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_saved_config(tmp_path)
    assert str(caught.value).startswith(
        f"{tmp_path / 'config.json'}: this is not the config of a fencepost model"
    )
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "content", [b"[" * 100_000, b'{"a":' * 100_000, b"\xff" * 1000, b'{"a": 1' + b"0" * 5000]
)
def test_refuses_configs_that_are_not_json(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_saved_config(tmp_path)
    assert len(str(caught.value)) < 1000
