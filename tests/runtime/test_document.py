"""A text with its entities: a list that can be exported and drawn."""

import json
import pickle
import sys
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fencepost
from fencepost import Document, Entity, Sentence, Span, UsageError
from fencepost.runtime.recogniser import Recogniser
from tests.runtime.doubles import TYPES, Double, everything

TEXT = "Ada Lovelace met 😀 Charles <b>Babbage</b> in London."


@pytest.fixture
def document() -> Document:
    return Recogniser(Double(everything))(TEXT)


def test_document_is_a_list_of_entities_in_reading_order(document) -> None:
    assert isinstance(document, list)
    assert document == list(document) != []
    assert [(span.start, span.end) for span in document] == sorted((s.start, s.end) for s in document)
    assert all(TEXT[span.start : span.end] == span.text for span in document)
    assert all(span.label == span.type for span in document)
    again = pickle.loads(pickle.dumps(document))  # noqa: S301 - our own bytes
    assert (again, again.text, again.sentences) == (document, document.text, document.sentences)


def test_json_has_offsets_in_the_chosen_unit(document) -> None:
    record = json.loads(document.to_json())
    assert record == document.to_dict()
    assert record == {"text": TEXT, "entities": [span.to_dict() for span in document]}
    units, octets = document.to_dict("utf-16"), json.loads(document.to_json("bytes", indent=1))
    wide, narrow = TEXT.encode("utf-16-le"), TEXT.encode()
    for span, unit, octet in zip(document, units["entities"], octets["entities"], strict=True):
        assert wide[2 * unit["start"] : 2 * unit["end"]].decode("utf-16-le") == span.text
        assert narrow[octet["start"] : octet["end"]].decode() == span.text
    with pytest.raises(UsageError, match="there is no unit 'words'"):
        document.to_dict("words")


class Content(HTMLParser):
    """Text of a page without labels and styles, and the names of all elements."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text, self.labels, self.tags, self._open = "", [], set(), []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag != "meta":
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if "small" in self._open:
            self.labels.append(data)
        elif "article" in self._open:
            self.text += data


@given(st.text(alphabet="ab <>&\"'é😀\n", min_size=1, max_size=30))
def test_html_shows_text_and_entities_escaped(text: str) -> None:
    document = Recogniser(Double(everything))(text)
    page, fragment = Content(document.to_html()), Content(document._repr_html_())
    for content in (page, fragment):
        assert content.text.rstrip("\n") == text.rstrip("\n")
        assert sorted(content.labels) == sorted(f"{span.type} {span.score:.2f}" for span in document)
    assert page.tags <= {*("html", "head", "meta", "title", "style", "body", "footer", "p"), *fragment.tags}
    assert fragment.tags <= {"style", "article", "mark", "small"}


def test_data_frame_has_a_row_per_entity(document) -> None:
    frame = document.to_dataframe()
    assert list(frame.columns) == ["start", "end", "type", "score", "text"]
    assert [Span(*row) for row in frame.itertuples(index=False)] == document
    assert list(Document("nothing").to_dataframe().columns) == list(frame.columns)


def test_names_libraries_that_are_not_installed(document, monkeypatch) -> None:
    for name in ("pandas", "spacy"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match=r"to_dataframe needs pandas, .*: pip install pandas"):
        document.to_dataframe()
    with pytest.raises(UsageError, match=r"to_spacy needs spacy, .*: pip install 'fencepost\[spacy\]'"):
        document.to_spacy()


def test_spacy_document_has_every_entity(document) -> None:
    spacy = pytest.importorskip("spacy")
    doc = document.to_spacy()
    spans = doc.spans["fencepost"]
    assert {(s.start_char, s.end_char, s.label_) for s in spans} == {
        (s.start, s.end, s.type) for s in document
    }
    outermost = [ent.text for ent in doc.ents]
    assert outermost == [TEXT]
    assert not document.to_spacy(ents=None).ents
    german = document.to_spacy(spacy.blank("de"), spans_key="mine")
    assert german.lang_ == "de"
    assert {span.label_ for span in german.spans["mine"]} == set(TYPES)


def test_document_without_entities_can_be_exported() -> None:
    document = Document("Nothing here.", [Sentence(["Nothing", "here", "."])], [[(0, 7), (8, 12), (12, 13)]])
    assert document == []
    assert document.to_dict() == {"text": "Nothing here.", "entities": []}
    assert "Nothing here." in document._repr_html_()
    assert "No entities" in document.to_html()


def test_list_of_texts_is_refused_with_a_hint_at_pipe() -> None:
    ner = Recogniser(Double(everything))
    with pytest.raises(UsageError, match=r"a text is a string, not list; use pipe for several: ner\.pipe"):
        ner(["Ada", "Bob"])
    assert [document.text for document in ner.pipe(["Ada", "Bob"])] == ["Ada", "Bob"]


@pytest.mark.parametrize("text", [None, 3, float("nan"), b"Ada"])
def test_what_no_method_takes_is_refused_without_a_hint(text) -> None:
    with pytest.raises(UsageError, match=rf"^a text is a string, not {type(text).__name__}$"):
        Recogniser(Double(everything))(text)


def test_sentence_in_place_of_a_text_is_refused_with_a_hint_at_predict() -> None:
    with pytest.raises(UsageError, match=r"not Sentence; use predict for sentences: ner\.predict"):
        Recogniser(Double(everything))(Sentence(["Ada"]))  # type: ignore[arg-type]


def test_recogniser_repr_has_model_method_types_and_engine() -> None:
    assert repr(Recogniser(Double(everything))) == (
        "<Recogniser in memory: double, types LOC, ORG, PER, engine double>"
    )
    assert repr(fencepost.load()).startswith("<Recogniser names: boundary-smoothing, types event, ")
    assert repr(fencepost.load()).endswith(", engine int8>")


def test_entity_of_words_never_equals_a_span_of_characters() -> None:
    """`Entity` counts words, `Span` characters: they are never equal."""
    assert Entity(0, 1, "PER", 0.5) != Span(0, 1, "PER", 0.5, "A")
