"""Texts in CSV and TSV, and the column or key that contains them."""

import csv
import io
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.data import ReadOptions
from fencepost.errors import DataError, UsageError
from fencepost.runtime.prediction.shards import plan_shard
from fencepost.runtime.prediction.texts import open_texts


@pytest.fixture
def texts(tmp_path):
    """Return the texts of a file with their other fields, the invalid rows and the notes."""

    def read(content, *, name="texts.csv", format_=None, column=None, skip=False):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        invalid = []
        on_invalid = invalid.append if skip else None
        with open_texts(str(path), format_, ReadOptions(), on_invalid, column) as opened:
            records = [(text.text, text.fields) for text in opened]
        return records, [(one.line, one.reason) for one in invalid], list(opened.source.notes)

    return read


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("name", ["texts.csv", "texts.tsv", "TEXTS.CSV"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_reads_the_text_column_and_keeps_the_others(texts, delimiter, name, line_end, mark):
    rows = ["id,text,label", '1,"Ada, who said ""hi""",x', "2,Paris is nice,y", ""]
    content = mark + line_end.join(rows).replace(",", delimiter).replace("Ada" + delimiter, "Ada,")
    records, _, notes = texts(content, name=name)
    assert records == [
        ('Ada, who said "hi"', {"id": "1", "label": "x"}),
        ("Paris is nice", {"id": "2", "label": "y"}),
    ]
    assert notes == []


def test_quoted_line_ends_are_part_of_the_text(texts):
    records, _, _ = texts('text,id\r\n"one\r\ntwo\n\nthree",1\r\n\r\nfour,2\r\n')
    assert records == [("one\r\ntwo\n\nthree", {"id": "1"}), ("four", {"id": "2"})]


def test_text_column_can_be_chosen(texts):
    records, _, notes = texts("text;body\nold;Ada met Bob\n", column="body")
    assert records == [("Ada met Bob", {})]
    assert notes == ["'text' of the input is replaced by 'body' in the output"]


@pytest.mark.parametrize("content", ["id,body\n1,x\n", "id;body\n1;x\n", "Ada met Bob\n", "text,text\na,b\n"])
def test_refuses_a_file_without_the_column_and_lists_its_columns(texts, content):
    with pytest.raises(DataError, match=r"texts.csv: the first line must have one column 'text'") as caught:
        texts(content)
    assert all(
        repr(name) in str(caught.value) for name in content.split("\n")[0].replace(";", ",").split(",")
    )


def test_invalid_rows_are_refused_or_skipped(texts):
    content = b'text,n\none,1\n"two"\n"thr"ee,3\nf\xffur,4\nfive,5\n'
    with pytest.raises(
        DataError, match=r"texts.csv:3: the row has 1 fields, but the header has 2, separated by ','"
    ):
        texts(content)
    records, invalid, _ = texts(content, skip=True)
    assert records == [("one", {"n": "1"}), ("five", {"n": "5"})]
    assert [line for line, _ in invalid] == [3, 4, 5]
    assert "is not CSV" in invalid[1][1]
    assert "not UTF-8 at byte 2" in invalid[2][1]


def test_unclosed_quotation_reports_the_skipped_lines(texts):
    records, [(line, reason)], _ = texts('text,n\none,1\n"two,2\nthree,3\n', skip=True)
    assert records == [("one", {"n": "1"})]
    assert (line, "up to line 4" in reason) == (3, True)


def test_duplicate_columns_are_skipped_with_a_note(texts):
    records, _, notes = texts("x,text,x\n1,Ada,2\n")
    assert records == [("Ada", {})]
    assert notes == ["columns with the same name are not in the output: 'x'"]


@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff"])
def test_empty_file_has_no_texts(texts, content):
    for name in ("texts.csv", "texts.tsv"):
        assert texts(content, name=name)[0] == []


def test_tsv_with_tags_is_read_as_a_corpus(texts):
    records, _, _ = texts("Ada\tB-PER\nmet\tO\nBob\tB-PER\n", name="corpus.tsv")
    assert records == [("Ada met Bob", {})]


@pytest.mark.parametrize(("name", "format_"), [("texts.txt", None), ("texts.csv", "text"), ("a.conll", None)])
def test_refuses_a_text_column_for_formats_without_columns(texts, name, format_):
    with pytest.raises(UsageError, match="--text-column is for a column of CSV, TSV, Excel or Parquet"):
        texts("Ada\tO\n", name=name, format_=format_, column="text")


def test_text_key_of_json_can_be_chosen(texts):
    content = '{"body": "Ada", "text": "old", "n": 1}\n{"text": "b"}\n'
    records, invalid, notes = texts(content, name="a.jsonl", column="body", skip=True)
    assert records == [("Ada", {"n": 1})]
    assert invalid == [(2, "'body' is missing, or not a string")]
    assert "'text' of the input is replaced by 'body' in the output" in notes
    assert texts('[{"body": "Ada"}]', name="a.json", column="body")[0] == [("Ada", {})]


def test_reads_csv_with_another_file_suffix(texts):
    assert texts("text,n\nAda,1\n", name="export.dat", format_="csv")[0] == [("Ada", {"n": "1"})]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "text\nAda\n", "is CSV, .* save it as Parquet or as JSON lines"),
        ("a.txt", "Ada\rBob\r", "has carriage returns as line ends"),
    ],
)
def test_refuses_files_that_processes_cannot_share(tmp_path, name, content, message):
    (tmp_path / name).write_text(content, newline="")
    with (
        open_texts(str(tmp_path / name), None, ReadOptions(), None) as opened,
        pytest.raises(UsageError, match=message),
    ):
        plan_shard(opened)


def test_refuses_an_endless_row_in_limited_memory(texts, monkeypatch):
    monkeypatch.setattr("fencepost.data.formats.delimited.LINE_BYTES", 1000)
    content = 'text,n\n"' + f"{'a' * 100}\n" * 100_000
    tracemalloc.start()
    with pytest.raises(
        DataError, match=r"texts.csv:2: the row is longer than 0 MB; is a closing quotation mark missing"
    ):
        texts(content)
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()


cells = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@settings(max_examples=60)
@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=8), st.sampled_from(",;\t"))
def test_reads_what_the_csv_module_writes(tmp_path_factory, rows, delimiter):
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, delimiter=delimiter, quoting=csv.QUOTE_ALL)
    writer.writerows([("text", "n"), *rows])
    path = tmp_path_factory.mktemp("csv") / "texts.csv"
    path.write_bytes(stream.getvalue().encode())
    with open_texts(str(path), None, ReadOptions(), None) as opened:
        assert [(text.text, text.fields["n"]) for text in opened] == rows
