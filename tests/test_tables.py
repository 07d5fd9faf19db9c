"""The tables of the documentation that are generated from results."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import speed, speed_tables, tables

PAGES = [page for page in tables.PAGES if tables.BLOCK.search(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tables_are_up_to_date(page: Path) -> None:
    for block in tables.BLOCK.finditer(page.read_text(encoding="utf-8")):
        assert block[3] == tables.TABLES[block[1]]() + "\n", f"{page.name}: run python -m benchmarks.tables"


def test_every_table_is_in_a_page() -> None:
    names = {block[1] for page in PAGES for block in tables.BLOCK.finditer(page.read_text(encoding="utf-8"))}
    assert names == tables.TABLES.keys()


def test_outdated_table_is_reported_and_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- table: one -->\nold\n<!-- end of table -->\nafter\n")
    monkeypatch.setattr(tables, "PAGES", [page])
    monkeypatch.setattr(tables, "ROOT", tmp_path)
    monkeypatch.setattr(tables, "TABLES", {"one": lambda: "| new |"})
    monkeypatch.setattr(sys, "argv", ["tables", "--check"])
    with pytest.raises(SystemExit):
        tables.main()
    assert json.loads(capsys.readouterr().out)["outdated"] == ["page.md"]
    monkeypatch.setattr(sys, "argv", ["tables"])
    tables.main()
    assert page.read_text() == "before\n<!-- table: one -->\n| new |\n<!-- end of table -->\nafter\n"


def test_last_line_of_a_seed_counts() -> None:
    lines = [{"seed": 1, "f1": 1}, {"seed": 2, "f1": 2}, {"seed": 1, "f1": 3}]
    assert tables.group(lines, lambda _: "all") == {"all": [lines[2], lines[1]]}


def test_readme_has_at_most_120_lines() -> None:
    assert len((tables.ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_every_measurement_of_speed_has_a_result() -> None:
    assert speed_tables.read_newest().keys() == speed.MEASUREMENTS.keys()


def test_measurements_get_the_models_of_their_methods() -> None:
    *_, first, second, _, _ = speed.MEASUREMENTS["parity"].fill(Path("models"))
    assert [first, second] == ["models/genia-boundary-smoothing-1", "models/genia-boundary-offset-1"]
    assert speed.MEASUREMENTS["startup"].fill(Path("models")) == ["-m", "benchmarks.startup", "--runs", "5"]


def test_a_failed_measurement_is_not_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "FILE", tmp_path / "speed.jsonl")
    monkeypatch.setattr(speed, "MEASUREMENTS", {"one": speed.Measurement("benchmarks.no_such_script")})
    assert not speed.measure("one", tmp_path)
    assert not speed.FILE.exists()


def test_a_table_names_the_commands_that_made_it_once() -> None:
    lines = [
        {"command": f"benchmarks.{name}", "commit": "0123456789", "date": date}
        for name, date in (("one", "2026-01-02"), ("two", "2026-01-03"), ("one", "2026-01-01"))
    ]
    assert speed_tables.describe_source(*lines) == (
        "Measured by `python -m benchmarks.one` and `python -m benchmarks.two`, commit `0123456`, 2026-01-03."
    )
