"""JSON by word index and by character, in all common shapes."""

import json

import pytest

from fencepost.data import read, write
from fencepost.data.entity import Entity, Sentence
from fencepost.errors import DataError, UsageError

WORDS = ["Ada", "Lovelace", "of", "London"]
PERSON, PLACE = Entity(0, 2, "PER"), Entity(3, 4, "LOC")


def lines(*records):
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


SHAPES = {
    "jsonl": {
        "words": WORDS,
        "entities": [{"start": 0, "end": 2, "type": "PER"}, {"start": 3, "end": 4, "type": "LOC"}],
    },
    "jsonl-tokens": {
        "tokens": WORDS,
        "entities": [{"start": 0, "end": 2, "type": "PER"}, {"start": 3, "end": 4, "type": "LOC"}],
    },
    "jsonl-mentions": {
        "tokens": WORDS,
        "entity_mentions": [
            {"start": 0, "end": 2, "entity_type": "PER", "text": "Ada Lovelace"},
            {"start": 3, "end": 4, "entity_type": "LOC", "text": "London"},
        ],
    },
    "jsonl-index": {
        "sentence": WORDS,
        "ner": [{"index": [0, 1], "type": "PER"}, {"index": [3], "type": "LOC"}],
    },
    "jsonl-gliner": {"tokenized_text": WORDS, "ner": [[0, 1, "PER"], [3, 3, "LOC"]]},
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("layout", ["lines", "array", "pretty"])
def test_detects_every_shape_as_lines_and_as_an_array(reading, name, layout):
    empty = {key: WORDS if value is WORDS else [] for key, value in SHAPES[name].items()}
    records = [empty, SHAPES[name], empty]
    indent = 2 if layout == "pretty" else None
    reader = reading(lines(*records) if layout == "lines" else "\ufeff " + json.dumps(records, indent=indent))
    assert reader.format.name == name
    sentences = list(reader)
    assert [s.entities for s in sentences] == [(), (PERSON, PLACE), ()]
    assert all(s.words == tuple(WORDS) for s in sentences)


def test_reads_all_fields_of_a_sentence(reading):
    record = {
        "orig_id": 7,
        "doc_key": "d",
        "tokens": ["Ada"],
        "entities": [{"start": 0, "end": 1, "type": "PER", "score": 0.5, "named": True}],
        "ltokens": ["a"],
        "rtokens": ["b", "c"],
        "pos": ["NNP"],
        "space_after": [False],
        "genre": "bio",
        "meta": {"year": 1815},
    }
    [sentence] = reading(lines(record))
    assert (sentence.id, sentence.doc) == ("7", "d")
    assert (sentence.left, sentence.right) == (("a",), ("b", "c"))
    assert (sentence.pos, sentence.space_after) == (("NNP",), (False,))
    assert sentence.meta == {"genre": "bio", "year": 1815}
    assert sentence.entities == (Entity(0, 1, "PER", 0.5, {"named": True}),)


# Ends


def tokens(*spans, words=WORDS):
    return {
        "tokens": words,
        "entities": [{"start": a, "end": b, "type": "X", **more} for a, b, more in spans],
    }


UNDECIDED = tokens((0, 1, {}))


@pytest.mark.parametrize(
    ("evidence", "ends"),
    [
        (tokens((1, 1, {})), 2),  # an empty span if it were exclusive
        (tokens((2, 4, {})), 1),  # beyond the sentence if it were inclusive
        (tokens((0, 1, {"text": "Ada"})), 1),
        (tokens((0, 1, {"text": "Ada Lovelace"})), 2),
        (tokens((0, 1, {"text": "AdaLovelace"})), 2),  # white space does not count
        (tokens((0, 1, {"text": "a"}), words=["a", " ", "b"]), 1),  # unless there is no other evidence
    ],
)
def test_one_piece_of_evidence_decides_the_ends_of_the_file(reading, evidence, ends):
    sentences = list(reading(lines(tokens(), UNDECIDED, evidence, UNDECIDED)))
    assert [s.entities[0].end for s in (sentences[1], sentences[3])] == [ends, ends]


def test_undecided_ends_need_an_option(reading):
    with pytest.raises(DataError, match=r"nothing shows .*use --ends inclusive or --ends exclusive"):
        list(reading(lines(UNDECIDED)))
    assert [s.entities[0].end for s in reading(lines(UNDECIDED), ends="inclusive")] == [2]
    assert [s.entities[0].end for s in reading(lines(UNDECIDED), ends="exclusive")] == [1]


def test_refuses_a_file_that_is_undecided_for_too_long(reading, monkeypatch):
    monkeypatch.setattr("fencepost.data.formats.json_tokens.UNDECIDED_CHARACTERS", 1000)
    late = lines(*[tokens()] * 100, UNDECIDED)
    with pytest.raises(DataError, match="--ends"):
        list(reading(late))
    decided = lines(*[tokens()] * 100, tokens((1, 1, {})), UNDECIDED)
    assert [e.end for s in reading(decided) for e in s.entities] == [2, 2]


def test_refuses_contradictory_evidence_of_ends(reading):
    with pytest.raises(
        DataError, match=r"corpus:3: the end of an entity is inclusive here, but exclusive in line 1"
    ):
        list(reading(lines(tokens((2, 4, {})), UNDECIDED, tokens((1, 1, {})))))


def test_negative_and_reversed_spans_are_not_evidence_of_ends(skipping):
    bad = [tokens((-1, -1, {})), tokens((-2, 4, {})), tokens((3, 1, {"text": "x"}))]
    _, sentences, rejected = skipping(lines(*bad, tokens((2, 4, {})), UNDECIDED))
    assert [s.entities[0].end for s in sentences] == [4, 1]
    assert [r.line for r in rejected] == [1, 2, 3]


@pytest.mark.parametrize("name", ["jsonl", "jsonl-gliner", "jsonl-index"])
def test_shapes_with_known_ends_need_no_evidence(reading, name):
    assert [s.entities for s in reading(lines(SHAPES[name]))] == [(PERSON, PLACE)]


# Malformed


@pytest.mark.parametrize(
    ("name", "record", "message"),
    [
        ("jsonl", {"words": "Ada", "entities": []}, "'words' is missing, or not a list of strings"),
        ("jsonl", {"words": [1], "entities": []}, "'words' is missing, or not a list of strings"),
        ("jsonl", {"words": []}, "'entities' is missing, or not a list"),
        ("jsonl", {"words": [], "entities": [3]}, r"entities\[0\] is not an object"),
        (
            "jsonl",
            {"words": ["a"], "entities": [{"start": 0, "end": 1}]},
            r"entities\[0\].type is missing, not the",
        ),
        (
            "jsonl",
            {"words": ["a"], "entities": [{"start": 0.0, "end": 1, "type": "X"}]},
            r"start is 0.0, not an integer",
        ),
        ("jsonl", {"words": ["a"], "entities": [{"start": True, "end": 1, "type": "X"}]}, "start is True"),
        (
            "jsonl",
            {"words": ["a"], "entities": [{"start": 0, "end": 2, "type": "X"}]},
            r"X \[0, 2\) ends after",
        ),
        ("jsonl", {"words": ["a"], "entities": [{"start": 0, "end": 0, "type": "X"}]}, "0 <= start < end"),
        (
            "jsonl",
            {"words": ["a"], "entities": [{"start": 0, "end": 1, "type": "X", "score": 2}]},
            "score is 2, not a number between 0 and 1",
        ),
        (
            "jsonl",
            {"words": ["a"], "entities": [{"start": 0, "end": 1, "type": "X", "score": "1"}]},
            "not a number",
        ),
        (
            "jsonl",
            {"words": ["a"], "entities": [{"start": 0, "end": 1, "type": "X", "text": "b"}]},
            "these words are 'a'",
        ),
        (
            "jsonl",
            {"words": ["a"], "entities": [{"start": 0, "end": 1, "type": "X", "text": 1}]},
            "text is not a string",
        ),
        ("jsonl", {"words": ["a"], "entities": [], "pos": []}, "pos has 0 values for 1 words"),
        ("jsonl", {"words": ["a"], "entities": [], "pos": "N"}, "'pos' is missing, or not a list of strings"),
        (
            "jsonl",
            {"words": ["a"], "entities": [], "space_after": [1]},
            "'space_after' is not a list of true and",
        ),
        ("jsonl", {"words": ["a"], "entities": [], "left": [1]}, "'left' is missing, or not"),
        (
            "jsonl",
            {"words": ["a"], "entities": [], "x": 1, "meta": {"x": 2}},
            "x occurs both in 'meta' and outside of it",
        ),
        (
            "jsonl-index",
            {"sentence": ["a"], "ner": [{"index": [], "type": "X"}]},
            "not a list of word indices",
        ),
        (
            "jsonl-index",
            {"sentence": ["a"], "ner": [{"index": [0, 2], "type": "X"}]},
            "the entity is discontinuous",
        ),
        (
            "jsonl-gliner",
            {"tokenized_text": ["a"], "ner": [[0, 1]]},
            r"ner\[0\] does not have the form \[start, end, type\]",
        ),
    ],
)
def test_names_field_and_line_of_a_malformed_object(skipping, reading, name, record, message):
    good = {key: [] for key in SHAPES[name]}
    content = lines(good, record, good)
    with pytest.raises(DataError, match=rf"corpus:2: .*{message}"):
        list(reading(content, name))
    _, sentences, rejected = skipping(content, name)
    assert len(sentences) == 2
    assert [(r.line, json.loads(r.raw)) for r in rejected] == [(2, record)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "an object has several lines; put each on one line"),
        ("{x", "not JSON: Expecting property name"),
        ('{"words": []', "not JSON: Expecting ',' delimiter at character 13"),
        ("[1]", "a JSON object was expected, not an array"),
        ("3", "a JSON object was expected, not a number"),
        ("null", "a JSON object was expected, not null"),
        ('"x"', "not a string"),
        ('{"words": [], "words": []}', "the key 'words' occurs twice in one object"),
        ('{"x": NaN}', "NaN is not a finite number"),
        ('{"x": 1e999}', "1e999 is not a finite number"),
        ('{"x": "\\ud800"}', "half a character"),
        ("[" * 100_000, "nested too deeply"),
        ('{"x": ' + "9" * 5000 + "}", "the JSON cannot be read"),
    ],
)
def test_refuses_lines_that_are_not_objects(skipping, line, message):
    _, sentences, rejected = skipping(lines(SHAPES["jsonl"]) + line + "\n" + lines(SHAPES["jsonl"]))
    assert len(sentences) == 2
    assert [r.line for r in rejected] == [2]
    assert message in rejected[0].reason


