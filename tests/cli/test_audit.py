"""`fencepost audit`, as a user runs it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from fencepost.analysis.audit import folds
from fencepost.cli import app
from fencepost.data import read, write
from fencepost.data.entity import Sentence
from tests.cli.conftest import Run

SMALL = [
    "--folds=2",
    "--encoder=scratch",
    "--epochs=3",
    "--batch-size=4",
    "--set=encoder.lstm.size=32",
    "--set=method.size=16",
    "--set=training.learning_rate=0.02",
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "train.jsonl"
    write([Sentence([]), *list(read("sample:train"))[:39]], path)
    return path


@pytest.fixture(scope="module")
def audited(corpus: Path) -> tuple[Path, Result]:
    """Folder of an audit, and the output of the command."""
    out = corpus.parent / "audit"
    review = ["--write", str(out.with_suffix(".json")), "--to", "label-studio"]
    result = CliRunner().invoke(
        app,
        ["audit", str(corpus), "--out", str(out), *SMALL, *review, "--json", str(corpus.parent / "a.json")],
    )
    assert result.exit_code == 0, result.output
    return out, result


def suggestions(out: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (out / "suggestions.jsonl").read_text().splitlines()]


def test_audit_writes_files_tables_and_json(audited: tuple[Path, Result], corpus: Path) -> None:
    out, printed = audited
    result = json.loads((corpus.parent / "a.json").read_text())
    ranked = suggestions(out)
    assert result["suggestions"] == len(ranked) == sum(result["kinds"].values()) > 0
    assert [one["rank"] for one in ranked] == list(range(1, len(ranked) + 1))
    assert {one["accept"] for one in ranked} == {None}
    sentences = list(read(corpus))
    assert all(one["words"] == list(sentences[one["sentence"] - 1].words) for one in ranked)  # type: ignore[operator]
    assert "Annotations that are probably wrong" in printed.stdout
    assert "Annotations that contradict each other" in printed.stdout
    assert "fold 2 of 2: " in printed.stderr
    assert set(result["files"]) == {"suggestions", "consistency", "page", "review"}
    assert all(Path(path).is_file() for path in result["files"].values())
    tasks = json.loads(Path(result["files"]["review"]).read_text())
    assert len(tasks) == len({one["sentence"] for one in ranked})
    assert all("predictions" in task for task in tasks)
    assert not list(out.rglob("*.safetensors"))


def test_same_command_resumes_an_audit(
    audited: tuple[Path, Result], corpus: Path, run: Run, tmp_path: Path
) -> None:
    """A complete fold is not trained again; the others give the same result."""
    out = shutil.copytree(audited[0], tmp_path / "audit")
    shutil.rmtree(out / "fold-2")
    (out / "suggestions.jsonl").unlink()
    result = run("audit", corpus, "--out", out, *SMALL)
    assert "2 folds of 40 sentences; 1 already finished" in result.stderr
    assert "fold 1 of 2" not in result.stderr
    assert suggestions(out) == suggestions(audited[0])
    other = run("audit", corpus, "--out", out, *SMALL, "--seed", 5, code=2)
    assert "contains an audit with other data, settings or folds" in other.stderr


def test_names_failed_folds(corpus: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no luck")

    monkeypatch.setattr(folds, "train", fail)
    result = run("audit", corpus, "--out", tmp_path / "audit", *SMALL, code=1)
    assert "2 of 2 folds failed" in result.stderr
    assert "fold 1: RuntimeError: no luck" in result.stderr
    assert "no luck" in (tmp_path / "audit" / "fold-1.error.txt").read_text()


def test_accepted_suggestions_are_applied(
    audited: tuple[Path, Result], corpus: Path, run: Run, tmp_path: Path
) -> None:
    first, *others = sorted(suggestions(audited[0]), key=lambda one: one["gold"] is None)  # with gold first
    accepted = tmp_path / "accepted.jsonl"
    lines = [{**first, "accept": True}, *others]
    accepted.write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = run("audit", corpus, "--fix", accepted, "--write", tmp_path / "fixed.jsonl", "--json")
    assert json.loads(result.stdout)["applied"] == 1
    before, after = (
        {(n, e.key) for n, s in enumerate(read(path)) for e in s.entities}
        for path in (corpus, tmp_path / "fixed.jsonl")
    )
    number = first["sentence"] - 1  # type: ignore[operator]
    removed, added = (
        {(number, (one["start"], one["end"], one["type"]))} if one is not None else set()  # type: ignore[index]
        for one in (first["gold"], first["suggested"])
    )
    assert (before - after, after - before) == (removed, added)
    again = run("audit", tmp_path / "fixed.jsonl", "--fix", accepted, "--write", tmp_path / "x.jsonl", code=2)
    assert f"{accepted}:1" in again.stderr


def test_message_about_nesting_names_options_of_audit(
    audited: tuple[Path, Result], corpus: Path, run: Run, tmp_path: Path
) -> None:
    first, *_ = suggestions(audited[0])
    accepted = tmp_path / "accepted.jsonl"
    accepted.write_text(json.dumps({**first, "accept": True}) + "\n")
    command = ("audit", corpus, "--fix", accepted, "--write", tmp_path / "fixed.conll")
    refusal = run(*command, code=1).stderr
    assert "conll cannot represent this corpus" in refusal
    assert set(re.findall(r"--[a-z-]+", refusal)) <= set(
        re.findall(r"--[a-z-]+", run("audit", "--help").stdout)
    )
    printed = run(*command, "--overlaps", "outermost", "--skip-invalid").stderr  # one sentence is empty
    assert "overlapping entities were dropped" in printed
    assert "1 sentence skipped: conll cannot represent them" in printed


def test_consistency_only_reports_inconsistencies_without_folds(run: Run) -> None:
    result = json.loads(run("audit", "sample:train", "--consistency-only", "--json").stdout)
    assert result["consistency"]["type"] == {"cases": 24, "suspects": 72}
    assert len(result["inconsistencies"]) == sum(one["cases"] for one in result["consistency"].values())
    assert "ford: person 6, organization 5" in run("audit", "sample:train", "--consistency-only").stdout


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "give the folder for the results with --out"),
        (["--fix", "a.jsonl"], "--fix needs --write, the file for the corrected corpus"),
        (
            ["--fix", "a.jsonl", "--write", "b.jsonl", "--out", "c"],
            "--fix applies suggestions and trains no models",
        ),
        (["--fix", "absent.jsonl", "--write", "b.jsonl"], "absent.jsonl: cannot be read"),
        (["--consistency-only", "--out", "c"], "--consistency-only writes only --json"),
        (["--out", "c", "--to", "label-studio"], "--to needs --write"),
        (["--out", "c", "--overlaps", "best"], "--overlaps needs --write"),
        (["--out", "c", "--write", "b", "--to", "labelstudio"], "label-studio"),
        (["--out", "c", "--write", "b.unknown"], "the file name shows no known format"),
        (["--out", "c", "--write", "-"], "--write - would mix the corpus with other output"),
        (["--out", "c", "--folds", "1000"], "each fold needs at least one; use fewer folds"),
    ],
)
def test_refuses_wrong_usage(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments, reason
) -> None:
    monkeypatch.chdir(tmp_path)
    assert reason in " ".join(run("audit", "sample:dev", *arguments, code=2).stderr.split())
    assert list(tmp_path.iterdir()) == []


def test_refuses_a_folder_with_other_content(run: Run, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    result = run("audit", "sample:dev", "--out", tmp_path, code=2)
    assert "already exists and is not an audit" in result.stderr


@pytest.mark.slow
def test_workers_give_the_same_suggestions(
    audited: tuple[Path, Result], corpus: Path, run: Run, tmp_path: Path
) -> None:
    run("audit", corpus, "--out", tmp_path / "audit", *SMALL, "--workers", 2)
    assert [one["id"] for one in suggestions(tmp_path / "audit")] == [
        one["id"] for one in suggestions(audited[0])
    ]
