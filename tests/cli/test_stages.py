"""`analyze method` with a model of locate-and-label and `evaluate --by-length`, as a user runs them."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice

import pytest
from typer.testing import CliRunner

from fencepost.cli import app
from fencepost.config import Config
from fencepost.data import read, write
from fencepost.data.entity import Entity
from fencepost.methods.model import Model
from fencepost.runtime.pytorch import load_model, save_model
from tests.methods.locate_and_label.test_report import is_labelled
from tests.methods.running import predict, scores_of

TRAINED = [1, 2, 3, 5]
STAGES = ["seeds", "after the filter", "after the regressor", "labelled", "selected"]
NEAR = 0.6


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Training data, and test data with an unknown type and a span with two types."""
    folder = tmp_path_factory.mktemp("data")
    write(islice(read("sample:train"), 60), folder / "train.jsonl")
    first, second, *others = islice(read("sample:train"), 40)
    strange = first.with_entities([*first.entities, Entity(0, 1, "never seen")])
    entity = second.entities[0]
    other = "place" if entity.type != "place" else "time"
    double = second.with_entities([*second.entities, Entity(entity.start, entity.end, other)])
    write([strange, double, *others], folder / "test.jsonl")
    return folder


@pytest.fixture(scope="module")
def model(data):
    arguments = ["train", "--method", "locate-and-label", "--train", data / "train.jsonl", "--epochs", "16"]
    arguments += ["--encoder", "scratch", "--out", data / "model"]
    changes = {
        "encoder.lstm.size": 64,
        "encoder.lstm.dropout": 0,
        "encoder.scratch.word_dropout": 0,
        "encoder.scratch.characters": "none",
        "training.learning_rate": 0.01,
        "training.batch_size": 8,
        "method.lengths": TRAINED,
        "method.near": NEAR,
        "method.size": 32,
        "method.dropout": 0,
        "method.negatives": 5,
        "method.regressor_weight": 0.3,
        "predict.lengths": "all",
        "predict.filter": 0.3,
        "predict.confidence": "class",
        "predict.threshold": 0.3,
    }
    for name, value in changes.items():
        arguments += ["--set", f"{name}={value}"]
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "locate-and-label on scratch: 16 epochs over 60 sentences" in result.stderr
    return data / "model"


