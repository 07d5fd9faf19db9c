"""The spaCy component: predicted entities on the tokens of a document."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import spacy
import srsly
from hypothesis import given
from hypothesis import strategies as st
from spacy import displacy
from spacy.tokens import Doc, DocBin, Span
from spacy.util import get_lang_class

from fencepost.data.entity import Entity
from fencepost.data.output import WriteError
from fencepost.errors import DataError, UsageError
from fencepost.integrations.spacy_marking import ALIGNMENT_MODES, align
from fencepost.runtime.document import Span as Found
from fencepost.runtime.recogniser import Recogniser
from tests.limits import file_size_limit
from tests.runtime import models
from tests.runtime.doubles import Double, everything, marking

TEXTS = ["Ada met Charles in London", "", "the University of Toronto opened", "nobody met him", "Ada"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Folder of a trained and exported model."""
    return models.saved(models.trained(), tmp_path_factory.mktemp("trained"))


@pytest.fixture
def make(monkeypatch):
    """Return a function that makes pipelines with given entities."""

    def make_pipeline(find, language="xx", **config):
        def load(path, *, min_confidence, types, **options):
            return Recogniser(Double(find), min_confidence=min_confidence, types=types)

        monkeypatch.setattr("fencepost.runtime.loading.load", load)
        nlp = spacy.blank(language)
        nlp.add_pipe("fencepost", config=config)
        return nlp

    return make_pipeline


def nested(sentence):
    """Yield an organisation that contains a place, which also has a second type."""
    if "University" in sentence.words:
        at = sentence.words.index("University")
        yield Entity(at, at + 3, "ORG", 0.7)
        yield Entity(at + 2, at + 3, "LOC", 0.9)
        yield Entity(at + 2, at + 3, "PER", 0.2)


def entities(doc, key="fencepost"):
    return [(span.text, span.label_) for span in doc.spans[key]]


def flat(doc):
    return [(span.text, span.label_) for span in doc.ents]


# Entities


def test_nested_entities_are_spans_with_scores(make) -> None:
    doc = make(nested)("The University of Toronto opened.")
    assert entities(doc) == [("University of Toronto", "ORG"), ("Toronto", "LOC"), ("Toronto", "PER")]
    assert doc.spans["fencepost"].attrs["scores"].tolist() == [0.7, 0.9, 0.2]
    assert doc.spans["fencepost"].attrs["unaligned"] == []
    assert [span._.fencepost_score for span in doc.spans["fencepost"]] == [0.7, 0.9, 0.2]
    assert [span._.fencepost_score for span in doc.ents] == [0.7]
    assert doc[0:2]._.fencepost_score is None


def test_min_confidence_can_be_set_per_type(make) -> None:
    every = make(nested)("The University of Toronto opened.")
    doc = make(nested, min_confidence={"ORG": 1.0})("The University of Toronto opened.")
    others = [pair for pair in entities(every) if pair[1] != "ORG"]
    assert entities(doc) == others != entities(every)


def test_confidence_types_and_spans_key_are_configured(make) -> None:
    nlp = make(nested, min_confidence=0.5, types=["LOC", "PER"], spans_key="places")
    doc = nlp("The University of Toronto opened.")
    assert entities(doc, "places") == [("Toronto", "LOC")]
    assert list(doc.spans) == ["places"]
    assert doc.ents[0]._.fencepost_score == 0.9
    assert nlp.pipe_labels == {"fencepost": ["LOC", "PER"]}


def test_scores_are_saved_with_a_document(make) -> None:
    doc = make(nested)("The University of Toronto opened.")
    read = [Doc(spacy.blank("xx").vocab).from_bytes(doc.to_bytes())]
    saved = DocBin(docs=[doc]).to_bytes()
    read += DocBin().from_bytes(saved).get_docs(spacy.blank("xx").vocab)
    for again in read:
        assert entities(again) == entities(doc)
        assert [span._.fencepost_score for span in again.spans["fencepost"]] == [0.7, 0.9, 0.2]
        assert again.spans["fencepost"].attrs["unaligned"] == []


