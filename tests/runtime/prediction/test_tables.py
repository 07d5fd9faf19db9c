"""Predicted texts as CSV, Excel, Parquet and HTML."""

import csv
import io
import json
import re
from html.parser import HTMLParser

import openpyxl
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.data import read
from fencepost.runtime.document import Document, Span
from fencepost.runtime.prediction.results import PredictedText
from fencepost.runtime.prediction.tables import write_table
from fencepost.runtime.prediction.text import Text


def predicted(text, *entities, **fields):
    spans = [Span(start, end, type_, score, text[start:end]) for start, end, type_, score in entities]
    document = Document(text)
    document.extend(spans)
    return PredictedText(Text(text, fields), document)


TEXTS = [
    predicted("Ada met Bob", (0, 3, "PER", 0.75), (0, 11, "EVENT", 0.5), n=1, tags=["a", "b"]),
    predicted('=1, "x"\r\n<b>', n=2, tags=[]),
]
ENTITIES = [
    {"start": 0, "end": 3, "type": "PER", "score": 0.75, "text": "Ada"},
    {"start": 0, "end": 11, "type": "EVENT", "score": 0.5, "text": "Ada met Bob"},
]


def test_csv_has_a_row_per_text_with_its_other_columns(tmp_path):
    assert not +write_table(TEXTS, tmp_path / "out.csv", "csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_bytes().decode(), newline="")))
    assert [row["text"] for row in rows] == ["Ada met Bob", '=1, "x"\r\n<b>']
    assert json.loads(rows[0]["entities"]) == ENTITIES
    assert [(row["n"], row["tags"]) for row in rows] == [("1", '["a", "b"]'), ("2", "[]")]
    assert list(rows[0]) == ["n", "tags", "text", "entities"]


def test_parquet_keeps_types_and_can_be_read_as_a_corpus(tmp_path):
    assert not +write_table(TEXTS, tmp_path / "out.parquet", "parquet")
    frame = pd.read_parquet(tmp_path / "out.parquet")
    assert frame["n"].tolist() == [1, 2]
    assert [list(tags) for tags in frame["tags"]] == [["a", "b"], []]
    assert list(frame["entities"][0]) == ENTITIES
    first = next(read(tmp_path / "out.parquet"))
    assert {entity.key for entity in first.entities} == {(0, 1, "PER"), (0, 3, "EVENT")}


def test_values_that_cannot_be_represented_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr("fencepost.runtime.prediction.tables._HEAD", 1)
    texts = [predicted("a", n=1, s="x"), predicted("b", n="two", s=3, new=1), predicted("c", n=3, s=None)]
    losses = write_table(texts, tmp_path / "out.parquet", "parquet")
    assert +losses == {
        "values of 'new', absent from the first texts": 1,
        "values of 'n' that have another type than the first ones": 1,
    }
    frame = pd.read_parquet(tmp_path / "out.parquet")
    assert frame["text"].tolist() == ["a", "b", "c"]
    assert frame["n"].fillna(0).tolist() == [1, 0, 3]
    assert frame["s"].tolist()[:2] == ["x", "3"]


def test_excel_texts_are_never_formulas(tmp_path):
    losses = write_table([*TEXTS, predicted("x" * 40_000 + "\x01")], tmp_path / "out.xlsx", "xlsx")
    rows = list(openpyxl.load_workbook(tmp_path / "out.xlsx").active.iter_rows())
    assert rows[2][2].data_type == "s"
    assert rows[2][2].value.startswith("=1")
    assert +losses == {
        "texts that Excel does not allow (too long, or control characters)": 2
    }  # also a carriage return


def test_no_texts_give_a_table_without_rows(tmp_path):
    for kind in ("csv", "xlsx", "parquet", "html"):
        write_table([], tmp_path / "out", kind)
    write_table([], tmp_path / "out.csv", "csv")
    assert (tmp_path / "out.csv").read_text().strip() == "text,entities"


class Content(HTMLParser):
    """The text of articles, without labels and headers, and the labels."""

    def __init__(self, page):
        super().__init__()
        self.texts, self.labels, self.inside = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        if tag != "meta":
            self.inside.append(tag)
        if tag == "article":
            self.texts.append("")

    def handle_endtag(self, tag):
        assert self.inside.pop() == tag

    def handle_data(self, data):
        if "small" in self.inside:
            self.labels.append(data)
        elif "article" in self.inside and "header" not in self.inside:
            self.texts[-1] += data


@st.composite
def annotated_texts(draw):
    text = draw(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), min_size=1))
    places = st.integers(0, len(text))
    pairs = draw(st.lists(st.tuples(places, places), max_size=6))
    spans = [(min(pair), max(pair), draw(st.sampled_from(["<A>", "B"])), 0.5) for pair in pairs]
    return predicted(text, *[span for span in spans if span[0] < span[1]], key=draw(st.text("<&'\"x")))


@settings(max_examples=50)
@given(texts=st.lists(annotated_texts(), max_size=3))
def test_html_is_well_formed_with_all_texts_and_entities(texts, tmp_path_factory):
    path = tmp_path_factory.mktemp("html") / "out.html"
    write_table(texts, path, "html")
    page = path.read_bytes().decode()
    content = Content(page)
    assert content.texts == [one.annotated.text for one in texts]
    assert sorted(content.labels) == sorted(f"{s.type} 0.50" for one in texts for s in one.annotated)
    assert not re.search(r"<script|<img|<link|https?:", page.split("<body>")[0])
    assert content.inside == []
