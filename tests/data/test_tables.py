"""Tables: CSV and TSV, Excel workbooks, Parquet, data frames, and JSON with other keys."""

import csv
import json

import openpyxl
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fencepost
from fencepost.data import Reader, ReadOptions, read, write
from fencepost.data.cells import parse_list
from fencepost.data.formats import workbook
from fencepost.errors import DataError, UsageError

WORDS = """\
Sentence #,Word,POS,Tag
Sentence: 1,Thousands,NNS,O
,in,IN,O
,New,NNP,B-geo
,York,NNP,I-geo
Sentence: 2,Ada,NNP,B-per
,.,.,O
"""
ENTITIES = """\
id,text,start,end,label
1,Ada Lovelace met Bob,0,12,PER
1,Ada Lovelace met Bob,17,20,PER
2,Nothing here,,,
"""
ROWS = """\
text,entities
Ada met Bob,"[[0, 3, ""PER""], [8, 11, ""PER""]]"
Nothing here,
"""


def content(sentences):
    return [(" ".join(one.words), [(e.start, e.end, e.type) for e in one.entities]) for one in sentences]


FOUND = {
    WORDS: [("Thousands in New York", [(2, 4, "geo")]), ("Ada .", [(0, 1, "per")])],
    ENTITIES: [("Ada Lovelace met Bob", [(0, 2, "PER"), (3, 4, "PER")]), ("Nothing here", [])],
    ROWS: [("Ada met Bob", [(0, 1, "PER"), (2, 3, "PER")]), ("Nothing here", [])],
}


@pytest.fixture
def table(tmp_path):
    """Write a file and return its path."""

    def make(text, name="table.csv"):
        path = tmp_path / name
        path.write_text(text, "utf-8")
        return path

    return make