def test_every_span_of_a_long_text_has_its_own_score(make) -> None:
    doc = make(everything)("Ada met Charles. " * 40)
    group = doc.spans["fencepost"]
    assert len(group) > 200
    assert [span._.fencepost_score for span in group] == group.attrs["scores"].tolist()
    group.append(doc[0:2])  # now the scores cannot be assigned
    assert {span._.fencepost_score for span in group} == {None}


def test_score_is_none_if_two_components_disagree(make) -> None:
    nlp = make(nested)
    nlp.add_pipe("fencepost", name="second", config={"spans_key": "second"})
    doc = nlp("The University of Toronto opened.")
    assert [span._.fencepost_score for span in doc.spans["second"]] == [0.7, 0.9, 0.2]
    doc.spans["second"].attrs["scores"] = np.array([0.7, 0.4, 0.2])
    for span in (*doc.spans["fencepost"], *doc.spans["second"]):
        assert span._.fencepost_score == {"ORG": 0.7, "LOC": None, "PER": 0.2}[span.label_]


def test_other_span_groups_and_their_scores_are_ignored(make) -> None:
    nlp = make(nested)
    doc = nlp.make_doc("The University of Toronto opened.")
    doc.spans["sc"] = [Span(doc, 0, 2, label="ORG")]
    doc.spans["sc"].attrs["scores"] = np.array([0.3])
    for _ in range(2):
        doc = nlp(doc)
        assert entities(doc, "sc") == [("The University", "ORG")]
        assert len(doc.spans["fencepost"]) == 3
        assert doc.spans["sc"][0]._.fencepost_score is None


@pytest.mark.parametrize("text", ["", " ", "\n\n", "\u3000", "."])
def test_texts_without_words_have_no_entities(make, text) -> None:
    doc = make(marking(("Ada",)))(text)
    assert entities(doc) == []
    assert doc.spans["fencepost"].attrs["scores"].tolist() == []


def test_white_space_of_the_text_is_kept(make) -> None:
    doc = make(marking(("Ada",), ("in", "London")))("  Ada\n\n\nmet  him \t in\u00a0\u2009London .  Ada ")
    assert entities(doc) == [("Ada", "LOC"), ("in\u00a0\u2009London", "ORG"), ("Ada", "LOC")]


@pytest.mark.parametrize("language", ["de", "en", "ar"])
def test_works_in_pipelines_of_other_languages(make, language) -> None:
    doc = make(marking(("Ada",)), language=language)("Ada met Ada .")
    assert entities(doc) == [("Ada", "LOC")] * 2


def test_shipped_model_is_the_default() -> None:
    nlp = spacy.blank("xx")
    nlp.add_pipe("fencepost")
    doc = nlp("The University of Toronto's president met Ada Lovelace in London.")
    assert {("Ada Lovelace", "person"), ("London", "place")} <= set(entities(doc))
    assert doc.spans["fencepost"].has_overlap
    html = displacy.render(doc, style="span", options={"spans_key": "fencepost"}, jupyter=False)
    for label in {span.label_ for span in doc.spans["fencepost"]}:
        assert html.count(label) == sum(span.label_ == label for span in doc.spans["fencepost"])


# Flat entities


CROSSING = [
    Entity(0, 3, "ORG", 0.5),
    Entity(2, 4, "LOC", 0.8),
    Entity(0, 1, "PER", 0.4),
    Entity(2, 3, "PER", 0.9),
]


@pytest.mark.parametrize(
    ("ents", "expected"),
    [
        ("outermost", [("a b c", "ORG")]),
        ("innermost", [("a", "PER"), ("c", "PER")]),
        ("best", [("a", "PER"), ("c", "PER")]),
        (None, []),
    ],
)
def test_ents_has_the_selected_flat_entities(make, ents, expected) -> None:
    doc = make(lambda _: CROSSING, ents=ents)("a b c d")
    assert flat(doc) == expected
    assert len(doc.spans["fencepost"]) == 4
    assert doc.has_annotation("ENT_IOB") is (ents is not None)


def ruled(make, **config):
    """Return a document with earlier entities of a ruler, on `b`, `d e` and `g`."""
    find = [Entity(0, 3, "ORG", 0.5), Entity(0, 1, "PER", 0.4), Entity(3, 4, "LOC", 0.9)]
    nlp = make(lambda _: find, **config)
    ruler = nlp.add_pipe("entity_ruler", before="fencepost")
    ruler.add_patterns([{"label": "OLD", "pattern": words, "id": "known"} for words in ("b", "d e", "g")])
    return nlp("a b c d e f g")


