"""The tables of the papers: their declaration, the scores of a run, and the page of the results."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.claims import claims
from benchmarks.claims import runs as claim_runs
from benchmarks.claims.runs import SETTINGS, FinishedRun
from benchmarks.papers import __main__ as papers
from benchmarks.papers import page, results
from benchmarks.papers.tables import TABLES, list_variants
from fencepost import Entity, Sentence
from fencepost.config import Config
from fencepost.experiments.sweep import Data

TINY = (
    *("training.epochs=1", "encoder.name=scratch", "encoder.scratch.word_size=8"),
    *("encoder.scratch.character_output=8", "encoder.lstm.size=8", "method.size=8"),
)
SMOOTHING = TABLES["smoothing-table-4"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of results, without any at first."""
    monkeypatch.setattr(results, "FILE", tmp_path / "papers.jsonl")
    monkeypatch.setattr(papers, "FILE", tmp_path / "papers.jsonl")
    monkeypatch.setattr(results, "CLAIMS", tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", TABLES)
def test_settings_of_each_row_are_valid(name: str) -> None:
    for row in TABLES[name].rows:
        predict = [f"predict.{row.scores}"] if "=" in row.scores else []
        changes = [f"method.name={row.variant.method}", *row.variant.settings, *predict]
        Config.compose(changes=changes)


@pytest.mark.parametrize("name", TABLES)
def test_rows_have_a_figure_for_each_column(name: str) -> None:
    table = TABLES[name]
    assert all(len(row.figures) == len(table.columns) for row in table.rows)
    assert len({row.title for row in table.rows}) == len(table.rows)
    assert not {type(figure) for row in table.rows for figure in row.figures} - {
        float,
        int,
        str,
        type(None),
    }


def test_f1_of_the_papers_follows_from_precision_and_recall() -> None:
    """A copied figure with a wrong digit would differ."""
    for name in ("offset-table-5", "locate-table-2"):
        for row in TABLES[name].rows:
            precision, recall, f1, _ = row.figures
            assert f1 == pytest.approx(2 * precision * recall / (precision + recall), abs=0.02), row.title


def test_runs_of_the_claims_are_shared() -> None:
    variants = list_variants(TABLES.values()).keys()
    assert {variant for claim in claims.CLAIMS for variant in claim.variants} <= variants


def test_page_is_up_to_date() -> None:
    assert papers.PAGE.read_text(encoding="utf-8") == page.make_page(), (
        "run python -m benchmarks.papers --page"
    )


def write_lines(folder: Path, *lines: tuple[Any, int, float]) -> None:
    with (folder / "papers.jsonl").open("w") as stream:
        for variant, seed, f1 in lines:
            scores = {"all": {"precision": f1, "recall": f1, "f1": f1, "support": 9}}
            line = {
                "method": variant.method,
                "settings": variant.settings,
                "share": variant.share,
                "commit": "0123456789",
            }
            stream.write(json.dumps({**line, "seed": seed, "scores": scores}) + "\n")


def test_rows_are_compared_by_seed(folder: Path) -> None:
    write_lines(
        folder,
        *((claims.PLAIN, seed, f1) for seed, f1 in ((1, 0.60), (2, 0.70), (3, 0.65), (4, 0.1))),
        *((claims.SMOOTH, seed, f1) for seed, f1 in ((1, 0.62), (2, 0.721), (3, 0.67))),
        (claims.STRONG, 1, 0.5),
    )
    assert results.list_commits() == "`0123456`"
    known = results.read_results()
    first, second, _, fourth, *_ = SMOOTHING.rows
    assert page.format_ours(SMOOTHING, first, known) == ["51.2 ± 27.8", "", "4"]
    assert page.format_ours(SMOOTHING, second, known) == ["67.0 ± 5.1", "+2.0 (+1.9 to +2.2)", "3"]
    assert page.format_ours(SMOOTHING, fourth, known) == ["50.0", "-10.0", "1"]
    assert page.format_ours(SMOOTHING, SMOOTHING.rows[-1], known) == ["not run", "", ""]
    text = page.conclude("smoothing-table-4", SMOOTHING, known)
    assert text.startswith(
        "F1 against the first row is higher (boundary smoothing, ε = 0.1, D = 1); not measured"
    )


def test_shares_of_the_data_are_compared_with_the_row_before() -> None:
    table = TABLES["offset-figure-6"]
    assert [table.rows.index(table.find_first(row)) for row in table.rows] == [0, 0, 2, 2, 4, 4, 6, 6]


def test_only_claims_with_all_settings_are_used(folder: Path) -> None:
    """An older result does not have the settings of all its runs."""
    variants = [[v.method, *v.settings, f"share={v.share:g}"] for v in (claims.PLAIN, claims.SMOOTH)]
    content = {
        "variants": variants,
        "seeds": [1, 2],
        "evidence": {"f1_without": [0.5, 0.6], "f1_with": [0.7, 0.8]},
    }
    path = folder / "smoothing-raises-f1.json"
    path.write_text(json.dumps(content))
    assert results.read_results() == {}
    assert results.count_old_claims() == 1
    path.write_text(json.dumps({**content, "commits": ["abc"]}))
    known = results.read_results()
    assert known[claims.PLAIN] == {1: {"all": {"f1": 0.5}}, 2: {"all": {"f1": 0.6}}}
    assert known[claims.SMOOTH][2] == {"all": {"f1": 0.8}}
    assert papers.find_missing(["smoothing-table-4"], 3)[claims.PLAIN] == [3]


def test_scores_of_lengths_are_those_of_their_counts() -> None:
    rows = {str(length): {"true_positives": 1, "predicted": 2, "support": 4} for length in (1, 5, 9, 12)}
    run = FinishedRun(1, Path())
    run.__dict__["metrics"] = {"test": {"by_length": rows}}
    scores = results.compute_scores(run, ["all length 5-9", "all length 10+", "all length 2"])
    assert [scores[f"all length {name}"]["support"] for name in ("5-9", "10+", "2")] == [8, 4, 0]
    assert scores["all length 5-9"]["precision"] == 0.5


@pytest.mark.parametrize(
    "variant", [claims.REGRESSOR, claims.WITH_OFFSETS, claims.DENOISING], ids=lambda one: one.method
)
def test_a_run_is_trained_scored_and_not_repeated(
    variant: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentence = Sentence(
        ["the", "cat", "saw", "Ada", "Lovelace"], [Entity(3, 5, "person"), Entity(3, 4, "name")]
    )
    data = Data([sentence] * 6, [sentence], [sentence] * 2)
    monkeypatch.setattr(claim_runs, "data", lambda: data)
    monkeypatch.setattr(claim_runs, "code_version", lambda: "abc")
    monkeypatch.setitem(SETTINGS, variant.method, list(TINY))
    tables = [name for name, table in TABLES.items() if {row.variant for row in table.rows} == {variant}]
    monkeypatch.setattr(papers, "corpora", lambda: folder)
    command = ["papers", "--only", *tables, "--seeds", "1", "--runs", str(folder / "runs")]
    monkeypatch.setattr(sys, "argv", command)
    assert papers.find_missing(tables, 1) == {variant: [1]}
    papers.main()
    (line,) = [json.loads(line) for line in (folder / "papers.jsonl").read_text().splitlines()]
    assert (line["commit"], line["seed"], line["share"]) == ("abc", 1, 0.5)
    assert line["settings"] == variant.settings
    assert line["scores"].keys() == list_variants(TABLES.values())[variant]
    assert line["scores"]["all"]["support"] == 4
    assert papers.find_missing(tables, 1) == {}
    papers.main()
    assert len((folder / "papers.jsonl").read_text().splitlines()) == 1