def evaluated(*arguments):
    result = CliRunner().invoke(app, ["evaluate", *map(str, arguments), "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def reported(out, *arguments):
    """Return the tables of the only report."""
    arguments = ["analyze", "method", *arguments, "--report", "stages", "--out", out]
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    [tables] = json.loads((out / "stages.json").read_text())["models"].values()
    return tables


@pytest.fixture(scope="module")
def content(model, data):
    """Scores and report of the model."""
    scores = evaluated(model, data / "test.jsonl", "--by-length")
    return {**scores, "stages": reported(data / "analysis", model, data / "test.jsonl")}


@pytest.fixture(scope="module")
def sentences(data):
    return list(read(data / "test.jsonl"))


@pytest.fixture(scope="module")
def recogniser(model):
    return load_model(model)


def iou(one, other):
    ours, theirs = set(range(*one)), set(range(*other))
    return len(ours & theirs) / len(ours | theirs)


@pytest.fixture(scope="module")
def gold(sentences, recogniser):
    """Spans of the entities with known types, by sentence."""
    return [
        {(entity.start, entity.end) for entity in sentence.entities if entity.type in recogniser.types}
        for sentence in sentences
    ]


def recounted(spans, gold):
    """Return the row of a stage, counted from the spans of each sentence."""
    entities = [(candidates, entity) for candidates, of in zip(spans, gold, strict=True) for entity in of]
    return {
        "spans": sum(map(len, spans)),
        "per entity": sum(map(len, spans)) / len(entities),
        "recall": sum(entity in candidates for candidates, entity in entities) / len(entities),
        "recall, near": sum(
            any(iou(entity, span) > NEAR for span in candidates) for candidates, entity in entities
        )
        / len(entities),
    }


def test_report_has_the_stages_of_the_method(content):
    assert list(content["stages"]) == ["spans", "offsets in words"]
    assert list(content["stages"]["spans"]) == STAGES
    assert content["f1"] > 0.5


def test_seeds_are_all_spans_of_the_lengths(content, sentences, gold):
    spans = [
        {(start, start + long) for long in range(1, 6) for start in range(len(sentence) - long + 1)}
        for sentence in sentences
    ]
    assert content["stages"]["spans"]["seeds"] == pytest.approx(recounted(spans, gold))


def test_selected_spans_are_the_predicted_ones(content, sentences, gold, recogniser):
    spans = [
        {(entity.start, entity.end) for entity in sentence.entities}
        for sentence in predict(recogniser, sentences)
    ]
    row = content["stages"]["spans"]["selected"]
    assert row == pytest.approx(recounted(spans, gold))
    assert row["recall"] >= content["true_positives"] / content["support"]  # types are ignored


@pytest.fixture(scope="module")
def proposals(sentences, recogniser):
    """Seeds, moved spans, and whether each has a type, by sentence, predicted one by one."""
    proposals = []
    for sentence in sentences:
        scores = scores_of(recogniser, sentence)
        columns = (scores.seeds.start, scores.seeds.end, scores.moved.start, scores.moved.end)
        types = is_labelled(scores, recogniser.config.predict)
        proposals.append(list(zip(*(c.tolist() for c in columns), types.tolist(), strict=True)))
    return proposals


def test_middle_stages_equal_counts_of_spans(content, gold, proposals):
    spans = {
        "after the filter": [{row[:2] for row in rows} for rows in proposals],
        "after the regressor": [{row[2:4] for row in rows} for rows in proposals],
        "labelled": [{row[2:4] for row in rows if row[4]} for rows in proposals],
    }
    for name, of_stage in spans.items():
        # in a batch, sums have another order, which may add or remove a span
        expected = recounted(of_stage, gold)
        row = content["stages"]["spans"][name]
        assert row["spans"] == pytest.approx(expected["spans"], abs=2)
        assert row == pytest.approx(expected, rel=0.03)


def test_number_of_spans_decreases_from_stage_to_stage(content):
    counts = [row["spans"] for row in content["stages"]["spans"].values()]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > 3 * counts[1]
    assert counts[-1] > 40


def name_of(move):
    return {0: "0", -4: "-4 or less", 4: "+4 or more"}.get(move, f"{move:+d}")


def test_offsets_equal_counts_of_proposals(content, proposals):
    rows = content["stages"]["offsets in words"]
    assert list(rows) == [name_of(move) for move in range(-4, 5)]
    every = [row for rows in proposals for row in rows]
    for side, at in (("start", 0), ("end", 1)):
        for column, some in ((side, every), (f"{side}, labelled", [row for row in every if row[4]])):
            moves = Counter(max(-4, min(4, row[2 + at] - row[at])) for row in some)
            for move in range(-4, 5):
                assert rows[name_of(move)][column] == pytest.approx(moves[move], abs=2), (column, move)


def test_columns_of_offsets_add_up_to_the_proposals(content):
    rows = content["stages"]["offsets in words"].values()
    sums = {column: sum(row[column] for row in rows) for column in next(iter(rows))}
    filtered = content["stages"]["spans"]["after the filter"]["spans"]  # seeds are distinct
    assert sums["start"] == sums["end"] == filtered
    assert sums["start, labelled"] == sums["end, labelled"] <= filtered
    assert (
        sums["start, labelled"] >= content["stages"]["spans"]["labelled"]["spans"]
    )  # spans that may be equal


def test_trained_lengths_are_marked(content):
    marked = {int(length) for length, row in content["by_length"].items() if row["enumerated"]}
    assert marked == set(TRAINED) & {int(length) for length in content["by_length"]}
    assert {4, 6} <= {int(length) for length in content["by_length"]}  # some lengths are not marked


def test_length_groups_add_up(content):
    groups = content["by_length_group"]
    assert list(groups) == ["1-4", "5-9", "10 or more"]
    for count in ("true_positives", "predicted", "support"):
        assert sum(row[count] for row in groups.values()) == content[count]
    groups = {**groups, "longer": content["longer_than_enumerated"]}
    for name, lengths in {"1-4": range(1, 5), "5-9": range(5, 10), "longer": range(6, 100)}.items():
        rows = [content["by_length"][str(long)] for long in lengths if str(long) in content["by_length"]]
        assert groups[name]["support"] == sum(row["support"] for row in rows)
        assert groups[name]["predicted"] == sum(row["predicted"] for row in rows)
    assert groups["longer"]["support"] > 5


def test_by_length_does_not_change_scores(model, data, content):
    plain = evaluated(model, data / "test.jsonl")
    added = {"by_length_group", "longer_than_enumerated"}
    assert content.keys() - plain.keys() == added | {"stages"}
    changing = {"sentences_per_second", "peak_memory_mb", "by_length"}
    assert {name: plain[name] for name in plain.keys() - changing} == {
        name: content[name] for name in plain.keys() - changing
    }
    bare = {
        length: {name: value for name, value in row.items() if name != "enumerated"}
        for length, row in content["by_length"].items()
    }
    assert bare == plain["by_length"]


def test_stages_follow_the_settings_of_prediction(model, data, content, tmp_path):
    def stages(*changes):
        arguments = [part for change in changes for part in ("--set", f"predict.{change}")]
        return reported(tmp_path, model, data / "test.jsonl", *arguments)["spans"]

    fewer = stages("lengths=trained")
    assert fewer["seeds"]["spans"] < content["stages"]["spans"]["seeds"]["spans"]
    every = stages("filter=0")
    assert every["after the filter"] == every["seeds"] == content["stages"]["spans"]["seeds"]
    none = stages("filter=1")
    assert none["seeds"] == every["seeds"]
    for name in STAGES[1:]:
        assert set(none[name].values()) == {0}
    low = stages("threshold=1")
    assert low["labelled"]["spans"] < content["stages"]["spans"]["labelled"]["spans"]
    assert low["selected"]["spans"] < content["stages"]["spans"]["selected"]["spans"]


def test_prints_tables(run, model, data, content, tmp_path):
    text = run("analyze", "method", model, data / "test.jsonl", "--out", tmp_path).stdout
    assert text.index("model: spans") < text.index("model: offsets in words")
    for row in (*STAGES, "-4 or less", "+4 or more"):
        assert f"\n  {row} " in text
    seeds = content["stages"]["spans"]["seeds"]
    [line] = [line for line in text.splitlines() if line.startswith("  seeds ")]
    assert line.split()[1:] == [f"{seeds['spans']:,}", *(f"{seeds[name]:.3f}" for name in list(seeds)[1:])]
    text = run("evaluate", model, data / "test.jsonl", "--by-length").stdout
    assert text.index("Strict scores") < text.index("By number of words")
    for row in ("5-9", "10 or more", "over 5"):
        assert f"\n  {row} " in text
    lengths = text[text.index("By number of words") :].splitlines()
    marked = [int(line.split()[0]) for line in lengths if line.split()[1:2] == ["*"]]
    assert marked == TRAINED
    plain = run("evaluate", model, data / "test.jsonl").stdout
    assert "training enumerates" not in plain
    assert "10 or more" not in plain


def test_stages_without_entities_have_recall_0(run, model, sentences, tmp_path):
    write([sentence.with_entities([]) for sentence in sentences[:5]], tmp_path / "bare.jsonl")
    stages = reported(tmp_path, model, tmp_path / "bare.jsonl")
    assert stages["spans"]["seeds"]["recall"] == 0
    assert stages["spans"]["seeds"]["spans"] > 100
    bare = evaluated(model, tmp_path / "bare.jsonl", "--by-length")
    assert bare["support"] == sum(row["support"] for row in bare["by_length_group"].values()) == 0
    run("evaluate", model, tmp_path / "bare.jsonl", "--by-length")


@pytest.mark.parametrize(
    ("method", "report", "message"),
    [
        ("boundary-smoothing", "stages", "the method boundary-smoothing has no reports"),
        ("boundary-offset", "stages", "the method boundary-offset has no such report; it has offsets"),
        ("locate-and-label", "offsets", "the method locate-and-label has no such report; it has stages"),
    ],
)
def test_refuses_reports_of_other_methods(run, data, tmp_path, method, report, message):
    changes = ["encoder.name=scratch", "encoder.lstm.size=8", "method.size=4", f"method.name={method}"]
    config = Config.compose(changes=changes)
    save_model(Model.build(config, list(read(data / "train.jsonl"))), tmp_path / "other")
    result = run("analyze", "method", tmp_path / "other", data / "test.jsonl", "--report", report, code=2)
    assert message in result.stderr


def test_method_without_seed_lengths_marks_none(run, data, tmp_path):
    changes = ["encoder.name=scratch", "encoder.lstm.size=8", "method.size=4"]
    save_model(
        Model.build(Config.compose(changes=changes), list(read(data / "train.jsonl"))), tmp_path / "other"
    )
    content = evaluated(tmp_path / "other", data / "test.jsonl", "--by-length")
    assert list(content["by_length_group"]) == ["1-4", "5-9", "10 or more"]
    assert not any("enumerated" in row for row in content["by_length"].values())
    text = run("evaluate", tmp_path / "other", data / "test.jsonl", "--by-length").stdout
    assert "5-9" in text
    assert "training enumerates" not in text


def test_by_length_works_for_files(run, data):
    files = ["--gold", data / "test.jsonl", "--predicted", data / "test.jsonl"]
    content = evaluated(*files, "--by-length")
    assert list(content["by_length_group"]) == ["1-4", "5-9", "10 or more"]
    assert sum(row["support"] for row in content["by_length_group"].values()) == content["support"]
    assert all(row["f1"] == 1 for row in content["by_length_group"].values() if row["support"])
    assert not any("enumerated" in row for row in content["by_length"].values())
    text = run("evaluate", *files, "--by-length").stdout
    assert "\n  10 or more " in text
    assert "training enumerates" not in text