def test_invalid_utf8_rejects_only_its_line(skipping):
    good = lines(SHAPES["jsonl"]).encode()
    _, sentences, rejected = skipping(good + b'{"words": ["\xff"], "entities": []}\n' + good)
    assert len(sentences) == 2
    assert rejected[0].reason == "not UTF-8 at byte 13 of the line"


def test_broken_element_of_an_array_rejects_only_itself(skipping):
    good = json.dumps(SHAPES["jsonl"], indent=1)
    content = f'[\n{good},\n{{"words": oops}},\n{good},\n3,\n{{"words": ["\udcff"]}},\n{good}]'
    _, sentences, rejected = skipping(content.encode("utf-8", "surrogateescape"))
    assert len(sentences) == 3
    first = 2 + good.count("\n") + 1
    assert [r.line for r in rejected] == [first, first + good.count("\n") + 2, first + good.count("\n") + 3]
    assert [r.reason[:12] for r in rejected] == ["not JSON: Ex", "a JSON objec", "the JSON can"]


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        ("", "the file ends before its array does"),
        (', {"words": ["a', "the file ends before its array does"),
        ("] x", "there is text after the end of the array"),
        (",]", "not JSON"),
    ],
)
def test_reports_errors_at_the_end_of_an_array(skipping, tail, reason):
    _, sentences, rejected = skipping("[" + json.dumps(SHAPES["jsonl"]) + tail)
    assert len(sentences) <= 1
    assert reason in rejected[-1].reason


