"""`POST /v1/entities`: correct answers, and clear refusals."""

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fencepost
from fencepost.data.entity import Entity
from tests.server.conftest import Capitals, asking, post, recogniser


def read_entities(answer):
    return [[entity["text"] for entity in result["entities"]] for result in answer.json()["results"]]


def test_each_text_gets_one_result_in_order():
    answer = post({"text": "go to ROME and OSLO"})
    assert answer.status_code == 200
    assert answer.json() == {
        "results": [
            {
                "entities": [
                    {"start": 6, "end": 10, "type": "LOC", "score": 0.4, "text": "ROME"},
                    {"start": 15, "end": 19, "type": "LOC", "score": 0.4, "text": "OSLO"},
                ]
            }
        ]
    }
    assert read_entities(post({"texts": ["ROME", "", "nothing here", "ADA in OSLO"]})) == [
        ["ROME"],
        [],
        [],
        ["ADA", "OSLO"],
    ]
    assert post({"texts": []}).json() == {"results": []}


def test_offsets_count_code_points():
    (entity,) = post({"text": "😀 e\u0301 ROME"}).json()["results"][0]["entities"]
    assert (entity["start"], entity["end"]) == (5, 9)


@pytest.mark.parametrize(("unit", "place"), [("characters", (5, 9)), ("utf-16", (6, 10)), ("bytes", (9, 13))])
def test_offsets_are_in_the_requested_unit(unit, place):
    question = {"texts": ["😀 e\u0301 ROME", "ROME"], "offsets": unit}
    (entity,), (other,) = (one["entities"] for one in post(question).json()["results"])
    assert (entity["start"], entity["end"], entity["text"]) == (*place, "ROME")
    assert (other["start"], other["end"]) == (0, 4)


def test_options_filter_only_their_request():
    assert read_entities(post({"text": "ADA in LONDON", "min_confidence": 0.5})) == [["LONDON"]]
    assert read_entities(post({"text": "ADA in LONDON", "min_confidence": 0.6})) == [["LONDON"]]
    assert read_entities(post({"text": "ADA in LONDON", "min_confidence": {"LOC": 1, "PER": 0.1}})) == [
        ["ADA"]
    ]
    assert read_entities(post({"text": "ADA in LONDON", "min_confidence": {"PER": 1}})) == [["LONDON"]]
    assert read_entities(post({"text": "ADA in LONDON", "types": ["PER"]})) == [["ADA"]]
    assert read_entities(post({"text": "ADA in LONDON", "types": []})) == [[]]


def test_request_chooses_one_of_several_models():
    others = [(recogniser(lambda sentence: [Entity(0, 2, "ORG", 0.5)]), "second", "none")]
    question = {"text": "ADA in LONDON"}
    assert read_entities(post(question, others=others)) == [["ADA", "LONDON"]]
    assert read_entities(post({**question, "model": "double"}, others=others)) == [["ADA", "LONDON"]]
    assert read_entities(post({**question, "model": "second"}, others=others)) == [["ADA in"]]
    assert read_entities(post({**question, "model": "second", "flat": True}, others=others)) == [["ADA in"]]
    refused = post({**question, "model": "third", "types": ["PLACE"]}, others=others)
    assert refused.status_code == 422
    (problem,) = refused.json()["detail"]
    assert problem["loc"] == ["body", "model"]
    assert problem["msg"] == "the server has no such model; it has double, second"


def test_min_confidence_applies_to_the_rounded_score():
    model = recogniser(lambda sentence: [Entity(0, 1, "PER", 0.49996)])
    answer = post({"text": "Ada", "min_confidence": 0.5}, model)
    assert [entity["score"] for entity in answer.json()["results"][0]["entities"]] == [0.5]


def test_answers_equal_those_of_the_recogniser():
    ner = fencepost.load().with_options(batch_size=1)
    texts = ["The University of Toronto's president met Ada Lovelace.", "Nothing.", "He was born in London."]

    def known(model):
        return [[(e.start, e.end, e.type, round(e.score, 4), e.text) for e in model(text)] for text in texts]

    for flat, select in ((None, "nested"), (True, "flat"), (False, "nested")):
        answer = post({"texts": texts, "flat": flat}, ner).json()["results"]
        assert [[tuple(e.values()) for e in one["entities"]] for one in answer] == known(
            ner.with_options(select=select)
        )
    assert known(ner) != known(ner.with_options(select="flat"))


