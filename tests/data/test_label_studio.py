"""The JSON of Label Studio: the gold data of a task, and files that a project can import."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fencepost import __version__
from fencepost.data import read, write
from fencepost.data.entity import Entity, Sentence

TEXT = "Ada was born in London."


def label(start: Any, end: Any, *types: str, text: str | None = None, **more: Any) -> dict[str, Any]:
    value = {"start": start, "end": end, "labels": list(types), "text": text}
    names = {"from_name": "label", "to_name": "text", "type": "labels"}
    return {"id": "x", **names, "value": {k: v for k, v in value.items() if v is not None}, **more}


def annotation(*results: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": 1, "completed_by": 1, "was_cancelled": False, "result": list(results), **more}


def task(*annotations: dict[str, Any], text: str = TEXT, **more: Any) -> dict[str, Any]:
    return {"id": 7, "data": {"text": text}, "annotations": list(annotations), "predictions": [], **more}


def spans(sentence: Sentence) -> list[tuple[str, str]]:
    return [(" ".join(sentence.words[e.start : e.end]), e.type) for e in sentence.entities]


def test_labels_of_the_annotation_are_entities(skipping):
    content = json.dumps([task(annotation(label(0, 3, "PER", text="Ada"), label(16, 22, "LOC", "GPE")))])
    reader, [sentence], rejected = skipping(content)
    assert reader.format.name == "label-studio"
    assert spans(sentence) == [("Ada", "PER"), ("London", "GPE"), ("London", "LOC")]
    assert (sentence.text, sentence.id, rejected, reader.notes) == (TEXT, "7-1", [], [])


def test_reads_the_ground_truth_of_several_annotations(skipping):
    cancelled, first = annotation(label(0, 3, "A"), was_cancelled=True), annotation(label(0, 3, "B"))
    truth = annotation(label(0, 3, "C"), ground_truth=True)
    for several, type_, further in (([cancelled, first], "B", 0), ([cancelled, first, truth], "C", 1)):
        reader, [sentence], _ = skipping(json.dumps([task(*several)]))
        assert spans(sentence) == [("Ada", type_)]
        counts = {note.kind: note.count for note in reader.notes}
        assert counts.pop("cancelled annotation of a task, skipped") == 1
        assert counts == ({"further annotation of a task, skipped": further} if further else {})


def test_unfinished_tasks_are_not_gold_data(skipping):
    prediction = {"model_version": "m", "score": 0.5, "result": [label(0, 3, "PER", score=0.25)]}
    tasks = [task(), task(annotation(was_cancelled=True)), task(predictions=[prediction])]
    content = json.dumps([*tasks, task(annotation())])
    reader, [annotated], _ = skipping(content)
    assert annotated.entities == ()
    assert {note.kind: note.count for note in reader.notes} == {
        "task without a finished annotation skipped; use --keep-rejected to read it, with its predictions": 3,
        "cancelled annotation of a task, skipped": 1,
    }
    _, sentences, _ = skipping(content, keep_rejected=True)
    assert [sentence.entities for sentence in sentences] == [(), (), (Entity(0, 1, "PER", 0.25),), ()]


def test_counts_results_that_are_not_labels_of_text(skipping):
    relation = {"type": "relation", "from_id": "a", "to_id": "b", "direction": "right"}
    choice = {"type": "choices", "value": {"choices": ["news"]}, "id": "c"}
    reader, [sentence], _ = skipping(json.dumps([task(annotation(relation, label(0, 3, "PER"), choice))]))
    assert spans(sentence) == [("Ada", "PER")]
    assert {note.kind: note.count for note in reader.notes} == {
        "result that is not a label of text, skipped": 2
    }


def test_offsets_may_be_utf16_units(skipping):
    text = "😀 Ada 😀 in London"
    by_character, by_unit = label(2, 5, "PER", text="Ada"), label(13, 19, "LOC", text="London")
    _, [sentence], _ = skipping(json.dumps([task(annotation(by_character, by_unit), text=text)]))
    assert spans(sentence) == [("Ada", "PER"), ("London", "LOC")]


def test_keeps_other_data_of_a_task(skipping):
    record = task(annotation(label(0, 3, "PER")), data={"body": TEXT, "doc": "d", "page": 3})
    del record["id"]
    _, _, [rejected] = skipping(json.dumps([record]))
    assert (
        "'data' must have a string 'text', or only one string; its strings are ['body', 'doc']"
        in rejected.reason
    )
    record["data"]["doc"] = 12
    _, [sentence], _ = skipping(json.dumps([record]))
    assert (sentence.text, sentence.doc, dict(sentence.meta)) == (TEXT, "12", {"page": 3})


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        (task(annotation(label(0, 3, "PER", text="Bob"))), "spans[0] has the text 'Bob', but its characters"),
        (task(annotation(label(0, 99, "PER"))), "outside the text"),
        (task(annotation(label("/p[1]", 3, "PER"))), "spans[0].start is '/p[1]', not an integer"),
        (task(annotation(label(0, 3))), "spans[0].labels is empty"),
        (task(annotation({"type": "labels"})), "'value' of a result is missing, or not an object"),
        (task(annotation({"type": "hypertextlabels"})), "labels of HTML are not supported"),
        (task(annotation(result=3)), "'result' is not a list of objects"),
        (task(annotations={"a": 1}), "'annotations' is not a list of objects"),
    ],
)
def test_broken_task_rejects_only_itself(skipping, broken, problem):
    content = json.dumps([broken, task(annotation(label(0, 3, "PER")))])
    _, [sentence], [rejected] = skipping(content)
    assert problem in rejected.reason
    assert spans(sentence) == [("Ada", "PER")]


def test_writes_certain_entities_as_annotations_and_others_as_predictions(tmp_path):
    gold = Sentence(["Ada", "in", "London"], [Entity(0, 1, "PER"), Entity(2, 3, "LOC")], id="1")
    other = gold.with_entities([Entity(0, 1, "PER", 0.5), Entity(2, 3, "LOC", 1.0)])
    write([gold, other], tmp_path / "out.json", "label-studio")
    [certain, predicted] = json.loads((tmp_path / "out.json").read_text())
    assert "predictions" not in certain
    value = {"start": 7, "end": 13, "text": "London", "labels": ["LOC"]}
    assert certain["annotations"][0]["result"][1] == {
        "id": "2",
        "from_name": "label",
        "to_name": "text",
        "type": "labels",
        "value": value,
    }
    [prediction] = predicted["predictions"]
    assert "annotations" not in predicted
    assert (prediction["model_version"], prediction["score"]) == (f"fencepost {__version__}", 0.75)
    assert prediction["result"][0]["score"] == 0.5
    assert list(read(tmp_path / "out.json")) == [gold]
