"""The files of a result: their content, and files that they never overwrite."""

from __future__ import annotations

import csv
import io
import math
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost import __version__
from fencepost.analysis.figures import add_legend, make_panels
from fencepost.analysis.result import Analysis, Table, check_target, name_paths, to_percent
from fencepost.errors import UsageError
from tests.analysis.files import Written


def result(
    content: dict[str, Any] | None = None, rows: Any = (("a", 1, 0.5),), label: str = "é 日本"
) -> Analysis:
    figure, [axis] = make_panels(1)
    axis.plot([0, 1], [0, 1], label=label)
    axis.set(xlabel="words", ylabel="F1, in %")
    add_legend(axis)
    return Analysis("some", content or {"models": {}}, Table(("model", "count", "f1"), rows), figure)


def test_saves_four_files_deterministically(tmp_path: Path) -> None:
    content = {"models": {"日本": {"f1": 0.25, "none": None}}, "data": "a\udce9.jsonl", "pair": ("x", "y")}
    paths = result(content, [("日本", 3, 0.25), ("b", None, 1 / 3)]).save(tmp_path / "new" / "folder")
    assert [path.name for path in paths] == ["some.json", "some.csv", "some.png", "some.svg"]
    files = Written.read(tmp_path / "new" / "folder", "some")
    assert files.content == {"fencepost": __version__, **content, "pair": ["x", "y"]}
    assert files.rows == [
        {"model": "日本", "count": "3", "f1": "0.25"},
        {"model": "b", "count": "", "f1": str(1 / 3)},
    ]
    assert {"words", "F1, in %", "é 日本"} <= set(files.texts)
    before = [path.read_bytes() for path in paths]
    result(content, [("日本", 3, 0.25), ("b", None, 1 / 3)]).save(tmp_path / "new" / "folder")  # over our own
    assert [path.read_bytes() for path in paths] == before
    assert b"<dc:date>" not in before[3]


def test_json_has_null_for_nan_and_infinity(tmp_path: Path) -> None:
    content = {"losses": [1.0, math.inf, math.nan], "deep": {"a": ({"b": -math.inf},)}}
    result(content, [("a", 1, math.inf)]).save(tmp_path)
    files = Written.read(tmp_path, "some")
    assert files.content["losses"] == [1.0, None, None]
    assert files.content["deep"] == {"a": [{"b": None}]}
    assert files.rows[0]["f1"] == "inf"


@pytest.mark.parametrize("kind", ["json", "csv", "png", "svg"])
def test_refuses_to_overwrite_files_of_others(tmp_path: Path, kind: str) -> None:
    other = tmp_path / f"some.{kind}"
    other.write_text('{"fencepost": 1}' if kind == "json" else "mine")
    before = other.read_bytes()
    with pytest.raises(UsageError, match=rf"some\.{kind}: already exists and is not a result of fencepost"):
        result().save(tmp_path)
    assert other.read_bytes() == before
    assert list(tmp_path.iterdir()) == [other]


def test_refuses_a_folder_or_binary_file_as_target(tmp_path: Path) -> None:
    (tmp_path / "some.json").mkdir()
    with pytest.raises(UsageError, match="not a result of fencepost"):
        check_target(tmp_path, "some")
    (tmp_path / "other.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not a result of fencepost"):
        check_target(tmp_path, "other")
    check_target(tmp_path, "third")


def test_refuses_a_folder_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path / "file", tmp_path / "file" / "deeper" / "still"):
        with pytest.raises(UsageError, match=r"cannot be created: .*file is a file"):
            check_target(folder, "some")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    if os.geteuid():  # root may write everywhere
        for folder in (closed, closed / "new"):
            with pytest.raises(UsageError, match=r"no permission to write to .*closed"):
                check_target(folder, "some")


def test_relative_folders_are_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert check_target(Path("new/one"), "some")[0] == Path("new/one/some.json")
    assert check_target(Path(), "some")[0] == Path("some.json")


# CSV


@pytest.mark.parametrize(
    "text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "-", "--x"]
)
def test_formulas_are_escaped_in_csv(text: str) -> None:
    [_, [cell]] = csv.reader(io.StringIO(Table(("a",), [(text,)]).to_csv(), newline=""))
    assert cell == f"'{text}"


@pytest.mark.parametrize(
    "value", ["-1", "+0.5", "-1e-5", -3, -0.25, "", "a=b", "日本", 'say "a, b"', "a\nb", "'"]
)
def test_numbers_and_other_texts_are_not_escaped_in_csv(value: Any) -> None:
    [_, [_, cell]] = csv.reader(io.StringIO(Table(("a", "b"), [("x", value)]).to_csv(), newline=""))
    assert cell == str(value)


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(st.text(max_size=8), st.floats(allow_nan=False) | st.none() | st.integers()), max_size=4
    )
)
def test_any_table_can_be_read_back(rows: list[tuple[Any, ...]]) -> None:
    text = Table(("a", "b"), rows).to_csv()
    lines = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    assert lines[0] == ["a", "b"]
    assert len(lines) == len(rows) + 1
    for (word, number), (read_word, read_number) in zip(rows, lines[1:], strict=True):
        assert read_word.removeprefix("'") == word.removeprefix("'")
        assert (type(number)(read_number) if number is not None else None) == number


# Names


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        ([], []),
        (["runs/a", "runs/b"], ["a", "b"]),
        (["x/model", "y/model"], ["x/model", "y/model"]),
        (["x/model", "y/model", "z/other"], ["x/model", "y/model", "z/other"]),
        (["x/a/model", "x/b/model"], ["a/model", "b/model"]),
        (["model", "x/model"], ["model", "x/model"]),
        (["model", "model"], ["1: model", "2: model"]),
        (["."], ["."]),
        (["/"], ["/"]),
        (["model/", "./model"], ["1: model", "2: model"]),
    ],
)
def test_short_names_distinguish_folders(paths: list[str], names: list[str]) -> None:
    assert name_paths([Path(path) for path in paths]) == names


@settings(max_examples=50)
@given(st.lists(st.lists(st.sampled_from(["a", "b", "..", "/"]), min_size=1, max_size=3), max_size=5))
def test_names_are_always_distinct(parts: list[list[str]]) -> None:
    names = name_paths([Path(*one) for one in parts])
    assert len(names) == len(set(names)) == len(parts)
    assert all(names)


def test_values_are_formatted_in_percent() -> None:
    assert [to_percent(value) for value in (0.12345, 1.0, 0.0, None)] == ["12.3", "100.0", "0.0", ""]