@pytest.mark.parametrize(
    ("body", "place", "message"),
    [
        ("{", [], "Invalid JSON"),
        ("", [], "Invalid JSON"),
        ("[1]", [], "object"),
        ("[" * 100_000, [], "Invalid JSON"),
        ('{"text": "\\ud800"}', [], "Invalid JSON"),
        ('{"text": "a", "min_confidence": NaN}', ["min_confidence"], "finite"),
        ('{"text": 5}', ["text"], "valid string"),
        ('{"text": null}', [], "either `text` or `texts`"),
        ('{"text": "a", "texts": ["b"]}', [], "either `text` or `texts`"),
        ('{"texts": ["a", 5]}', ["texts", 1], "valid string"),
        ('{"texts": "a"}', ["texts"], "array"),
        ('{"text": "a", "min_confidence": 1.5}', ["min_confidence"], "less than or equal to 1"),
        ('{"text": "a", "min_confidence": "0.5"}', ["min_confidence"], "number"),
        ('{"text": "a", "min_confidence": {"PER": 2}}', ["min_confidence", "PER"], "less than or equal to 1"),
        ('{"text": "a", "min_confidence": {"X": 0.5}}', ["min_confidence", "X"], "no such type"),
        ('{"text": "a", "types": ["PER", "PLACE"]}', ["types", 1], "it has LOC, ORG, PER"),
        ('{"text": "a", "flat": "yes"}', ["flat"], "boolean"),
        ('{"text": "a", "confidence": 1}', ["confidence"], "not permitted"),
        (json.dumps({"texts": ["a"] * 4}), ["texts"], "at most 3 texts"),
        (json.dumps({"text": "a" * 101}), ["text"], "at most 100 characters"),
        (json.dumps({"texts": ["a", "a" * 101]}), ["texts", 1], "at most 100 characters"),
        (json.dumps({"text": "a", "types": ["PER"] * 1001}), ["types"], "at most 1000 items"),
    ],
)
def test_error_names_the_wrong_field(body, place, message):
    headers = {"content-type": "application/json"}
    answer = asking(
        lambda client: client.post("/v1/entities", content=body, headers=headers),
        limits={"texts": 3, "characters": 100},
    )
    assert answer.status_code == 422
    (problem, *_) = answer.json()["detail"]
    assert problem["loc"] == ["body", *place]
    assert message in problem["msg"]
    assert "input" not in problem


@pytest.mark.parametrize(
    "body",
    [
        {"texts": [1] * 10_000},
        {"text": "a", "types": [""] * 900},
        {"text": "a", "types": [1] * 10_000},
        {"text": "a", **{f"field{number}": 0 for number in range(10_000)}},
        {"texts": ["a" * 11] * 100},
    ],
)
def test_only_some_of_many_problems_are_described(body):
    answer = post(body, limits={"characters": 10})
    assert answer.status_code == 422
    assert 1 <= len(answer.json()["detail"]) <= 50
    assert len(answer.content) < 10_000


def test_refuses_bytes_that_are_not_utf8():
    headers = {"content-type": "application/json; charset=utf-8"}
    body = b'{"text": "\xff\xfe"}'
    answer = asking(lambda client: client.post("/v1/entities", content=body, headers=headers))
    assert answer.status_code == 422


def test_refuses_other_content_types_than_json():
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = asking(
            lambda client, kind=kind: client.post(
                "/v1/entities", content='{"text": "ROME"}', headers={"content-type": kind}
            )
        )
        assert answer.status_code == 415
        assert "application/json" in answer.json()["detail"]


@settings(max_examples=60)
@given(st.binary(max_size=40) | st.text(max_size=40).map(str.encode))
def test_any_body_gives_200_or_422(body):
    async def talk(client):
        headers = {"content-type": "application/json"}
        return await client.post("/v1/entities", content=body, headers=headers)

    assert asking(talk).status_code in (200, 422)


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from(["ADA", "ROME", "x", "OSLO 3", "", "MILANO"]), max_size=4),
            st.sampled_from([None, True, False]),
        ),
        max_size=20,
    ),
    st.integers(1, 5),
)
def test_concurrent_requests_get_their_own_answers(requests, batch):
    async def talk(client):
        return await asyncio.gather(
            *(client.post("/v1/entities", json={"texts": texts, "flat": flat}) for texts, flat in requests)
        )

    model = recogniser(Capitals())
    answers = asking(talk, model, limits={"batch": batch, "wait": 0.001})
    for (texts, _), answer in zip(requests, answers, strict=True):
        assert read_entities(answer) == [[w for w in text.split() if w.isupper()] for text in texts]
    assert sum(map(len, model.batches)) == sum(bool(text) for texts, _ in requests for text in texts)
    assert all(len(texts) <= batch for texts in model.batches)