def test_existing_entities_are_kept(make) -> None:
    doc = ruled(make)
    assert flat(doc) == [("a", "PER"), ("b", "OLD"), ("d e", "OLD"), ("g", "OLD")]
    assert [span.id_ for span in doc.ents] == ["", "known", "known", "known"]
    assert len(doc.spans["fencepost"]) == 3


def test_existing_entities_can_be_overwritten(make) -> None:
    doc = ruled(make, overwrite_ents=True)
    assert flat(doc) == [("a b c", "ORG"), ("d", "LOC"), ("g", "OLD")]
    assert [token.ent_id_ for token in doc] == [""] * 6 + ["known"]
    assert flat(ruled(make, ents=None, overwrite_ents=True)) == [("b", "OLD"), ("d e", "OLD"), ("g", "OLD")]


# Tokens other than those of the model


def own_tokens(nlp):
    """Return a document with unusual tokens such as `London's` and `AdaLove lace`."""
    words = ["London's", "University", "met", "AdaLove", "lace", "in", "York."]
    return Doc(nlp.vocab, words=words, spaces=[True, True, True, False, True, True, False])


@pytest.mark.parametrize(
    ("mode", "expected", "lost"),
    [
        ("strict", [("London's University", "ORG"), ("AdaLovelace", "PER")], ["London", "York"]),
        (
            "contract",
            [("London's University", "ORG"), ("AdaLovelace", "PER")],
            ["London", "York"],
        ),
        (
            "expand",
            [("London's", "LOC"), ("London's University", "ORG"), ("AdaLovelace", "PER"), ("York.", "LOC")],
            [],
        ),
    ],
)
def test_entities_are_aligned_with_the_tokens_of_a_document(make, mode, expected, lost) -> None:
    find = marking(("London",), ("London", "'s", "University"), ("AdaLovelace",), ("York",))
    nlp = make(find, alignment_mode=mode)
    doc = own_tokens(nlp)
    tokens = [token.text for token in doc]
    with warnings.catch_warnings(record=True) as messages:
        warnings.simplefilter("always")
        nlp(doc)
        nlp(own_tokens(nlp))
    assert [token.text for token in doc] == tokens
    assert entities(doc) == expected
    unaligned = doc.spans["fencepost"].attrs["unaligned"]
    assert [one["text"] for one in unaligned] == lost
    assert all(doc.text[one["start"] : one["end"]] == one["text"] for one in unaligned)
    assert len(messages) == bool(lost)
    if lost:
        assert unaligned[0] == {"start": 0, "end": 6, "label": "LOC", "score": 0.5, "text": "London"}
        assert "of the 4 entities in a text, 2 do not align with its tokens, such as 'London'" in str(
            messages[0].message
        )


def test_contract_keeps_whole_tokens_without_outer_white_space(make) -> None:
    nlp = make(marking(("met", "him")), alignment_mode="contract")
    doc = nlp(Doc(nlp.vocab, words=["Ada.met", "\n", "him"], spaces=[True, False, False]))
    assert doc.text == "Ada.met \nhim"
    spans = [Found(4, 12, "LOC", 0.5, "met \nhim")]
    assert align(doc, spans, "contract") == ([Entity(2, 3, "LOC", 0.5)], [])
    assert align(doc, spans, "expand") == ([Entity(0, 3, "LOC", 0.5)], [])
    assert align(doc, spans, "strict") == ([], spans)


@pytest.mark.parametrize("scores", [(0.2, 0.8), (0.8, 0.2)])
def test_entities_equal_after_alignment_keep_the_higher_score(scores) -> None:
    doc = Doc(VOCABULARY, words=["New-York"])
    spans = [Found(0, 3, "LOC", scores[0], "New"), Found(4, 8, "LOC", scores[1], "York")]
    assert align(doc, spans, "expand") == ([Entity(0, 1, "LOC", 0.8)], [])


VOCABULARY = spacy.blank("xx").vocab