def test_brackets_and_quotes_inside_strings_do_not_divide_elements(reading):
    words = ['"', "]", "[", "{", "}", ",", "\\", '\\"', "],["]
    records = [{"words": words, "entities": []}] * 3
    assert [s.words for s in reading(json.dumps(records))] == [tuple(words)] * 3


def test_array_elements_do_not_depend_on_chunks(reading, monkeypatch):
    words = ['é"', "]\\", "科技", "😀"]
    content = json.dumps([{"words": words, "entities": [], "n": n} for n in range(5)], ensure_ascii=False)
    for size in (1, 2, 3, 5, 7, 64):
        monkeypatch.setattr("fencepost.data.source.HEAD_BYTES", size)
        monkeypatch.setattr("fencepost.data.source.CHUNK_BYTES", size)
        sentences = list(reading(content, "jsonl"))
        assert [s.words for s in sentences] == [tuple(words)] * 5
        assert [s.meta["n"] for s in sentences] == list(range(5))


def test_refuses_an_endless_string_of_escaped_quotes(skipping):
    _, sentences, rejected = skipping('[{"words": ["' + '\\"' * 300_000, "jsonl")
    assert not sentences
    assert rejected[0].reason == "the file ends before its array does"


def test_reports_a_duplicate_among_200000_keys(skipping):
    keys = [*range(200_000), 199_999]
    _, _, rejected = skipping("{" + ",".join(f'"{key}":0' for key in keys) + "}\n", "jsonl")
    assert "the key '199999' occurs twice" in rejected[0].reason