@pytest.mark.parametrize("text", FOUND)
@pytest.mark.parametrize("name", ["table.csv", "TABLE.CSV", "table.tsv", "table.txt"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_detects_and_reads_each_layout(table, text, name, delimiter):
    rows = [line.split(",", 1 if text == ROWS else -1) for line in text.splitlines()]
    reader = Reader(table("\n".join(map(delimiter.join, rows)), name))
    assert content(reader) == FOUND[text]
    assert reader.format.name == "csv"


@pytest.mark.parametrize("text", FOUND)
def test_workbook_is_read_like_csv(table, text, tmp_path):
    frame = pd.read_csv(table(text))
    path = tmp_path / "book.xlsx"
    frame.to_excel(path, index=False)
    reader = Reader(path)
    assert content(reader) == FOUND[text]
    assert reader.format.name == "xlsx"


@pytest.mark.parametrize("text", FOUND)
def test_parquet_and_data_frames_are_read_like_csv(table, text, tmp_path):
    frame = pd.read_csv(table(text))
    for one in (frame, pl.read_csv(table(text)), pl.read_csv(table(text)).to_arrow()):
        assert content(read(one)) == FOUND[text]
    frame.to_parquet(tmp_path / "data")
    reader = Reader(tmp_path / "data")
    assert content(reader) == FOUND[text]
    assert reader.format.name == "parquet"


def test_keeps_ids_parts_of_speech_and_documents(table):
    first, _ = read(table(WORDS))
    assert (first.id, first.pos) == ("Sentence: 1", ("NNS", "IN", "NNP", "NNP"))
    assert [one.doc for one in read(table(ENTITIES))] == ["1", "2"]


def test_columns_can_be_chosen(table):
    text = ENTITIES.replace("text,start,end,label", "body,from,to,kind")
    options = ReadOptions(columns="text=body,start=from,end=to,label=kind")
    assert content(read(table(text), options=options)) == FOUND[ENTITIES]
    text = WORDS.replace("Sentence #,Word,POS,Tag", "s,w,p,t")
    options = ReadOptions(columns={"sentence": "s", "words": "w", "tags": "t"})
    assert content(read(table(text), options=options)) == FOUND[WORDS]


def test_keys_of_json_can_be_chosen(table):
    lines = [{"body": "Ada met Bob", "marks": [[0, 3, "PER"]]}, {"body": "Bob", "marks": []}]
    path = table("\n".join(map(json.dumps, lines)), "data.jsonl")
    with pytest.raises(DataError, match="as --columns text=body,entities=marks"):
        list(read(path))
    options = ReadOptions(columns="text=body,entities=marks")
    assert content(read(path, options=options)) == [("Ada met Bob", [(0, 1, "PER")]), ("Bob", [])]


def test_train_takes_columns_for_files_and_frames(table):
    from fencepost.data.collect import collect_sentences

    for data in (table("body,marks\nAda met Bob,\n"), pd.DataFrame([{"body": "Ada met Bob", "marks": []}])):
        sentences = collect_sentences(data, "train", {"text": "body", "spans": "marks"})[0]
        assert content(sentences) == [("Ada met Bob", [])]


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (ENTITIES.replace("17,20", "17,x"), 2, "line 3: 'end' is 'x', not an integer"),
        (ENTITIES.replace("17,20", "17,99"), 2, "the span PER [17, 99) is empty or lies outside the text"),
        (
            ENTITIES.replace("2,Nothing here,,,", "2,Nothing here,,"),
            4,
            "the row has 4 fields, but the header has 5",
        ),
        (WORDS.replace(",in,IN,O", ",in,IN"), 2, "line 3: the row has 3 fields, but the header has 4"),
        (ROWS.replace("[[0", "[[[0"), 2, "'entities': '[[[0, 3, "),
        (WORDS + "Sentence: 1,again,NN,O\n", 8, "the sentence 'Sentence: 1' also has rows further above"),
    ],
)
def test_broken_row_rejects_only_itself_with_its_line(table, text, line, reason):
    rejected = []
    sentences = content(Reader(table(text), on_invalid=rejected.append))
    [one] = rejected
    assert (one.line, one.reason[: len(reason)]) == (line, reason)
    whole = next(whole for start, whole in FOUND.items() if text[:9] == start[:9])
    assert sentences
    assert all(sentence in whole for sentence in sentences)


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("a,b\n1,2\n", None, "there are no sentences in the columns 'a', 'b'"),
        ("text,entities\nx,[]\n", "text=body", "--columns text=body, but the columns are 'text', 'entities'"),
        ("text\nx\n", "text", "--columns takes PART=COLUMN"),
        ("text\nx\n", "txt=text", "there is no column 'txt'; did you mean text?"),
        ("text\nx\n", "words=text,tokens=text", "names two columns for one part"),
        ("word,tag\na,O\nb,O\nc,O\n", "words=word,tags=tag", "no column says which sentence it belongs to"),
    ],
)
def test_refuses_columns_without_sentences_and_lists_them(table, text, columns, message):
    with pytest.raises(UsageError) as caught:
        list(read(table(text), options=ReadOptions(columns=columns)))
    assert message in str(caught.value)


def test_refuses_columns_option_for_other_formats(table):
    with pytest.raises(UsageError, match="--columns works with JSON, CSV, Excel and Parquet, not with conll"):
        read(table("a O\n"), "conll", ReadOptions(columns="text=a"))


def test_written_tables_are_read_back(tmp_path):
    sentences = [fencepost.Sentence(["Ada", "="], [fencepost.Entity(0, 1, "PER", 0.5)], id="a", doc="=1+1")]
    for name in ("out.csv", "out.xlsx", "out.parquet", "out.tsv"):
        write(sentences, tmp_path / name, "csv" if name.endswith("tsv") else None)
        assert list(read(tmp_path / name)) == sentences
    assert (tmp_path / "out.tsv").read_text().startswith("id\tdoc\ttext\twords\tentities\na\t=1+1\tAda =\t")
    assert openpyxl.load_workbook(tmp_path / "out.xlsx").active["B2"].data_type == "s"  # no formula