@st.composite
def tokenised(draw):
    """Draw a document with any tokens, and spans of its characters like those of a recogniser."""
    words = draw(st.lists(st.text("ab .\n\u3000é😀", min_size=1, max_size=4), min_size=1, max_size=8))
    doc = Doc(
        VOCABULARY,
        words=words,
        spaces=draw(st.lists(st.booleans(), min_size=len(words), max_size=len(words))),
    )
    edges = st.integers(0, len(doc.text))
    spans = []
    for start, end in draw(st.lists(st.tuples(edges, edges), max_size=6)):
        text = doc.text[start:end]
        if text and not text[0].isspace() and not text[-1].isspace():
            spans.append(
                Found(start, end, draw(st.sampled_from("XY")), draw(st.sampled_from([0.2, 0.8])), text)
            )
    return doc, spans


def tokens_of(doc, one, mode):
    """Return the tokens of a span by a loop over all tokens."""
    places = [(token.i, token.idx, token.idx + len(token)) for token in doc if not token.is_space]
    if mode == "expand":
        inside = [at for at, start, end in places if start < one.end and one.start < end]
    else:
        inside = [at for at, start, end in places if one.start <= start and end <= one.end]
    if mode == "strict":
        starts, ends = {start for _, start, _ in places}, {end for *_, end in places}
        inside = inside if one.start in starts and one.end in ends else []
    return (inside[0], inside[-1] + 1) if inside else None


@pytest.mark.parametrize("mode", ALIGNMENT_MODES)
@given(tokenised())
def test_alignment_equals_a_loop_over_all_tokens(mode, example) -> None:
    doc, spans = example
    expected: dict[tuple[int, int, str], float] = {}
    lost = []
    for one in spans:
        place = tokens_of(doc, one, mode)
        if place is None:
            lost.append(one)
        else:
            expected[*place, one.type] = max(one.score, expected.get((*place, one.type), 0))
    matches, unaligned = align(doc, spans, mode)
    assert [(entity.key, entity.score) for entity in matches] == sorted(expected.items())
    assert unaligned == lost


# Streams


def test_pipe_predicts_batches_together(make, monkeypatch) -> None:
    nlp = make(marking(("Ada",)))
    recogniser, batches = nlp.get_pipe("fencepost").recogniser, []
    pipe = recogniser.pipe
    monkeypatch.setattr(recogniser, "pipe", lambda texts: batches.append(list(texts)) or pipe(texts))
    texts = [f"Ada{number} met Ada." for number in range(10)]
    pairs = nlp.pipe([(text, number) for number, text in enumerate(texts)], as_tuples=True, batch_size=4)
    for number, (doc, context) in enumerate(pairs):
        assert (doc.text, context) == (texts[number], number)
        assert entities(doc) == [("Ada", "LOC")]
    assert batches == [texts[:4], texts[4:8], texts[8:]]


def test_pipe_reads_one_batch_ahead(make) -> None:
    read = []
    stream = make(marking(("Ada",))).pipe((read.append(1) or "Ada" for _ in range(100)), batch_size=3)
    next(stream)
    assert len(read) == 3


def failing(sentence):
    if "Broken" in sentence.words:
        raise RuntimeError("this sentence fails")
    return marking(("Ada",))(sentence)


MIXED = ["Ada", "Broken Ada", "Ada sat", "Ada ran", "Broken"]


def test_failed_text_does_not_affect_others(make) -> None:
    nlp = make(failing)
    failed = []

    def handle(name, component, docs, error):
        failed.append((name, component, [doc.text for doc in docs], str(error)))

    nlp.set_error_handler(handle)
    docs = list(nlp.pipe(MIXED, batch_size=3))
    assert [doc.text for doc in docs] == ["Ada", "Ada sat", "Ada ran"]
    assert all(entities(doc) == [("Ada", "LOC")] for doc in docs)
    component = nlp.get_pipe("fencepost")
    assert failed == [
        ("fencepost", component, [text], "this sentence fails") for text in ("Broken Ada", "Broken")
    ]


def test_error_without_a_handler_is_raised(make) -> None:
    stream = make(failing).pipe(MIXED)
    assert next(stream).text == "Ada"
    with pytest.raises(RuntimeError, match="this sentence fails"):
        next(stream)


# Processes