def test_refuses_unknown_shapes_and_names_their_keys(reading):
    with pytest.raises(
        DataError, match=r"corpus:1: unknown JSON format: the first object has the keys 'a', 'b'"
    ):
        reading('{"a": 1, "b": 2}\n')


# Text with character offsets

TEXT = "Ada Lovelace lived in London. Yes."
TOOLS = {
    "prodigy": {"spans": [{"start": 0, "end": 12, "label": "PER"}, {"start": 22, "end": 28, "label": "LOC"}]},
    "doccano": {"label": [[0, 12, "PER"], [22, 28, "LOC"]]},
    "doccano relations": {
        "entities": [
            {"id": 1, "start_offset": 0, "end_offset": 12, "label": "PER"},
            {"id": 2, "start_offset": 22, "end_offset": 28, "label": "LOC"},
        ],
        "relations": [],
    },
    "spacy": {"entities": [[0, 12, "PER"], [22, 28, "LOC"]]},
    "label studio": {
        "label": [
            {"start": 0, "end": 12, "text": "Ada Lovelace", "labels": ["PER"]},
            {"start": 22, "end": 28, "text": "London", "labels": ["LOC"]},
        ]
    },
}


@pytest.mark.parametrize("tool", TOOLS)
def test_reads_text_exported_by_annotation_tools(reading, tool):
    reader = reading(lines({"id": 5, "text": TEXT, **TOOLS[tool]}))
    first, second = reader
    assert reader.format.name == "jsonl-text"
    assert first.words == ("Ada", "Lovelace", "lived", "in", "London", ".")
    assert [e.key for e in first.entities] == [(0, 2, "PER"), (4, 5, "LOC")]
    assert (first.id, second.id, second.doc) == ("5-1", "5-2", "5")
    assert not reader.notes


def test_several_labels_on_one_span_are_several_entities(reading):
    span = {"start": 0, "end": 3, "labels": ["PER", "NAME"]}
    [sentence] = reading(lines({"text": "Ada", "label": [span]}))
    assert [e.key for e in sentence.entities] == [(0, 1, "NAME"), (0, 1, "PER")]


def test_sentences_of_one_text_are_one_document(reading):
    texts = ["Ada left. She met Charles.", "Ada left.", "Ada left. She met Charles."]
    records = [{"text": text, "spans": []} for text in texts] + [{"id": 7, "text": texts[0], "spans": []}]
    docs = [sentence.doc for sentence in reading("\n".join(map(json.dumps, records)))]
    assert docs == ["line-1", "line-1", None, "line-3", "line-3", "7", "7"]


def test_span_across_sentences_joins_them(reading):
    [sentence] = reading(lines({"text": TEXT, "spans": [{"start": 22, "end": 33, "label": "X"}]}))
    assert sentence.phrase(sentence.entities[0]) == "London . Yes"


def test_spans_split_words_and_trim_white_space(reading):
    reader = reading(lines({"text": "xAda Lovelace ", "spans": [{"start": 1, "end": 5, "label": "X"}]}))
    [sentence] = reader
    assert sentence.words == ("x", "Ada", "Lovelace")
    assert sentence.entities == (Entity(1, 2, "X"),)
    assert sentence.space_after == (False, True, False)
    assert "word split" in reader.notes[0].kind


def test_tokens_of_the_file_are_used_as_words(reading):
    record = {
        "text": "New York!",
        "tokens": [
            {"text": "New York", "start": 0, "end": 8, "ws": False},
            {"start": 8, "end": 9, "ws": True},
        ],
        "spans": [{"start": 0, "end": 8, "label": "LOC", "score": 0.5, "why": "x"}],
        "_task_hash": 1,
    }
    [sentence] = reading(lines(record))
    assert sentence.words == ("New York", "!")
    assert sentence.space_after == (False, True)
    assert sentence.entities == (Entity(0, 1, "LOC", 0.5, {"why": "x"}),)
    assert sentence.meta == {"_task_hash": 1}


def test_reads_inclusive_character_ends_if_asked(reading):
    [sentence] = reading(
        lines({"text": "Ada x", "spans": [{"start": 0, "end": 2, "label": "X"}]}), ends="inclusive"
    )
    assert sentence.entities == (Entity(0, 1, "X"),)