@pytest.mark.parametrize("first", "=+-@\t\r")
def test_cells_that_look_like_formulas_stay_text(first, tmp_path):
    sentences = [fencepost.Sentence([f"{first}1+1"])]
    write(sentences, tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as stream:
        assert next(csv.DictReader(stream))["text"] == f"{first}1+1"
    assert list(read(tmp_path / "out.csv")) == sentences
    if first != "\r":  # a workbook cannot represent it
        write(sentences, tmp_path / "out.xlsx")
        assert openpyxl.load_workbook(tmp_path / "out.xlsx").active["C2"].data_type == "s"


def test_offset_that_no_float_can_represent_makes_a_row_invalid():
    rejected = []
    row = {"text": "Ada", "start": 10**400, "end": 1, "type": "PER"}
    assert list(read([row], on_invalid=rejected.append)) == []
    assert [one.reason.endswith("lies outside the text's 3 characters") for one in rejected] == [True]


def test_refuses_a_broken_workbook(tmp_path):
    (tmp_path / "a.xlsx").write_bytes(b"PK\x03\x04 xl/ nothing")
    with pytest.raises(DataError, match="the workbook cannot be read"):
        list(read(tmp_path / "a.xlsx"))


def test_closes_a_workbook_that_is_too_large(tmp_path, monkeypatch):
    openpyxl.Workbook().save(tmp_path / "a.xlsx")
    files = []
    check_size = workbook._check_size

    def check(file, name):
        files.append(file)
        check_size(file, name)

    monkeypatch.setattr(workbook, "_UNPACKED", 0)
    monkeypatch.setattr(workbook, "_check_size", check)
    with pytest.raises(DataError, match="when unpacked; save it as CSV"):
        list(read(tmp_path / "a.xlsx"))
    assert [file.closed for file in files] == [True]


def test_only_the_first_sheet_is_read(tmp_path):
    book = openpyxl.Workbook()
    book.active.append(["text", "entities"])
    book.active.append(["Ada", None])
    book.create_sheet("other").append(["x"])
    book.save(tmp_path / "a.xlsx")
    reader = Reader(tmp_path / "a.xlsx")
    assert content(reader) == [("Ada", [])]
    assert any("only the first of 2 sheets is read" in note.kind for note in reader.notes)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])) | st.integers()))
def test_reads_lists_in_json_and_python_notation(values):
    assert parse_list(json.dumps(values), split=False) == values
    assert parse_list(repr(values), split=False) == values


@pytest.mark.parametrize(
    "text", ["['a' 'b']", "['a'\n 'b']", "[1 2]", "[f()]", "['a', b]", "[" * 10_000, "a b"]
)
def test_refuses_values_that_are_not_lists(text):
    with pytest.raises(ValueError, match=r"not a list|neither JSON"):
        parse_list(text, split=False)


def test_refuses_too_many_rows_for_one_sentence(table, monkeypatch):
    monkeypatch.setattr("fencepost.data.layouts._MAX_ROWS", 50)
    rows = "sentence_id,word,tag\n" + ",a,O\n" * 100
    with pytest.raises(DataError, match="over 50 rows for one sentence or text"):
        list(read(table(rows)))


@pytest.mark.parametrize("odd", [["a"], {"a": 1}, 3, None])
def test_odd_values_reject_only_their_object(table, odd):
    lines = [
        {"text": odd, "start": 0, "end": 3, "label": "X"},
        {"text": "Ada", "start": 0, "end": 3, "label": "X"},
    ]
    path = table("\n".join(map(json.dumps, lines)), "data.jsonl")
    rejected = []
    options = ReadOptions(columns="text=text,start=start,end=end")
    assert content(Reader(path, options=options, on_invalid=rejected.append)) == [("Ada", [(0, 1, "X")])]
    assert len(rejected) == 1


def test_words_may_be_separated_by_spaces(table):
    text = "tokens,tags\nAda met [ Bob ],B-PER O O B-PER O\n[ x,O O\n"
    assert content(read(table(text))) == [("Ada met [ Bob ]", [(0, 1, "PER"), (3, 4, "PER")]), ("[ x", [])]