def test_several_processes_predict_the_same(folder) -> None:
    nlp = spacy.blank("xx")
    nlp.add_pipe("fencepost", config={"model": str(folder), "threads": 1})
    expected = [entities(doc) for doc in nlp.pipe(TEXTS)]
    assert [len(spans) for spans in expected] == [3, 0, 3, 0, 1]
    docs = list(nlp.pipe(TEXTS, n_process=2, batch_size=2))
    assert [entities(doc) for doc in docs] == expected
    assert all(span._.fencepost_score for doc in docs for span in doc.spans["fencepost"])


def test_each_process_loads_its_own_recogniser(folder) -> None:
    nlp = spacy.blank("xx")
    component = nlp.add_pipe("fencepost", config={"model": str(folder)})
    first = component.recogniser
    assert component.recogniser is first
    component._process = -1  # like in a fork
    second = component.recogniser
    assert second is not first
    assert component.recogniser is second
    assert entities(nlp(TEXTS[0])) == [("Ada", "PER"), ("Charles", "PER"), ("London", "LOC")]


def test_pickled_pipeline_works(folder) -> None:
    nlp = spacy.blank("xx")
    nlp.add_pipe("fencepost", config={"model": str(folder), "ents": "best"})
    content = pickle.dumps(nlp)
    assert len(content) < 3_000_000  # the vocabulary; not the model
    again = pickle.loads(content)  # noqa: S301
    assert again.get_pipe("fencepost").name == "fencepost"
    assert flat(again(TEXTS[0])) == flat(nlp(TEXTS[0])) != []


# Saved pipelines


def test_saved_pipeline_contains_its_model_and_can_be_moved(folder, tmp_path) -> None:
    """A new process without PyTorch loads it after the original model folder was removed."""
    shutil.copytree(folder, tmp_path / "model")
    (tmp_path / "model" / "run.yaml").write_text("not a part of the model")
    nlp = spacy.blank("xx")
    nlp.add_pipe("fencepost", config={"model": str(tmp_path / "model"), "min_confidence": 0.1})
    nlp.rename_pipe("fencepost", "names")
    nlp.to_disk(tmp_path / "pipeline")
    shutil.rmtree(tmp_path / "model")
    (tmp_path / "pipeline").rename(tmp_path / "moved")
    model = tmp_path / "moved" / "names" / "model"
    names = {path.relative_to(model).as_posix() for path in model.rglob("*") if path.is_file()}
    assert {"config.json", "model.safetensors", "onnx/encoder.onnx", "onnx/export.json"} <= names
    assert "run.yaml" not in names
    program = """
import json, sys
for name in ("torch", "transformers", "safetensors", "scipy"): sys.modules[name] = None
import spacy
nlp = spacy.load("moved")
assert nlp.pipe_labels == {"names": ["LOC", "ORG", "PER"]}
docs = list(nlp.pipe(sys.argv[1:]))
print(json.dumps([[[s.text, s.label_, s._.fencepost_score] for s in doc.spans["fencepost"]] for doc in docs]))
"""
    result = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", program, *TEXTS],
        capture_output=True,
        encoding="utf-8",
        cwd=tmp_path,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    expected = [
        [[span.text, span.label_, pytest.approx(span._.fencepost_score)] for span in doc.spans["fencepost"]]
        for doc in nlp.pipe(TEXTS)
    ]
    assert json.loads(result.stdout) == expected
    assert expected[0]


def saved(folder: Path, path: Path) -> Path:
    nlp = spacy.blank("xx")
    nlp.add_pipe("fencepost", config={"model": str(folder)})
    nlp.to_disk(path)
    return path


def test_pipeline_is_saved_to_its_own_and_another_folder(folder, tmp_path) -> None:
    first = saved(folder, tmp_path / "first")
    nlp = spacy.load(first)
    nlp.to_disk(first)
    nlp.to_disk(tmp_path / "second")
    again = spacy.load(tmp_path / "second", config={"components": {"fencepost": {"types": ["PER"]}}})
    assert entities(again(TEXTS[0])) == [("Ada", "PER"), ("Charles", "PER")]
    assert len(entities(spacy.load(first)(TEXTS[0]))) == 3


