"""The cells of a sweep, and the names of their folders."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.config import Config
from fencepost.errors import UsageError
from fencepost.experiments.cells import MAX_NAME_BYTES, GridCell, check_distinct, make_cells, split_unquoted
from fencepost.settings import parse_change
from tests.strategies import odd_words


@pytest.mark.parametrize(
    ("cell", "name"),
    [
        (GridCell(), "as it is"),
        (GridCell(("method.epsilon=0.1",)), "method.epsilon=0.1"),
        (GridCell(("method.epsilon=0.1",), 0.5), "method.epsilon=0.1 share=0.5"),
        (GridCell((), 1.0), "share=1"),
        (GridCell((), None, 0.0), "boundary-noise=0"),
        (GridCell(("a.b=1", "a.c=x"), 0.125, 0.1), "a.b=1 a.c=x share=0.125 boundary-noise=0.1"),
        (GridCell(("method.lengths=[1, 2]",)), "method.lengths=[1, 2]"),
    ],
)
def test_cell_name_has_its_changes(cell, name):
    assert cell.name == cell.label == name


@pytest.mark.parametrize(
    "value",
    [
        "hfl/chinese-bert-wwm",
        "..",
        "../../etc",
        "a\\b",
        "c:d",
        "x" * 300,
        "é" * 120,
        "*",
        "a\nb",
        "a.",
        "\udcff",
    ],
)
def test_cell_name_is_a_safe_folder_name(value):
    cell = GridCell((f"encoder.name={value}",))
    assert cell.label == f"encoder.name={value}"
    assert cell.name.startswith("encoder.name=")
    assert len(Path("out", cell.name).parts) == 2
    assert not set(cell.name) & set('/\\:*?"<>|\n')
    assert len(cell.name.encode()) <= MAX_NAME_BYTES
    assert cell.name != cell.label or value == ".."  # after a key, it is not the parent folder
    assert cell.name == GridCell(cell.changes).name


@given(st.lists(odd_words.map(lambda word: f"a={word}"), unique=True, min_size=2, max_size=4))
def test_different_cells_have_different_names(changes):
    names = {GridCell((change,)).name for change in changes}
    assert len(names) == len({GridCell((change,)).label for change in changes})
    for name in names:
        assert "/" not in name
        assert "\0" not in name
        assert name.strip(" .") == name


def test_makes_all_combinations_in_order():
    cells = make_cells(["method.epsilon=0, 0.1", "method.smoothing_size=1,2"], [0.5, 1], [0, 0.1])
    assert len(cells) == 16
    assert [cell.name for cell in cells[:5]] == [
        "method.epsilon=0 method.smoothing_size=1 share=0.5 boundary-noise=0",
        "method.epsilon=0 method.smoothing_size=1 share=0.5 boundary-noise=0.1",
        "method.epsilon=0 method.smoothing_size=1 share=1 boundary-noise=0",
        "method.epsilon=0 method.smoothing_size=1 share=1 boundary-noise=0.1",
        "method.epsilon=0 method.smoothing_size=2 share=0.5 boundary-noise=0",
    ]
    assert cells[-1].settings == {"method.epsilon": "0.1", "method.smoothing_size": "2"}
    assert make_cells([]) == [GridCell()]
    assert make_cells(["a.b=1,1,2"]) == [GridCell(("a.b=1",)), GridCell(("a.b=2",))]


@pytest.mark.parametrize(
    ("axis", "values"),
    [
        ("method.lengths=[1,2],[1,2,3]", [[1, 2], [1, 2, 3]]),
        ("a=[[1,2],[3]],{b: [1,2], c: 3},x", [[[1, 2], [3]], {"b": [1, 2], "c": 3}, "x"]),
        ("a='x,y',\"[\",it's,it's all", ["x,y", "[", "it's", "it's all"]),
        ("a=['x]',2],null,true,1e-3,http://b=c", [["x]", 2], None, True, "1e-3", "http://b=c"]),
    ],
)
def test_values_are_parsed_as_yaml(axis, values):
    changes = [cell.changes[0] for cell in make_cells([axis])]
    assert [next(iter(parse_change(change).values())) for change in changes] == [
        {"lengths": value} if "method" in axis else value for value in values
    ]


def test_splits_only_outside_quotes_and_brackets():
    assert split_unquoted("a=1,2 b=[1, 2] c='x y'", " ") == ["a=1,2", "b=[1, 2]", "c='x y'"]


@pytest.mark.parametrize(
    ("axes", "shares", "noises", "message"),
    [
        (
            ["epsilon"],
            [],
            [],
            "--grid epsilon: write it as KEY=VALUE,VALUE, for example method.epsilon=0,0.1",
        ),
        (["a=1,,2"], [], [], "--grid a=1,,2: write it as"),
        (["a="], [], [], "--grid a=: write it as"),
        (["=1"], [], [], "--grid =1: write it as"),
        (["a..b=1"], [], [], "--grid a..b=1: write it as"),
        (["a=[1,2"], [], [], "the value [1,2 is not valid YAML"),
        (["a=1", "a=2"], [], [], "--grid a=2: a is given twice; give all its values at once"),
        (["training.seed=1,2"], [], [], "give the number of seeds with --seeds"),
        ([], [0.5, 0], [], "--share: give shares above 0 and at most 1, not 0"),
        ([], [1.5], [], "not 1.5"),
        ([], [float("nan")], [], "not nan"),
        ([], [], [-0.1], "--boundary-noise: give probabilities between 0 and 1, not -0.1"),
    ],
)
def test_refuses_invalid_grids(axes, shares, noises, message):
    with pytest.raises(UsageError) as caught:
        make_cells(axes, shares, noises)
    assert message in str(caught.value)


def test_refuses_equal_cells():
    cells = make_cells(["method.epsilon=0.1,0.10"])
    settings = {cell: Config.compose(changes=cell.changes) for cell in cells}
    with pytest.raises(UsageError, match=r"method.epsilon=0.1 and method.epsilon=0.10 are the same"):
        check_distinct(settings)
    alike = [GridCell((), 0.1234567), GridCell((), 0.12345671)]
    with pytest.raises(UsageError, match=r"2 cells would have the folder share=0.123457"):
        check_distinct(dict.fromkeys(alike, Config.compose()))
