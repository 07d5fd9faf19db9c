"""Label Studio's JSON: an array of tasks, each with data, annotations of people and predictions of models.

Of a task, the annotation marked as ground truth is read, or else the first that was not cancelled; further
ones are counted. A task without one is no gold data: it is skipped and counted, unless the options keep it,
with what its first prediction has.
Only labels of text are entities; choices, relations and other results are counted. What is written has
annotations, or predictions with their scores if an entity is not certain, so that a project can import it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from fencepost.data.entity import Sentence
from fencepost.data.formats import json_text
from fencepost.data.formats.format import Format, ReadOptions, WriteOptions
from fencepost.data.formats.json_fields import same_text
from fencepost.data.formats.json_records import Record, encode_records, records
from fencepost.data.output import text_writer
from fencepost.data.source import Reading, Source
from fencepost.data.text.units import count_units
from fencepost.errors import quote

_LABELS = "labels"
_SKIPPED = "task without a finished annotation skipped; --keep-rejected reads it, with its predictions"
_NO_LABEL = "result that is no label of text, not read"


def fits(record: dict[str, Any]) -> bool:
    return isinstance(record.get("data"), dict)


def read(source: Source, options: ReadOptions) -> Iterator[Reading]:
    return json_text.convert(_flatten(source, options), source, options)


def _flatten(source: Source, options: ReadOptions) -> Iterator[Record]:
    """Yield each task as an object with text and spans."""
    for record in records(source):
        if record.problem:
            yield record
            continue
        try:
            task = record.value
            results = _annotated(task, record.line, source)
            if results is None and not options.keep_rejected:
                source.note(_SKIPPED, record.line)
                continue
            results = _predicted(task) if results is None else results
            key, text = _text_of(task)
            labels = [one for one in results if _is_labels(one)]
            source.note(_NO_LABEL, record.line, times=len(results) - len(labels))
            units = count_units(text)
            spans = [_span(one, text, units) for one in labels]
            others = {name: value for name, value in task["data"].items() if name != key}
            value = {"id": task.get("id"), **others, "text": text, "spans": spans}
            yield replace(record, value={name: one for name, one in value.items() if one is not None})
        except ValueError as error:
            yield replace(record, value={}, problem=str(error))


def _annotated(task: dict[str, Any], line: int, source: Source) -> list[Any] | None:
    """Return the results of the annotation that counts; None if there is none."""
    annotations = _objects(task, "annotations")
    finished = [one for one in annotations if not one.get("was_cancelled")]
    source.note("cancelled annotation of a task, not read", line, times=len(annotations) - len(finished))
    source.note("further annotation of a task, not read", line, times=max(0, len(finished) - 1))
    if not finished:
        return None
    return _objects(next((one for one in finished if one.get("ground_truth")), finished[0]), "result")


def _predicted(task: dict[str, Any]) -> list[Any]:
    """Return the results of the first prediction, if there is one."""
    predictions = _objects(task, "predictions")
    return _objects(predictions[0], "result") if predictions else []


def _objects(holder: dict[str, Any], key: str) -> list[dict[str, Any]]:
    values = holder.get(key) or []
    if not isinstance(values, list) or not all(isinstance(one, dict) for one in values):
        raise ValueError(f"{key!r} is not a list of objects")
    return values


def _text_of(task: dict[str, Any]) -> tuple[str, str]:
    """Return the text of a task and the key it is under: `text`, or else the only string."""
    data = task.get("data")
    items = data.items() if isinstance(data, dict) else ()
    texts = {key: value for key, value in items if isinstance(value, str)}
    key = "text" if "text" in texts else next(iter(texts), None)
    if key is None or (key != "text" and len(texts) > 1):
        raise ValueError(
            f"'data' must have a string 'text', or one string alone; it has {quote(list(texts))}"
        )
    return key, texts[key]


def _is_labels(result: dict[str, Any]) -> bool:
    if result.get("type") == "hypertextlabels":
        raise ValueError("labels of HTML have no places in a text; only labels of plain text are read")
    return result.get("type") == _LABELS


def _span(result: dict[str, Any], text: str, units: Sequence[int] | None) -> dict[str, Any]:
    """Return a result as a span by character; offsets of some versions count UTF-16 units."""
    value = result.get("value")
    if not isinstance(value, dict):
        raise ValueError("'value' of a result is missing, or not an object")
    start, end, phrase = (value.get(name) for name in ("start", "end", "text"))
    if units and isinstance(phrase, str) and type(start) is type(end) is int:
        first, last = bisect_left(units, start), bisect_left(units, end)
        if not same_text(phrase, text[start:end]) and same_text(phrase, text[first:last]):
            start, end = first, last
    labels, score = value.get(_LABELS), result.get("score")
    span = {"start": start, "end": end, _LABELS: labels, "text": phrase, "score": score}
    return {name: one for name, one in span.items() if one is not None}


def encode(sentences: Iterable[Sentence], options: WriteOptions) -> Iterator[str]:
    return encode_records(map(_task, sentences), replace(options, array=True))


def _task(sentence: Sentence) -> dict[str, Any]:
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
    summary="Label Studio's JSON export; written, what a project imports, predictions with scores",
    read=read,
    write=text_writer(encode),
    obstacle=json_text.obstacle,
    overlaps="any",
    keeps=frozenset({"id", "doc", "space_after", "score", "meta"}),
)