def test_sourced_component_is_saved_with_its_model(folder, tmp_path) -> None:
    shutil.copytree(folder, tmp_path / "model")
    source = spacy.blank("xx")
    source.add_pipe("fencepost", config={"model": str(tmp_path / "model")})
    nlp = spacy.blank("xx")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("fencepost", source=source)
    nlp.add_pipe("fencepost", name="second", source=source)
    nlp.to_disk(tmp_path / "pipeline")
    shutil.rmtree(tmp_path / "model")
    again = spacy.load(tmp_path / "pipeline")
    assert again.pipe_names == ["sentencizer", "fencepost", "second"]
    assert len(entities(again(TEXTS[0]))) == 3


def test_component_can_be_added_again_to_a_loaded_pipeline(folder, tmp_path) -> None:
    """Its name is known from the saved pipeline, but that is not being read."""
    nlp = spacy.blank("xx")
    nlp.add_pipe("fencepost", config={"model": str(folder)})
    nlp.to_disk(tmp_path / "pipeline")
    for pipeline in (nlp, spacy.load(tmp_path / "pipeline")):
        pipeline.remove_pipe("fencepost")
        with pytest.raises(UsageError, match="nowhere: not a model folder"):
            pipeline.add_pipe("fencepost", config={"model": "nowhere"})


def test_saved_pipeline_can_be_loaded_with_another_model(folder, tmp_path) -> None:
    path, other = saved(folder, tmp_path / "pipeline"), tmp_path / "other"
    shutil.copytree(folder, other)

    def loaded(path, model):
        nlp = spacy.load(path, config={"components": {"fencepost": {"model": model}}})
        return nlp, nlp.get_pipe("fencepost").recogniser.folder

    assert loaded(path, str(folder))[1] == path / "fencepost" / "model"
    nlp, used = loaded(path, str(other))
    assert used == other
    nlp.to_disk(tmp_path / "again")
    shutil.rmtree(other)
    with pytest.raises(UsageError, match=f"{other}: not a model folder"):
        loaded(path, str(other))
    assert loaded(tmp_path / "again", str(other))[1] == tmp_path / "again" / "fencepost" / "model"
    shipped, _ = loaded(path, None)
    assert "person" in shipped.get_pipe("fencepost").labels
    shipped.from_disk(path)  # now the saved model is requested
    assert shipped.get_pipe("fencepost").labels == ("LOC", "ORG", "PER")


def test_bytes_can_be_loaded_with_another_model(folder) -> None:
    nlp = spacy.blank("xx")
    nlp.add_pipe("fencepost", config={"model": str(folder)})
    config = nlp.config.merge({"components": {"fencepost": {"model": None}}})
    again = get_lang_class("xx").from_config(config, meta=nlp.meta).from_bytes(nlp.to_bytes())
    assert "person" in again.get_pipe("fencepost").labels


def test_saving_replaces_another_model_and_keeps_other_files(folder, tmp_path) -> None:
    path = saved(folder, tmp_path / "pipeline")
    model = path / "fencepost" / "model"
    for name in ("notes.txt", "tokenizer.json", "onnx/old.onnx"):
        (model / name).write_text("{}")
    saved(folder, path)
    assert (model / "notes.txt").is_file()
    assert not (model / "tokenizer.json").exists()
    assert not (model / "onnx" / "old.onnx").exists()
    assert len(entities(spacy.load(path)(TEXTS[0]))) == 3
    nlp = spacy.load(path)
    (path / "fencepost" / "fencepost.json").write_text('{"shipped": true}')
    nlp.from_disk(path)
    assert "person" in nlp.get_pipe("fencepost").labels
    nlp.to_disk(path)
    assert [one.name for one in model.rglob("*") if one.is_file()] == ["notes.txt"]


