"""Label Studio's JSON: an array of tasks, each with data, annotations of people and predictions of models.

Of the annotations of a task, the one marked as ground truth is read, or else the first that was not
cancelled; others are counted. A task without any is not gold data: it is skipped and counted, unless the
options keep it with its first prediction. Only labels of text are entities; choices, relations and other
results are counted. Sentences are written as annotations, or as predictions if an entity has a score below 1.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from fencepost.data.entity import Sentence
from fencepost.data.formats import json_text
from fencepost.data.formats.format import Format, ReadOptions
from fencepost.data.formats.json_fields import is_same_text, remove_none
from fencepost.data.formats.json_records import Record, json_writer, read_objects
from fencepost.data.source import Reading, Source
from fencepost.data.text.units import count_units
from fencepost.errors import quote

_LABELS = "labels"
_SKIPPED = "task without a finished annotation skipped; use --keep-rejected to read it, with its predictions"
_NO_LABEL = "result that is not a label of text, skipped"


def fits(record: dict[str, Any]) -> bool:
    return isinstance(record.get("data"), dict)


def read(source: Source, options: ReadOptions) -> Iterator[Reading]:
    return json_text.convert(_flatten(source, options), source, options)


def _flatten(source: Source, options: ReadOptions) -> Iterator[Record]:
    """Yield each task as an object with text and spans."""
    for record in read_objects(source):
        if record.problem:
            yield record
            continue
        try:
            task = record.value
            results = _choose_annotation(task, record.line, source)
            if results is None and not options.keep_rejected:
                source.note(_SKIPPED, record.line)
                continue
            results = _get_prediction(task) if results is None else results
            key, text = _find_text(task)
            labels = [one for one in results if _is_labels(one)]
            source.note(_NO_LABEL, record.line, times=len(results) - len(labels))
            units = count_units(text)
            spans = [_parse_result(one, text, units) for one in labels]
            others = {name: value for name, value in task["data"].items() if name != key}
            value = {"id": task.get("id"), **others, "text": text, "spans": spans}
            yield replace(record, value=remove_none(value))
        except ValueError as error:
            yield replace(record, value={}, problem=str(error))


def _choose_annotation(task: dict[str, Any], line: int, source: Source) -> list[Any] | None:
    """Return the results of the annotation that is read; None if there is none."""
    annotations = _get_objects(task, "annotations")
    finished = [one for one in annotations if not one.get("was_cancelled")]
    source.note("cancelled annotation of a task, skipped", line, times=len(annotations) - len(finished))
    source.note("further annotation of a task, skipped", line, times=max(0, len(finished) - 1))
    if not finished:
        return None
    return _get_objects(next((one for one in finished if one.get("ground_truth")), finished[0]), "result")


def _get_prediction(task: dict[str, Any]) -> list[Any]:
    """Return the results of the first prediction; an empty list if there is none."""
    predictions = _get_objects(task, "predictions")
    return _get_objects(predictions[0], "result") if predictions else []


def _get_objects(holder: dict[str, Any], key: str) -> list[dict[str, Any]]:
    values = holder.get(key) or []
    if not isinstance(values, list) or not all(isinstance(one, dict) for one in values):
        raise ValueError(f"{key!r} is not a list of objects")
    return values


def _find_text(task: dict[str, Any]) -> tuple[str, str]:
    """Return the key and value of the text of a task, which is `text` or the only string."""
    data = task.get("data")
    items = data.items() if isinstance(data, dict) else ()
    texts = {key: value for key, value in items if isinstance(value, str)}
    key = "text" if "text" in texts else next(iter(texts), None)
    if key is None or (key != "text" and len(texts) > 1):
        raise ValueError(
            f"'data' must have a string 'text', or only one string; its strings are {quote(list(texts))}"
        )
    return key, texts[key]


def _is_labels(result: dict[str, Any]) -> bool:
    if result.get("type") == "hypertextlabels":
        raise ValueError("labels of HTML are not supported; only labels of plain text can be read")
    return result.get("type") == _LABELS


def _parse_result(result: dict[str, Any], text: str, units: Sequence[int] | None) -> dict[str, Any]:
    """Return the span of a result, in characters; the offsets of some versions count UTF-16 units."""
    value = result.get("value")
    if not isinstance(value, dict):
        raise ValueError("'value' of a result is missing, or not an object")
    start, end, phrase = (value.get(name) for name in ("start", "end", "text"))
    if units and isinstance(phrase, str) and type(start) is type(end) is int:
        first, last = bisect_left(units, start), bisect_left(units, end)
        if not is_same_text(phrase, text[start:end]) and is_same_text(phrase, text[first:last]):
            start, end = first, last
    labels, score = value.get(_LABELS), result.get("score")
    return remove_none({"start": start, "end": end, _LABELS: labels, "text": phrase, "score": score})


def _make_task(sentence: Sentence) -> dict[str, Any]:
    from fencepost import __version__

    data = json_text.to_record(sentence)
    results = [
        {
            "id": f"{number}",
            "from_name": "label",
            "to_name": "text",
            "type": _LABELS,
            "value": {
                "start": span["start"],
                "end": span["end"],
                "text": data["text"][span["start"] : span["end"]],
                _LABELS: [span["label"]],
            },
            **({"score": span["score"]} if "score" in span else {}),
        }
        for number, span in enumerate(data.pop("spans"), start=1)
    ]
    if all(entity.score == 1 for entity in sentence.entities):
        return {"data": data, "annotations": [{"result": results}]}
    score = fmean(entity.score for entity in sentence.entities)
    prediction = {"model_version": f"fencepost {__version__}", "score": score, "result": results}
    return {"data": data, "predictions": [prediction]}


LABEL_STUDIO = Format(
    name="label-studio",
    summary="Label Studio's JSON export, which a project can also import, with scores of predictions",
    read=read,
    write=json_writer(_make_task, array=True),
    find_obstacle=json_text.find_obstacle,
    overlaps="any",
    keeps=frozenset({"id", "doc", "space_after", "score", "meta"}),
)
