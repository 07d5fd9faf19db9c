"""Data sets of Hugging Face: the same sentences as from files, and errors with row and column."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import datasets
import numpy as np
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, List, Sequence, Value
from hypothesis import given, settings
from hypothesis import strategies as st

import fencepost
from fencepost import DataError, Entity, Sentence, UsageError
from fencepost.data import ReadOptions, read, write
from fencepost.data.formats import iob
from fencepost.integrations.datasets import Rows, sentences
from fencepost.training import train
from tests import strategies
from tests.training.runs import DEV, LEARNT, SETTINGS, assert_same, config

STRINGS = List(Value("string"))
TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
NESTED = [
    {
        "tokens": ["the", "University", "of", "Toronto"],
        "spans": [{"start": 0, "end": 4, "type": "ORG"}, {"start": 3, "end": 4, "type": "LOC"}],
    },
    {"tokens": ["nobody", "met", "him"], "spans": []},
]
FLAT = [
    {"id": "a", "doc_id": "d", "tokens": ["Ada", "Lovelace", "in", "London"], "ner_tags": [1, 2, 0, 3]},
    {"id": "b", "doc_id": "d", "tokens": ["she", "left"], "ner_tags": [0, 0]},
]
READ_FLAT = [
    Sentence(FLAT[0]["tokens"], [Entity(0, 2, "PER"), Entity(3, 4, "LOC")], id="a", doc="d"),
    Sentence(FLAT[1]["tokens"], id="b", doc="d"),
]


def table(rows: list[dict[str, Any]], **features: Any) -> Dataset:
    usual = {"id": Value("string"), "doc_id": Value("string"), "tokens": STRINGS}
    types = {key: features.get(key) or usual[key] for key in rows[0]}
    return Dataset.from_list(rows, features=Features(types))


@pytest.fixture
def flat() -> Dataset:
    return table(FLAT, ner_tags=List(ClassLabel(names=TAGS)))


# Reading


@pytest.mark.parametrize("list_of", [List, Sequence, datasets.LargeList])
def test_class_labels_are_read_as_tags(list_of):
    assert list(sentences(table(FLAT, ner_tags=list_of(ClassLabel(names=TAGS))))) == READ_FLAT


@pytest.mark.parametrize("form", ["numpy", "torch", "arrow"])
def test_format_of_a_data_set_has_no_effect(flat, form):
    assert list(sentences(flat.with_format(form))) == READ_FLAT


def test_stream_is_read_lazily(flat):
    streamed = flat.to_iterable_dataset()
    assert list(sentences(streamed)) == READ_FLAT
    numbers = []

    def endless() -> Iterator[dict[str, Any]]:
        for number in range(10_000_000):
            numbers.append(number)
            yield {"tokens": ["Ada"] * 20, "tags": ["S-PER"] * 20}

    assert len(list(islice(sentences(endless()), 5))) == 5
    assert len(numbers) < 20_000


@pytest.mark.parametrize("streaming", [False, True])
def test_decodes_only_the_needed_columns(flat, streaming):
    pictures = flat.add_column("picture", [{"bytes": b"no picture", "path": None}] * 2)
    pictures = pictures.cast_column("picture", datasets.Image())
    with pytest.raises(OSError, match="identify"):
        next(iter(pictures))
    assert list(sentences(pictures.to_iterable_dataset() if streaming else pictures)) == READ_FLAT


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        (["I-PER", "I-PER", "O", "I-LOC"], [(0, 2, "PER"), (3, 4, "LOC")]),  # IOB1
        (["I-PER", "B-PER", "O", "O"], [(0, 1, "PER"), (1, 2, "PER")]),
        (["B-PER", "I-PER", "O", "B-LOC"], [(0, 2, "PER"), (3, 4, "LOC")]),  # IOB2
        (["B-PER", "E-PER", "O", "S-LOC"], [(0, 2, "PER"), (3, 4, "LOC")]),  # BIOES
        (["B-PER", "L-PER", "O", "U-LOC"], [(0, 2, "PER"), (3, 4, "LOC")]),  # BILOU
    ],
)
@pytest.mark.parametrize("names", [("words", "tags"), ("tokens", "labels")])
def test_reads_tags_of_any_scheme(tags, spans, names):
    words, column = names
    (sentence,) = sentences(Dataset.from_list([{words: list("abcd"), column: tags}]))
    assert [entity.key for entity in sentence.entities] == spans


def test_irregular_tags_are_read_like_files_with_a_note():
    rows = [{"tokens": ["a"], "tags": ["B-X"]}] * 3 + [{"tokens": ["a", "b"], "tags": ["B-X", "I-Y"]}]
    reading = Rows(Dataset.from_list(rows))
    assert [entity.key for entity in list(reading)[3].entities] == [(0, 1, "X"), (1, 2, "Y")]
    (note,) = reading.notes
    assert str(note).startswith("the data set, row 3: sentence whose tags break the rules of iob2")
    with pytest.raises(DataError, match=r"^the data set, row 3: tags\[1\]: 'I-Y' continues an entity"):
        list(sentences(rows, options=ReadOptions(scheme="iob2")))


@pytest.mark.parametrize("key", ["type", "label", "entity_type"])
@pytest.mark.parametrize("classes", [True, False])
@pytest.mark.parametrize("lists", [True, False])
def test_reads_spans_in_every_form(key, classes, lists):
    """A list of dictionaries or a dictionary of lists; types as names or as numbers with names."""
    numbers = {"LOC": 0, "ORG": 1}
    of_type = ClassLabel(names=list(numbers)) if classes else Value("string")
    inner = {"start": Value("int32"), "end": Value("int32"), key: of_type}
    rows = []
    for row in NESTED:
        spans: Any = [
            {"start": s["start"], "end": s["end"], key: numbers[s["type"]] if classes else s["type"]}
            for s in row["spans"]
        ]
        if lists:
            spans = {name: [span[name] for span in spans] for name in inner}
        rows.append({"tokens": row["tokens"], "spans": spans})
    features = Sequence(inner) if lists else List(inner)
    first, second = sentences(table(rows, spans=features))
    assert [entity.key for entity in first.entities] == [(0, 4, "ORG"), (3, 4, "LOC")]
    assert second == Sentence(["nobody", "met", "him"])


def test_ends_are_detected_from_the_content():
    inclusive = [{"tokens": ["a", "b", "c"], "spans": [{"start": 0, "end": 1, "type": "X"}]}]
    sign = {"tokens": ["a"], "spans": [{"start": 0, "end": 0, "type": "X"}]}
    first, _ = sentences([*inclusive, sign])
    assert first.entities == (Entity(0, 2, "X"),)
    with pytest.raises(DataError, match=r'nothing shows .* options=ReadOptions\(ends="inclusive"\)'):
        list(sentences(inclusive))
    (sentence,) = sentences(inclusive, options=ReadOptions(ends="inclusive"))
    assert sentence == first
    other = {"tokens": ["a", "b"], "spans": [{"start": 0, "end": 2, "type": "X"}]}
    with pytest.raises(DataError, match=r"^the data set, row 1: .* exclusive here, but inclusive in row 0"):
        list(sentences([sign, other]))


def test_reads_raw_text_with_character_spans():
    row = {
        "id": "d",
        "text": "Ada was in London. She left.",
        "entities": [{"start": 0, "end": 3, "label": "PER"}, {"start": 11, "end": 17, "label": "LOC"}],
    }
    first, second = sentences(Dataset.from_list([row]))
    assert first.words == ("Ada", "was", "in", "London", ".")
    assert [entity.key for entity in first.entities] == [(0, 1, "PER"), (3, 4, "LOC")]
    assert (first.id, first.doc, second.id, second.text) == ("d-1", "d", "d-2", "She left.")


@pytest.mark.parametrize("lists", [True, False])
def test_raw_text_keeps_its_words_with_offsets(lists):
    tokens: Any = [{"text": "Ada", "start": 0, "end": 3}, {"text": "-x", "start": 3, "end": 5}]
    if lists:
        tokens = {key: [token[key] for token in tokens] for key in tokens[0]}
    row = {"text": "Ada-x", "tokens": tokens, "spans": [{"start": 0, "end": 3, "label": "PER"}]}
    (sentence,) = sentences(Dataset.from_list([row]))
    assert sentence.words == ("Ada", "-x")
    assert sentence.entities == (Entity(0, 1, "PER"),)


@pytest.mark.parametrize("column", ["sentence", "tokens", "words"])
@pytest.mark.parametrize("first", ["Ada left.", None])
def test_raw_text_may_have_other_text_columns(column, first):
    spans = [{"start": 0, "end": 3, "label": "PER"}]
    rows = [{column: one, "text": "Ada left.", "entities": spans} for one in (first, "She left.")]
    read_rows = list(sentences(Dataset.from_list(rows)))
    assert [one.words for one in read_rows] == [("Ada", "left", ".")] * 2
    assert [one.entities for one in read_rows] == [(Entity(0, 1, "PER"),)] * 2


def test_words_are_read_from_the_column_of_lists():
    (sentence,) = sentences([{"tokens": "Ada left", "words": ["Ada", "left"], "tags": ["B-PER", "O"]}])
    assert sentence == Sentence(["Ada", "left"], [Entity(0, 1, "PER")])


def test_numpy_numbers_are_read_as_numbers():
    class Table(list):
        features = Features(
            {"ner_tags": List(ClassLabel(names=TAGS)), "pos": List(ClassLabel(names=["N", "V"]))}
        )

    row = {"id": np.int64(7), "tokens": ["Ada", "left"], "ner_tags": [np.int64(1), np.int32(0)]}
    (sentence,) = sentences(Table([{**row, "pos": [np.int64(0), np.int64(1)]}]))
    assert sentence == Sentence(["Ada", "left"], [Entity(0, 1, "PER")], id="7", pos=("N", "V"))


def test_ids_are_text_or_numbers_and_others_are_noted():
    names = [3.0, np.float32(0.5), float("nan"), True, ["a"], "b"]
    reading = Rows([{"id": name, "tokens": ["a"], "tags": ["O"]} for name in names])
    assert [(one.id, one.meta) for one in reading] == [
        (id_, {}) for id_ in ("3.0", "0.5", None, None, None, "b")
    ]
    assert [str(note) for note in reading.notes] == [
        "the data set, row 3: 'id' that is neither text nor a number, skipped (2 times, first here): True"
    ]


def test_columns_can_be_chosen(flat):
    other = flat.rename_columns({"tokens": "w", "ner_tags": "t", "id": "key", "doc_id": "book"})
    columns = {"tokens": "w", "tags": "t", "id": "key", "doc": "book"}
    assert list(sentences(other, columns)) == READ_FLAT
    both = flat.add_column("spans", [[{"start": 0, "end": 4, "type": "X"}], []])
    with pytest.raises(UsageError, match="there are both tags and spans"):
        list(sentences(both))
    assert list(sentences(both, {"tags": "ner_tags"})) == READ_FLAT
    assert next(sentences(both, {"spans": "spans"})).entities == (Entity(0, 4, "X"),)


def test_reads_parts_of_speech_by_name_or_number(flat):
    pos = flat.add_column("pos_tags", [[0, 0, 1, 0], [1, 1]])
    assert next(sentences(pos)).pos == ("0", "0", "1", "0")
    named = pos.cast_column("pos_tags", List(ClassLabel(names=["NN", "IN"])))
    assert next(sentences(named)).pos == ("NN", "NN", "IN", "NN")


def test_transform_of_the_user_is_applied(flat):
    def lower(rows: Any) -> Any:
        return {
            "tokens": [[w.lower() for w in words] for words in rows["tokens"]],
            "ner_tags": rows["ner_tags"],
        }

    assert next(sentences(flat.with_transform(lower))).words == ("ada", "lovelace", "in", "london")


def test_no_rows_give_no_sentences(flat):
    assert list(sentences(flat.select([]))) == list(sentences([])) == []


# Refusals


WRONG = {
    "numbers without names": (
        [{"tokens": ["a"], "ner_tags": [3]}],
        r"row 0: ner_tags\[0\] is the number 3, but its tag is not known.*cast_column\('ner_tags'",
    ),
    "no tag": ([{"tokens": ["a"], "tags": ["PER"]}], r"row 0: tags\[0\]: 'PER' is not a tag"),
    "too few tags": (
        [{"tokens": ["a"], "tags": ["O"]}, {"tokens": ["a", "b"], "tags": ["O"]}],
        r"row 1: 1 tags in 'tags' for 2 words in 'tokens'",
    ),
    "null tags": (
        [{"tokens": ["a"], "tags": ["O"]}, {"tokens": ["a"], "tags": None}],
        r"row 1: 'tags' is missing",
    ),
    "a null tag": ([{"tokens": ["a"], "tags": [None]}], r"row 0: tags\[0\] is None, not a tag"),
    "null words": (
        [{"tokens": ["a"], "tags": ["O"]}, {"tokens": None, "tags": ["O"]}],
        r"row 1: 'tokens' is miss",
    ),
    "numbers for words": (
        [{"tokens": [1], "tags": ["O"]}],
        r"row 0: 'tokens' is missing, or not a list of str",
    ),
    "part of speech that is no list": (
        [{"tokens": ["a"], "tags": ["O"], "pos_tags": 3}],
        r"row 0: 'pos_tags' is 3, not a list",
    ),
    "parts of speech in a string": (
        [{"tokens": ["a", "b"], "tags": ["O", "O"], "pos": "NV"}],
        r"row 0: 'pos' is 'NV', not a list",
    ),
    "null spans": (
        [{"tokens": ["a"], "spans": []}, {"tokens": ["a"], "spans": None}],
        r"row 1: 'spans' is missing",
    ),
    "lists of two lengths": (
        [{"tokens": ["a"], "spans": {"start": [0], "end": [1, 1], "type": ["X"]}}],
        r"row 0: the lists in 'spans' differ in length",
    ),
    "no lists": ([{"tokens": ["a"], "spans": {"start": 0}}], r"row 0: 'spans' is neither a list nor a dict"),
    "no type": (
        [{"tokens": ["a"], "spans": [{"start": 0, "end": 1}]}],
        r"row 0: spans\[0\]\.type is missing, not the name of a type",
    ),
    "type by number": (
        [{"tokens": ["a"], "spans": [{"start": 0, "end": 1, "type": 4}]}],
        r"row 0: spans\[0\]\.type is 4, not the name of a type",
    ),
    "outside the sentence": (
        [{"words": ["a"], "entities": [{"start": 0, "end": 2, "type": "X"}]}],
        r"row 0: .* ends after the sentence's 1 words",
    ),
    "no row": ([{"tokens": ["a"], "tags": ["O"]}, 7], "row 1: a row must be a dict, not int"),
    "no rows": (["a"], "row 0: a row must be a dict, not str"),
    "an object": (
        [{"tokens": [object()], "tags": ["O"]}],
        "row 0: a word, tag, span or name cannot be of type object",
    ),
    "not a number": (
        [{"tokens": ["a"], "spans": [{"start": 0, "end": 1, "type": "X", "score": float("nan")}]}],
        "row 0: .*nan",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_errors_name_row_and_column(case):
    rows, message = WRONG[case]
    with pytest.raises(DataError, match=f"(?i)^my rows, {message}"):
        list(sentences(rows, name="my rows"))


def test_refuses_a_class_label_without_a_name(flat):
    rows = [*flat, {**FLAT[0], "ner_tags": [0, 0, -100, 0]}]

    class Stream(list):
        features = flat.features

    with pytest.raises(DataError, match=r"row 2: ner_tags\[2\] is -100, but the column has names for 0 to 4"):
        list(sentences(Stream(rows)))


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [
        ([{"a": 1, "b": 2}], None, "there are no sentences in the columns 'a', 'b'; needed are words"),
        ([{"text": "a"}], None, "there are no sentences"),
        ([{"tokens": ["a"]}], None, "there are neither tags nor spans"),
        ([{"tokens": ["a"]}], {"tags": "t"}, 'columns={"tags": "t"}, but the columns are \'tokens\''),
        ([{"tokens": ["a"]}], {"tagz": "tokens"}, "there is no column 'tagz'; did you mean tags?"),
    ],
)
def test_refuses_unsuitable_columns_and_lists_them(rows, columns, message):
    with pytest.raises(UsageError) as caught:
        list(sentences(rows, columns))
    assert message in str(caught.value)


def test_error_in_raw_text_names_the_chosen_columns():
    rows = [{"body": "Ada", "marks": [{"start": 0, "end": "x", "label": "PER"}]}]
    with pytest.raises(DataError, match=r"row 0: spans\[0\]\.end is 'x', .*spans is the column 'marks'"):
        list(sentences(rows, {"text": "body", "spans": "marks"}))


def test_broken_row_does_not_affect_others():
    rows = [
        {"tokens": [word], "tags": [tag]} for word, tag in (("a", "O"), ("b", "Q"), (3, "O"), ("d", "B-X"))
    ]
    refused = []
    assert [s.words for s in Rows(rows, on_invalid=refused.append)] == [("a",), ("d",)]
    assert [(one.line, one.reason.split(";")[0]) for one in refused] == [
        (2, "tags[0]: 'Q' is not a tag"),
        (3, "'tokens' is missing, or not a list of strings"),
    ]


# The same as from files


def own(sentence: Sentence) -> dict[str, Any]:
    """Return a sentence as a row of words with spans."""
    return {
        "id": sentence.id,
        "doc": sentence.doc,
        "words": list(sentence.words),
        "entities": [
            {"start": e.start, "end": e.end, "type": e.type, "score": e.score} for e in sentence.entities
        ],
        "pos": None if sentence.pos is None else list(sentence.pos),
        "left": list(sentence.left),
        "right": list(sentence.right),
        "space_after": None if sentence.space_after is None else list(sentence.space_after),
    }


OWN = Features(
    {
        **{key: Value("string") for key in ("id", "doc")},
        **dict.fromkeys(("words", "pos", "left", "right"), STRINGS),
        "space_after": List(Value("bool")),
        "entities": List(
            {
                "start": Value("int64"),
                "end": Value("int64"),
                "type": Value("string"),
                "score": Value("float64"),
            }
        ),
    }
)


def bare(sentence: Sentence) -> Sentence:
    """Return the sentence without meta."""
    return replace(sentence, meta={}, entities=[replace(e, meta={}) for e in sentence.entities])


@settings(max_examples=25)
@given(st.lists(strategies.odd_sentences(), min_size=1, max_size=4))
def test_sentences_are_read_back_from_rows(examples):
    examples = [bare(sentence) for sentence in examples]
    assert list(sentences(Dataset.from_list([own(s) for s in examples], features=OWN))) == examples


@st.composite
def flat_sentences(draw):
    words = draw(st.lists(strategies.plain_words, max_size=8))
    return Sentence(words, draw(strategies.flat_entities(len(words))))


@settings(max_examples=25)
@given(st.lists(flat_sentences(), min_size=1, max_size=4), st.sampled_from(iob.WRITE_SCHEMES), st.booleans())
def test_flat_sentences_are_read_back_from_tags(examples, scheme, numbers):
    tags = [iob.from_entities(len(s), s.entities, scheme) for s in examples]
    names = sorted({tag for of_one in tags for tag in of_one} | {"O"})
    rows = [{"tokens": list(s.words), "ner_tags": of_one} for s, of_one in zip(examples, tags, strict=True)]
    of_tags = Value("string")
    if numbers:
        of_tags = ClassLabel(names=names)
        rows = [{**row, "ner_tags": [names.index(tag) for tag in row["ner_tags"]]} for row in rows]
    options = ReadOptions(scheme="bioes" if scheme == "bmes" else scheme)  # few tags do not determine it
    assert list(sentences(table(rows, ner_tags=List(of_tags)), options=options)) == examples


@pytest.fixture
def offline(tmp_path, monkeypatch) -> Iterator[None]:
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()
    yield
    datasets.enable_progress_bars()


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("kind", ["json", "parquet", "disk"])
def test_corpus_read_through_datasets_is_the_same(offline, tmp_path, kind, streaming):
    """Compare our reader with the library, which reads JSON, Parquet or a saved data set."""
    corpus = [bare(sentence) for sentence in islice(read("sample:train"), 60)]
    path = tmp_path / "corpus.jsonl"
    write(corpus, path)
    if kind == "json":
        loaded = datasets.load_dataset(
            "json",
            data_files=str(path),
            split="train",
            streaming=streaming,
            cache_dir=str(tmp_path / "cache"),
        )
    else:
        whole = Dataset.from_list([json.loads(line) for line in path.read_text().splitlines()])
        if kind == "disk":
            whole.save_to_disk(tmp_path / "saved")
            loaded = datasets.load_from_disk(tmp_path / "saved")
            loaded = loaded.to_iterable_dataset() if streaming else loaded
        else:
            whole.to_parquet(tmp_path / "corpus.parquet")
            files = str(tmp_path / "corpus.parquet")
            loaded = datasets.load_dataset(
                "parquet",
                data_files=files,
                split="train",
                streaming=streaming,
                cache_dir=str(tmp_path / "cache"),
            )
    assert list(sentences(loaded)) == list(read(path)) == corpus


# Training


FEW = {**SETTINGS, "training": {**SETTINGS["training"], "epochs": 1}}


def test_training_on_a_data_set_equals_training_on_sentences(tmp_path, capfd):
    training, dev = [bare(s) for s in LEARNT], [bare(s) for s in DEV]
    train(config(epochs=1), training, tmp_path / "sentences", dev, dev[:5])
    splits = DatasetDict(
        {
            name: Dataset.from_list([own(s) for s in part], features=OWN)
            for name, part in (("train", training), ("validation", dev), ("test", dev[:5]))
        }
    )
    outcome = fencepost.train(splits, tmp_path / "rows", config=FEW, quiet=True)
    assert_same(tmp_path / "rows", tmp_path / "sentences")
    assert outcome.test is not None
    assert "".join(capfd.readouterr()) == ""
    assert fencepost.load(tmp_path / "rows").types == outcome.model.types


def test_trains_on_files_rows_and_sentences(tmp_path, capfd):
    """The training data is a file, the development data a stream of rows, the test data sentences."""
    write(LEARNT, tmp_path / "train.jsonl")
    outcome = fencepost.train(
        tmp_path / "train.jsonl",
        tmp_path / "model",
        (own(s) for s in DEV),
        iter([Sentence(["Ada"], [Entity(0, 1, "unheard-of")])]),
        config=config(epochs=2),
        epochs=1,
        seed=3,
    )
    assert (outcome.model.config.training.epochs, outcome.model.config.training.seed) == (1, 3)
    assert len(outcome.epochs) == 1
    messages = capfd.readouterr().err.splitlines()
    assert messages[0] == "types in the test data that are not in the training data: unheard-of"
    assert messages[1].split()[:2] == ["epoch", "1"]


def test_settings_come_from_a_file_a_recipe_or_a_dictionary(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr("fencepost.training.train", lambda settings, *_, **__: calls.append(settings))
    (tmp_path / "my.yaml").write_text("training: {epochs: 7}")
    for number, options in enumerate(
        (
            {"config": tmp_path / "my.yaml", "batch_size": 3},
            {"config": {"training": {"epochs": 7}}, "batch_size": 3},
            {"recipe": "diffusion/genia", "config": {"training": {"epochs": 7}}, "batch_size": 3},
            {
                "config": {"training": {"epochs": 7}},
                "batch_size": 3,
                "method": "diffusion",
                "encoder": "scratch",
            },
        )
    ):
        fencepost.train(LEARNT, tmp_path / str(number), **options)
    assert {(one.training.epochs, one.training.batch_size) for one in calls} == {(7, 3)}
    assert [one.method.name for one in calls] == ["boundary-smoothing"] * 2 + ["diffusion"] * 2
    assert calls[3].encoder.name == "scratch"


def test_refuses_an_unavailable_device(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.accelerator.is_available", lambda: False)
    with pytest.raises(UsageError, match="the device mps is not available; this machine has cpu"):
        fencepost.train(LEARNT, tmp_path / "model", config=FEW, quiet=True, device="mps")


def test_dev_share_holds_out_data_and_a_run_is_resumed(tmp_path):
    with pytest.raises(
        UsageError, match=r"no training run to resume here .* or start a new run without resume=True"
    ):
        fencepost.train(LEARNT, tmp_path / "model", resume=True)
    outcome = fencepost.train(LEARNT, tmp_path / "model", config=FEW, dev_share=0.2, quiet=True)
    assert outcome.best is not None
    (tmp_path / "model" / "metrics.json").unlink()  # like after an interruption
    again = fencepost.train(LEARNT, tmp_path / "model", dev_share=0.2, resume=True, quiet=True)
    assert again.best["dev_f1"] == outcome.best["dev_f1"]


def refused(message: str, *args: Any, **more: Any) -> None:
    with pytest.raises(UsageError) as caught:
        fencepost.train(*args, **more)
    assert message in str(caught.value)


def test_refuses_unsuitable_data_and_arguments(tmp_path):
    out = tmp_path / "model"
    refused("no split 'train' in the training data; its splits are 'a', 'b'", {"a": [], "b": []}, out)
    refused("the training data has no sentences", [], out)
    refused("the training data must be a file, sentences, or the rows", 7, out)
    refused("the development data must be a file, sentences", LEARNT, out, {"validation": DEV})
    refused("the development data: number 1 has the type str", LEARNT, out, [DEV[0], "x"])
    refused("dev (or a validation split) and dev_share contradict", LEARNT, out, DEV, dev_share=0.1)
    refused(
        "dev (or a validation split) and dev_share contradict",
        {"train": LEARNT, "validation": DEV},
        out,
        dev_share=0.1,
    )
    refused("no part can be held out; give dev", LEARNT[:1], out, dev_share=0.1)
    refused("recipe and config contradict", LEARNT, out, config=config(), recipe="diffusion/genia")
    refused("training.epoch: there is no such key", LEARNT, out, config={"training": {"epoch": 2}})
    refused("cannot be read", tmp_path / "no-such-file", out)
    with pytest.raises(DataError, match=r"^the test data, row 0: tags\[0\]: 'Q' is not a tag"):
        fencepost.train(LEARNT, out, None, [{"tokens": ["a"], "tags": ["Q"]}])
    assert not out.exists()
    out.mkdir()
    (out / "run.yaml").touch()
    refused("use resume=True to continue, or give another name", LEARNT, out)


def test_names_missing_pytorch(tmp_path, monkeypatch):
    import builtins

    real = builtins.__import__

    def absent(name: str, *args: Any) -> Any:
        if name == "fencepost" and args[2] and "training" in args[2]:
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
        return real(name, *args)

    monkeypatch.setattr(builtins, "__import__", absent)
    refused("training needs torch, which is not installed: pip install 'fencepost[train]'", LEARNT, tmp_path)


def test_package_exports_train():
    assert "train" in fencepost.__all__
    assert fencepost.train.__module__ == "fencepost.experiments.learning"


REVIEWED = [
    {"text": "Ada left.", "spans": [{"start": 0, "end": 3, "label": "PER"}], "answer": answer}
    for answer in ("accept", "reject", "ignore")
]


@pytest.mark.parametrize("rows", [REVIEWED, Dataset.from_list(REVIEWED)])
def test_rejected_rows_are_skipped_with_a_note(rows):
    reading = Rows(rows)
    assert len(list(reading)) == 1
    assert [str(note) for note in reading.notes] == [
        f"the data set, row {row}: record with answer {answer!r} skipped; "
        "use options=ReadOptions(keep_rejected=True) to read it"
        for row, answer in ((1, "reject"), (2, "ignore"))
    ]
    assert len(list(Rows(rows, options=ReadOptions(keep_rejected=True)))) == 3


def test_rejected_records_of_a_file_are_noted(tmp_path):
    from fencepost.data.collect import collect_sentences

    path = tmp_path / "reviewed.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in REVIEWED))
    sentences, notes = collect_sentences(path, "the training data")
    assert len(sentences) == 1
    assert (
        "record with answer 'reject' skipped; use options=ReadOptions(keep_rejected=True) to read it"
        in str(notes[0])
    )