def test_saving_writes_nothing_outside_the_pipeline(folder, tmp_path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("kept")
    (tmp_path / "pipeline" / "fencepost" / "model").mkdir(parents=True)
    for name in ("config.json", "vocabulary.json"):
        (tmp_path / "pipeline" / "fencepost" / "model" / name).symlink_to(outside / "precious")
    saved(folder, tmp_path / "pipeline")
    assert (outside / "precious").read_text() == "kept"
    (tmp_path / "linked" / "fencepost").mkdir(parents=True)
    (tmp_path / "linked" / "fencepost" / "model").symlink_to(outside)
    with pytest.raises(UsageError, match="model: is a link, which may lead out of the pipeline's folder"):
        saved(folder, tmp_path / "linked")
    assert [path.name for path in outside.iterdir()] == ["precious"]


def test_reports_a_pipeline_without_its_model(folder, tmp_path) -> None:
    shutil.copytree(folder, tmp_path / "model")
    path = saved(tmp_path / "model", tmp_path / "pipeline")
    nlp = spacy.blank("xx")
    nlp.add_pipe("fencepost", config={"model": str(tmp_path / "model")})
    shutil.rmtree(tmp_path / "model")
    with pytest.raises(UsageError, match=f"{tmp_path / 'model'}: the model no longer exists"):
        nlp.to_disk(tmp_path / "other")
    with pytest.raises(UsageError, match="the model no longer exists"):
        nlp.to_bytes()
    shutil.rmtree(path / "fencepost" / "model")
    with pytest.raises(UsageError, match=f"{path / 'fencepost' / 'model'}: not a model folder"):
        spacy.load(path)
    (path / "fencepost" / "fencepost.json").write_text("{")
    with pytest.raises(DataError, match=r"fencepost\.json: this file is not valid JSON"):
        spacy.load(path)
    shutil.rmtree(path / "fencepost")  # then only the config is left
    with pytest.raises(UsageError, match=f"{tmp_path / 'model'}: not a model folder"):
        spacy.load(path)
    shutil.copytree(folder, tmp_path / "model")
    assert len(entities(spacy.load(path)(TEXTS[0]))) == 3


def test_shipped_model_is_not_copied(tmp_path) -> None:
    nlp = spacy.blank("xx")
    nlp.add_pipe("fencepost")
    nlp.to_disk(tmp_path / "pipeline")
    assert [path.name for path in (tmp_path / "pipeline" / "fencepost").rglob("*")] == ["fencepost.json"]
    assert flat(spacy.load(tmp_path / "pipeline")("Ada Lovelace")) == flat(nlp("Ada Lovelace"))
    assert len(nlp.get_pipe("fencepost").to_bytes()) < 100


def test_bytes_contain_the_model(folder, tmp_path) -> None:
    shutil.copytree(folder, tmp_path / "model")
    nlp = spacy.blank("xx")
    nlp.add_pipe("fencepost", config={"model": str(tmp_path / "model")})
    expected = entities(doc := nlp(TEXTS[0]))
    data, config, meta = nlp.to_bytes(), nlp.config, nlp.meta
    shutil.rmtree(tmp_path / "model")
    again = get_lang_class("xx").from_config(config, meta=meta)
    with pytest.raises(UsageError, match="not a model folder"):
        again("Ada")
    again.from_bytes(data)
    assert entities(again(TEXTS[0])) == expected
    assert again.to_bytes() == data
    again.to_disk(tmp_path / "pipeline")
    assert entities(spacy.load(tmp_path / "pipeline")(TEXTS[0])) == expected
    assert entities(pickle.loads(pickle.dumps(again))(doc.text)) == expected  # noqa: S301


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"Ada",
        srsly.msgpack_dumps({"shipped": False}),
        srsly.msgpack_dumps({"shipped": False, "files": {"../config.json": b"{}"}}),
        srsly.msgpack_dumps({"shipped": False, "files": {"onnx/../../x.onnx": b""}}),
        srsly.msgpack_dumps({"shipped": False, "files": {"/tmp/x.onnx": b""}}),  # noqa: S108
        srsly.msgpack_dumps({"shipped": False, "files": {"onnx/*.onnx": b""}}),
        srsly.msgpack_dumps({"shipped": False, "files": {"config.json": "text"}}),
    ],
)
def test_refuses_other_bytes(make, data) -> None:
    component = make(nested).get_pipe("fencepost")
    with pytest.raises(DataError, match="fencepost: these bytes are not a component of Fencepost"):
        component.from_bytes(data)
    assert component.recogniser.engine == "double"