def test_notes_texts_without_spans(reading):
    reader = reading(lines({"text": "Ada", "spans": []}, {"text": "Bob"}))
    assert [s.words for s in reader] == [("Ada",), ("Bob",)]
    assert "text without a list under spans" in str(reader.notes[0])


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"spans": []}, "'text' is missing, or not a string"),
        ({"text": "a", "spans": [1]}, r"spans\[0\] is neither an object nor \[start, end, type\]"),
        ({"text": "a", "spans": [{"end": 1, "label": "X"}]}, r"spans\[0\].start is missing, not an integer"),
        ({"text": "a", "spans": [{"start": 0, "end": 1}]}, r"spans\[0\].label is missing"),
        ({"text": "a", "spans": [{"start": 0, "end": 1, "labels": []}]}, r"spans\[0\].labels is empty"),
        (
            {"text": "a", "spans": [{"start": 0, "end": 2, "label": "X"}]},
            "lies outside the text's 1 characters",
        ),
        ({"text": "a ", "spans": [{"start": 1, "end": 2, "label": "X"}]}, "contains only white space"),
        ({"text": "ab", "spans": [{"start": 0, "end": 1, "label": "X", "text": "ab"}]}, "--ends inclusive"),
        (
            {"text": "a", "spans": [{"start": 0, "end": 1, "label": "X", "score": 7}]},
            "score is 7, not a number between 0 and 1",
        ),
        ({"text": "a", "spans": [], "tokens": [1]}, "'tokens' is not a list of objects"),
        (
            {"text": "a b", "spans": [], "tokens": [{"start": 0, "end": 1}]},
            "'b' at the end is not in a token",
        ),
        (
            {"text": "a b", "spans": [], "tokens": [{"start": 2, "end": 3}]},
            r"'a' before tokens\[0\] is not in a token",
        ),
        (
            {"text": "a", "spans": [], "tokens": [{"start": 0, "end": 9}]},
            r"tokens\[0\] is empty, out of order",
        ),
        (
            {"text": "a", "spans": [], "tokens": [{"start": 0, "end": 1, "text": "b"}]},
            r"tokens\[0\].text differs from the text",
        ),
    ],
)
def test_names_the_line_of_a_malformed_text(reading, skipping, record, message):
    good = {"text": "Ada", "spans": []}
    content = lines(good, record, good)
    with pytest.raises(DataError, match=rf"corpus:2: .*{message}"):
        list(reading(content, "jsonl-text"))
    _, sentences, rejected = skipping(content, "jsonl-text")
    assert len(sentences) == 2
    assert [r.line for r in rejected] == [2]


def test_keeps_different_texts_without_check_text(reading):
    record = {"words": ["can", "not"], "entities": [{"start": 0, "end": 2, "type": "X", "text": "can't"}]}
    [sentence] = reading(lines(record), check_text=False)
    assert sentence.entities[0].meta == {"text": "can't"}


def test_closing_a_reader_stops_before_later_errors(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text(lines(SHAPES["jsonl"]) + "broken\n")
    sentences = read(path)
    assert next(sentences).words == tuple(WORDS)
    sentences.close()


@pytest.mark.parametrize("between", [" ", " anything, [", "\n,\n", "\u3000", "]"])
def test_reports_text_after_an_array(skipping, between):
    one = '[{"words": ["a"], "entities": []}]'
    _, sentences, rejected = skipping(one + between + one)
    assert [sentence.words for sentence in sentences] == [("a",)]
    assert [each.reason for each in rejected] == ["there is text after the end of the array"]


def test_refuses_other_white_space_between_values(skipping):
    one = '{"words": ["a"], "entities": []}'
    _, sentences, rejected = skipping(f"[{one},\u3000{one},\n{one}]")
    assert (len(sentences), len(rejected)) == (2, 1)


@pytest.mark.parametrize(
    ("record", "ends", "message"),
    [
        ({"words": ["a"], "entities": []}, "inclusive", "jsonl has exclusive ends by definition"),
        ({"tokenized_text": ["a"], "ner": []}, "exclusive", "jsonl-gliner has inclusive ends by definition"),
        ({"sentence": ["a"], "ner": []}, "exclusive", "jsonl-index lists every word of an entity"),
    ],
)
def test_refuses_ends_that_contradict_the_shape(reading, record, ends, message):
    with pytest.raises(UsageError, match=message):
        list(reading(lines(record), ends=ends))


def test_annotated_types_are_written_read_and_validated(tmp_path):
    path = tmp_path / "part.jsonl"
    sentence = Sentence(["Ada", "left"], [Entity(0, 1, "PER")], meta={"annotated_types": ["PER"]})
    write([sentence], path)
    assert [one.annotated_types for one in read(path)] == [{"PER"}]
    path.write_text('{"words": ["Ada"], "entities": [], "annotated_types": "PER"}\n')
    with pytest.raises(DataError, match=r"part\.jsonl:1: annotated_types must be a list of strings"):
        list(read(path))