def test_model_that_cannot_be_loaded_keeps_the_current_one(folder) -> None:
    nlp = spacy.blank("xx")
    component = nlp.add_pipe("fencepost", config={"model": str(folder)})
    before = component.to_bytes()
    broken = srsly.msgpack_dumps({"shipped": False, "files": {"config.json": b"{}"}})
    with pytest.raises(DataError):
        component.from_bytes(broken)
    assert component.to_bytes() == before
    assert len(entities(nlp(TEXTS[0]))) == 3


# Configuration


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model": "nowhere"}, "nowhere: not a model folder"),
        ({"engine": "fast"}, "there is no engine 'fast'; there are auto, int8, onnx, pytorch"),
        ({"min_confidence": 2}, "min_confidence is 2"),
        ({"types": ["persn"]}, r"there is no type 'persn'; did you mean person\?"),
        (
            {"settings": {"selct": "flat"}},
            r"predict.selct: there is no such key; did you mean predict.select",
        ),
        ({"language": "qq"}, "there are no rules for the language 'qq'"),
        ({"lines": "never"}, "there is no value of lines 'never'; there are auto, break, join"),
        ({"ents": "outer"}, r"there is no choice of ents 'outer'; did you mean outermost\?"),
        (
            {"alignment_mode": "loose"},
            "there is no alignment_mode 'loose'; there are strict, contract, expand",
        ),
        ({"types": "person"}, "types"),
        ({"threads": "two"}, "threads"),
        ({"confidence": 0.5}, "unexpected argument: 'confidence'"),
    ],
)
def test_refuses_a_wrong_config_when_added(config, message) -> None:
    nlp = spacy.blank("xx")
    with pytest.raises((UsageError, ValueError), match=message):
        nlp.add_pipe("fencepost", config=config)
    assert nlp.pipe_names == []


def test_refuses_a_wrong_model_in_new_and_loaded_pipelines(folder, tmp_path) -> None:
    nlp = spacy.blank("xx")
    nlp.add_pipe("fencepost", config={"model": str(folder)})
    nlp.to_disk(tmp_path / "pipeline")
    for pipeline in (nlp, spacy.load(tmp_path / "pipeline")):
        with pytest.raises(UsageError, match="nowhere: not a model folder"):
            pipeline.add_pipe("fencepost", name="second", config={"model": "nowhere"})
        pipeline.add_pipe("fencepost", name="second", config={"model": str(folder), "spans_key": "other"})
        doc = pipeline(TEXTS[0])
        assert entities(doc) == entities(doc, "other") != []


def test_config_reproduces_the_pipeline(folder) -> None:
    nlp = spacy.blank("xx")
    config = {
        "model": str(folder),
        "settings": {"select": "flat"},
        "types": ["LOC"],
        "ents": None,
        "threads": 1,
    }
    nlp.add_pipe("fencepost", config=config)
    again = get_lang_class("xx").from_config(nlp.config.from_str(nlp.config.to_str()))
    assert again.config["components"] == nlp.config["components"]
    assert again.get_pipe("fencepost").recogniser.settings["select"] == "flat"
    doc = again(TEXTS[0])
    assert (entities(doc), doc.ents) == ([("London", "LOC")], ())
    filled = nlp.get_pipe_config("fencepost")
    assert {key: filled[key] for key in config} == config
    assert (filled["spans_key"], filled["overwrite_ents"], filled["alignment_mode"]) == (
        "fencepost",
        False,
        "strict",
    )


def test_component_describes_itself_to_spacy(make) -> None:
    nlp = make(nested)
    about = nlp.analyze_pipes()["summary"]["fencepost"]
    assert {"doc.spans", "doc.ents"} <= set(about["assigns"])
    assert (about["requires"], about["retokenizes"]) == ([], False)
    nlp.initialize()
    assert nlp.pipe_labels == {"fencepost": ["LOC", "ORG", "PER"]}
    assert flat(nlp("The University of Toronto opened.")) == [("University of Toronto", "ORG")]


def test_full_disk_message_names_the_file(folder, tmp_path) -> None:
    nlp = spacy.blank("xx")
    component = nlp.add_pipe("fencepost", config={"model": str(folder)})
    with (
        file_size_limit(10_000),
        pytest.raises(WriteError, match=rf"^{tmp_path}/model/\S+: cannot be written: "),
    ):
        component.to_disk(tmp_path)
