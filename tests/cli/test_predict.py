"""`predict` on raw text, as a user runs it."""

from __future__ import annotations

import io
import json
import shutil
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest

from fencepost.cli.models import find_text_rules
from fencepost.cli.scoring import LabelOptions
from fencepost.data import read, write
from fencepost.data.source import Source
from fencepost.errors import UsageError
from fencepost.runtime import loading
from fencepost.runtime.engine import LOOK_AHEAD
from fencepost.runtime.prediction.kinds import detect_kind, is_json_text
from fencepost.runtime.prediction.results import predict_texts
from fencepost.runtime.prediction.text import Text

LEARNT = list(islice(read("sample:train"), 40))
TEXTS = [sentence.text for sentence in LEARNT]


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


@pytest.fixture
def ner(small_model):
    return loading.load(small_model)


@pytest.fixture
def shipped(small_model, monkeypatch):
    monkeypatch.setattr(loading, "SHIPPED", small_model)


def expected(ner, text: str) -> list[dict]:
    return [
        {"start": s.start, "end": s.end, "type": s.type, "score": round(s.score, 4), "text": s.text}
        for s in ner(text)
    ]


def test_texts_in_the_command_are_drawn(run, small_model):
    output = run("predict", small_model, *TEXTS[:3]).stdout
    for text in TEXTS[:3]:
        assert "".join(text.split())[:20] in "".join(output.split())
    assert TEXTS[0].split()[-1] in output  # the full stop is at the word
    assert "╰" in output


def test_default_model_is_the_shipped_one(run, shipped, ner):
    result = run("predict", TEXTS[0], "two words", "--output", "-")
    first, second = map(json.loads, result.stdout.splitlines())
    assert first == {"text": TEXTS[0], "entities": expected(ner, TEXTS[0])}
    assert first["entities"]
    assert second["text"] == "two words"
    assert "2 texts, " in result.stderr


def test_model_can_be_given_by_name(run, shipped, ner, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(loading, "entry_points", lambda **_: ())
    name = loading.SHIPPED.name
    output = run("predict", name, TEXTS[0], "--output", "-").stdout
    assert json.loads(output)["entities"] == expected(ner, TEXTS[0])
    assert json.loads(run("predict", "Word", "--output", "-").stdout)["text"] == "Word"  # not a name
    assert "pip install fencepost-models" in run("predict", "mentions", TEXTS[0], code=2).stderr


def test_reports_a_missing_shipped_model(run, monkeypatch, tmp_path):
    monkeypatch.setattr(loading, "SHIPPED", tmp_path / "nowhere")
    assert "nowhere: not a model folder" in run("predict", "Some text", code=2).stderr


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("{}", "not a model folder (it has no config.json)"),
        ("{}/file.txt", "a file, not a model folder; give a file of texts with --input"),
        ("{}/nowhere", "no such model folder"),
        ("nowhere.txt", "nowhere.txt: no such file; give a file of texts with --input"),
    ],
)
def test_explains_a_path_that_is_not_a_model(run, shipped, tmp_path, argument, message):
    (tmp_path / "file.txt").write_text("x")
    assert message in run("predict", argument.format(tmp_path), "a text", code=2).stderr


def test_first_word_that_is_no_model_is_noted(run, shipped):
    result = run("predict", "my-model", "He came.", "--output", "-")
    assert len(result.stdout.splitlines()) == 2
    assert "my-model: no model folder, so it is predicted as a text" in result.stderr


def test_texts_that_resemble_paths_are_predicted(run, shipped):
    result = run("predict", "He and/or she came.", "x" * 5000, "--output", "-", "--quiet")
    assert len(result.stdout.splitlines()) == 2
    assert not result.stderr


def test_refuses_texts_together_with_input(run, shipped, tmp_path):
    message = run("predict", "my-modle", "--input", tmp_path / "x.txt", code=2).stderr
    assert "give texts or --input, not both (the first text is 'my-modle'" in message


def test_reads_standard_input_by_default(run, small_model, ner):
    result = run("predict", small_model, "--output", "-", stdin="\n".join(TEXTS[:2]))
    assert [json.loads(line)["text"] for line in result.stdout.splitlines()] == TEXTS[:2]


def test_refuses_to_read_from_a_terminal(run, shipped, monkeypatch):
    monkeypatch.setattr("fencepost.cli.predict_arguments.sys", _Terminal())
    assert "give texts, as in fencepost predict" in run("predict", code=2).stderr


class _Terminal:
    class stdin:  # noqa: N801
        @staticmethod
        def isatty() -> bool:
            return True


# Plain text


def test_each_line_is_a_text(run, small_model, ner, tmp_path):
    content = f"{TEXTS[0]}\r\n\r\n{TEXTS[1]} {TEXTS[2]}\nÜber 科技 O"
    (tmp_path / "in.txt").write_bytes(content.encode())
    result = run("predict", small_model, "--input", tmp_path / "in.txt", "--output", tmp_path / "out.jsonl")
    records = lines(tmp_path / "out.jsonl")
    texts = [TEXTS[0], "", f"{TEXTS[1]} {TEXTS[2]}", "Über 科技 O"]
    assert records == [{"text": text, "entities": expected(ner, text)} for text in texts]
    for record in records:
        for entity in record["entities"]:
            assert record["text"][entity["start"] : entity["end"]] == entity["text"]
    assert "4 texts, 4 sentences, " in result.stderr
    assert "sentences per second" in result.stderr
    assert "科技" in (tmp_path / "out.jsonl").read_text(encoding="utf-8")


def test_lines_that_are_not_utf8_are_refused_or_skipped(run, small_model, tmp_path):
    source, out = tmp_path / "in.txt", tmp_path / "out.jsonl"
    source.write_bytes(b"one\ntw\xff\nthree\n")
    refused = run("predict", small_model, "--input", source, "--output", out, code=2)
    assert f"{source}:2: not UTF-8 at byte 3 of the line" in refused.stderr
    assert not out.exists()
    result = run("predict", small_model, "--input", source, "--output", out, "--skip-invalid")
    assert f"{source}:2: skipped: not UTF-8" in result.stderr
    assert [record["text"] for record in lines(out)] == ["one", "three"]


@pytest.mark.parametrize("content", ["", "\ufeff"])
def test_file_without_text_gives_empty_output(run, small_model, tmp_path, content):
    (tmp_path / "in.txt").write_text(content, encoding="utf-8")
    result = run("predict", small_model, "--input", tmp_path / "in.txt", "--output", tmp_path / "out.jsonl")
    assert "contains no text" in result.stderr
    assert (tmp_path / "out.jsonl").read_bytes() == b""


def test_white_space_separates_pretokenized_words(run, small_model, tmp_path):
    (tmp_path / "in.txt").write_text("A.B. (c)\n\nd")
    out = tmp_path / "out.jsonl"
    run(
        "predict",
        small_model,
        "--input",
        tmp_path / "in.txt",
        "--pretokenized",
        "--output",
        out,
        "--to",
        "jsonl",
    )
    assert [sentence.words for sentence in read(out)] == [("A.B.", "(c)"), ("d",)]


# JSON


def test_json_objects_keep_their_other_keys(run, small_model, ner, tmp_path):
    records = [
        {"text": TEXTS[0], "id": 7, "meta": {"a": [1.5, None]}, "label": "news", "spans": []},
        {"doc": "d", "text": "", "entities": []},
    ]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, records)) + "\n\n")
    run("predict", small_model, "--input", tmp_path / "in.jsonl", "--output", tmp_path / "out.jsonl")
    assert lines(tmp_path / "out.jsonl") == [
        {
            "id": 7,
            "meta": {"a": [1.5, None]},
            "label": "news",
            "text": TEXTS[0],
            "entities": expected(ner, TEXTS[0]),
        },
        {"doc": "d", "text": "", "entities": []},
    ]
    assert list(lines(tmp_path / "out.jsonl")[0])[-2:] == ["text", "entities"]


@pytest.mark.parametrize("content", ['"one"\n"t\\"wo"\n', '["one", "t\\"wo"]', '[{"text": "one"}, "t\\"wo"]'])
def test_json_strings_are_texts(run, small_model, content):
    result = run("predict", small_model, "--input", "-", "--output", "-", "-q", stdin=content)
    assert [json.loads(line)["text"] for line in result.stdout.splitlines()] == ["one", 't"wo']


def test_json_objects_without_text_are_refused_or_skipped(run, small_model, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"text": "a"}\n{"txt": "b"}\n{"text": "\\ud800"}\n"\\ud800"\n')
    arguments = ["predict", small_model, "--input", tmp_path / "in.jsonl", "--output", "-"]
    assert "in.jsonl:2: 'text' is missing, or not a string" in run(*arguments, code=2).stderr
    result = run(*arguments, "--skip-invalid")
    assert len(result.stdout.splitlines()) == 1
    assert result.stderr.count("skipped") == 3


# Kinds of files


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.txt", "London calling\n", "text"),
        ("a.txt", '{"text": "a"}\n', "text"),
        ("a.txt", "Ada\tB-PER\nmet\tO\n\nhi\tO\n", "conll"),
        ("a.dat", "Vitamin O\n", "text"),
        ("a.dat", "The letter O\nis here\n", "text"),
        ("a.dat", "[Music] Hello\n", "text"),
        ("a.dat", '"Quoted," he said.\n"All"\n', "text"),
        ("a.dat", '"Quoted"\n', "json"),
        ("a.dat", '{"text": "a"}\n', "json"),
        ("a.jsonl", '{"text": "a", "labels": ["sports"]}\n', "json"),
        ("a.jsonl", '{"text": "a", "spans": []}\n', "json"),
        ("a.jsonl", '{"text": "a", "label": [[0, 1, "X"]]}\n', "jsonl-text"),
        ("a.jsonl", '{"text": "a", "tokens": [{"start": 0, "end": 1}], "spans": []}\n', "jsonl-text"),
        ("a.jsonl", '{"words": ["a"], "entities": []}\n', "jsonl"),
        ("a.conll", "a O\n", "conll"),
        ("a.csv", "text,n\na,1\n", "csv"),
        ("a.tsv", "text\tn\na\t1\n", "csv"),
        ("a.tsv", "Ada\tB-PER\nmet\tO\n", "conll"),
    ],
)
def test_detects_texts_and_corpora(tmp_path, name, content, kind):
    (tmp_path / name).write_text(content)
    for format_, expected_kind in ((None, kind), ("text", "text")):
        with closing(Source.open(tmp_path / name)) as source:
            assert detect_kind(source, format_) == expected_kind


def test_refuses_unknown_formats_and_folders_of_text(run, small_model, tmp_path):
    message = run("predict", small_model, "--input", "x", "--format", "txt", code=2).stderr
    assert "did you mean text?" in message
    message = run("predict", small_model, "--input", tmp_path, "--format", "text", code=2).stderr
    assert "is a folder" in message


def test_corpus_is_predicted_with_its_words(run, small_model, ner, tmp_path):
    out = tmp_path / "out.jsonl"
    write(LEARNT[:5], tmp_path / "in.jsonl")
    run("predict", small_model, "--input", tmp_path / "in.jsonl", "--output", out)
    for record, sentence, predicted in zip(lines(out), LEARNT, ner.predict(LEARNT[:5]), strict=False):
        offsets = sentence.word_offsets()
        assert record["text"] == sentence.text
        assert (record["id"], record["doc"]) == (sentence.id, sentence.doc)
        assert [(e["start"], e["end"], e["type"]) for e in record["entities"]] == [
            (offsets[e.start][0], offsets[e.end - 1][1], e.type) for e in predicted.entities
        ]


def test_raw_text_can_be_written_as_a_corpus(run, small_model, tmp_path):
    source, out = tmp_path / "in.jsonl", tmp_path / "out.xml"
    source.write_text(json.dumps({"text": f"{TEXTS[0]} {TEXTS[1]}", "id": "x", "topic": 1}) + "\n")
    run("predict", small_model, "--input", source, "--output", out)
    assert len(list(read(out))) == 2
    run("predict", small_model, "--input", source, "--output", tmp_path / "o", "--to", "jsonl")
    first, second = read(tmp_path / "o")
    assert [(s.id, s.doc, s.text) for s in (first, second)] == [
        ("x-1", "x", TEXTS[0]),
        ("x-2", "x", TEXTS[1]),
    ]
    assert first.meta == {"topic": 1}


# Entities


def test_types_confidence_and_selection_filter_entities(run, small_model, ner):
    base = ["predict", small_model, *TEXTS[:8], "--output", "-", "-q"]

    def predict(*arguments: str) -> list[dict]:
        output = run(*base, *arguments).stdout
        return [entity for line in output.splitlines() for entity in json.loads(line)["entities"]]

    every = predict()
    one, two = sorted({entity["type"] for entity in every})[:2]
    assert predict("--types", f"{one}, {two}") == [e for e in every if e["type"] in (one, two)]
    assert predict("--types", one, "--types", two) == predict("--types", f"{one},{two}")
    middle = sorted(entity["score"] for entity in every)[len(every) // 2]
    confident = predict("--min-confidence", str(middle + 0.0001))
    assert 0 < len(confident) < len(every)
    assert min(entity["score"] for entity in confident) > middle
    by_type = predict("--min-confidence", f"{one}=1,{two}=0.1")
    assert by_type == [e for e in every if e["type"] != one and (e["type"] != two or e["score"] >= 0.1)]
    flat = predict("--flat")
    assert len(flat) < len(every)
    assert flat == predict("--set", "predict.select=flat")
    assert predict("--nested") == predict("--set", "predict.select=nested")


@pytest.mark.parametrize(("unit", "encoding", "size"), [("utf-16", "utf-16-le", 2), ("bytes", "utf-8", 1)])
def test_offsets_are_written_in_the_chosen_unit(run, small_model, tmp_path, unit, encoding, size):
    text = f"😀 Ł. {TEXTS[0]}"
    run("predict", small_model, text, "--output", tmp_path / "o.jsonl", "--offsets", unit)
    (record,) = lines(tmp_path / "o.jsonl")
    assert record["entities"]
    for one in record["entities"]:
        part = text.encode(encoding)[size * one["start"] : size * one["end"]]
        assert part.decode(encoding) == one["text"]


def test_lines_option_decides_about_line_breaks(run, small_model, tmp_path):
    text = "Plan\n- Budget: five\n- Owner: Ada"

    def count(*more):
        run("predict", small_model, text, "--output", tmp_path / "o.jsonl", "--to", "jsonl", "--force", *more)
        return len(lines(tmp_path / "o.jsonl"))

    assert count() == count("--lines", "auto") == count("--lines", "break") == 3
    assert count("--lines", "join") == 1
    model = shutil.copytree(small_model, tmp_path / "model")
    saved = json.loads((model / "config.json").read_text())
    saved["config"]["text"]["lines"] = "join"
    (model / "config.json").write_text(json.dumps(saved))
    assert loading.load(model).lines == "join"
    assert loading.load(model, lines="break").lines == "break"
    with pytest.raises(UsageError, match="value of lines"):
        loading.load(model, lines="never")
    del saved["config"]["text"]["lines"]  # as models of earlier versions
    (model / "config.json").write_text(json.dumps(saved))
    assert loading.load(model).lines == "auto"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--types", "persn"], "there is no type 'persn'; did you mean person?"),
        (["--types", "person,"], "there is no type ''"),
        (["--min-confidence", "1.5"], "a confidence is between 0 and 1"),
        (["--min-confidence", "person=1.5"], "a confidence is between 0 and 1"),
        (["--min-confidence", "PERS=0.5"], "there is no type 'PERS'"),
        (
            ["--min-confidence", "PER=high"],
            "--min-confidence 'PER=high': give a number from 0 to 1, or one by",
        ),
        (["--set", "predict.selekt=flat"], "predict.selekt: there is no such key; did you mean"),
        (["--set", "predict.types=person"], "predict.types: there is no such key"),
        (["--set", "predict.select=auto"], "predict.select: auto is for training"),
        (["--set", "method.epsilon=0"], "a trained model can be changed: predict.select"),
        (["--flat", "--set", "predict.select=flat"], "--flat and --nested set predict.select"),
        (["--engine", "int8"], "this model was not exported"),
        (["--offsets", "bytes"], "--offsets works only with JSON lines"),
        (["--offsets", "bytes", "--output", "x.xml"], "--offsets works only with JSON lines"),
        (["--to", "jsonl"], "--to needs --output"),
        (["--resume"], "--resume needs --output"),
        (["--output", "x.jsonl", "--resume", "--force"], "give only one of them"),
        (["--output", "-", "--resume"], "--resume works only with JSON lines"),
        (["--output", "x.xml", "--resume"], "--resume works only with JSON lines"),
        (["--output", "x.unknown"], "the file name shows no known format"),
        (["--output", "no/x.jsonl"], "no/x.jsonl: cannot be written: there is no folder no"),
        (["--output", "x.conll"], "conll cannot represent overlapping entities"),
    ],
)
def test_refuses_wrong_arguments(run, small_model, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert message in run("predict", small_model, "a text", *arguments, code=2).stderr
    assert not list(tmp_path.iterdir())


def test_threads_sets_the_threads_of_pytorch(run, small_model):
    import torch

    before = torch.get_num_threads()
    try:
        run("predict", small_model, "a text", "--threads", 2)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


# Large inputs


class Endless(io.RawIOBase):
    """Endless stream of lines."""

    def __init__(self) -> None:
        self.bytes_returned = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        line = (TEXTS[0] + "\n").encode()
        data = (line * (len(buffer) // len(line) + 1))[: len(buffer) // len(line) * len(line)]
        buffer[: len(data)] = data
        self.bytes_returned += len(data)
        return len(data)


def test_limit_reads_only_the_start_of_an_endless_file(run, small_model, monkeypatch):
    monkeypatch.setattr("fencepost.runtime.chunks.TEXTS", 16)
    stream = Endless()
    source = Source.from_stream("endless", io.BufferedReader(stream, 1 << 16))
    monkeypatch.setattr(Source, "open", lambda _: source)
    result = run("predict", small_model, "--input", "x", "--output", "-", "--limit", 40)
    assert len(result.stdout.splitlines()) == 40
    assert stream.bytes_returned < 3 << 20  # the part that detection reads, and one or two blocks


@pytest.mark.parametrize("with_words", [False, True])
def test_reads_ahead_only_the_texts_of_a_chunk(ner, with_words, monkeypatch):
    monkeypatch.setattr("fencepost.runtime.chunks.TEXTS", 8)
    monkeypatch.setattr("fencepost.runtime.recogniser.LOOK_AHEAD", 8)
    read_so_far = 0

    def endless():
        nonlocal read_so_far
        while True:
            sentence = LEARNT[read_so_far % 40].with_entities(())
            read_so_far += 1
            words = ([sentence], [sentence.word_offsets()]) if with_words else ()
            yield Text(sentence.text, {"number": read_so_far}, *words)

    texts = predict_texts(ner, endless())
    for number in range(1, 30):
        one = next(texts)
        assert one.source.fields == {"number": number}
        assert one.annotated.text == one.source.text
        assert read_so_far <= number + 9
    assert LOOK_AHEAD > 8


def test_predicts_texts_without_words_among_others(ner):
    blank = Text("", {}, [], [])
    with_words = Text("a", {}, [LEARNT[0].with_entities(())], [LEARNT[0].word_offsets()])
    texts = list(predict_texts(ner, [blank, with_words, blank, blank, with_words, blank]))
    assert [len(one.annotated.sentences) for one in texts] == [0, 1, 0, 0, 1, 0]
    assert list(predict_texts(ner, [])) == []


@pytest.mark.parametrize(
    "beginning", ['{"text": "', '{"id": 7, "source": "a b", "text": "', '"', '[{"text": "']
)
def test_detects_text_in_a_first_object_over_a_megabyte(tmp_path, beginning):
    """Detection reads only a part of the object."""
    path = tmp_path / "long.jsonl"
    ending = {'"': '"', "[": '"}]'}.get(beginning[:1], '"}')
    path.write_text(beginning + "Ada met Charles. " * 100_000 + ending + "\n")
    with closing(Source.open(path)) as source:
        assert is_json_text(source)
    path.write_text('{"tokens": ["' + 'Ada", "' * 200_000 + '"]}\n')
    with closing(Source.open(path)) as source:
        assert not is_json_text(source)


def test_language_option_sets_the_rules_for_words(run, small_model):
    result = run("predict", small_model, "Ada", "--language", "klingon", code=2)
    assert "no rules for the language 'klingon'" in result.stderr
    assert loading.load(small_model, language="zh").language == "zh"
    (document,) = loading.load(small_model, language="zh").annotate(["北京"])
    assert len(document.sentences[0]) == 2


def test_language_option_overrides_that_of_the_model(run, small_model, tmp_path):
    german = shutil.copytree(small_model, tmp_path / "german")
    saved = json.loads((german / "config.json").read_text())
    saved["config"]["text"]["language"] = "de"
    (german / "config.json").write_text(json.dumps(saved))

    def words(*more: str) -> list[str]:
        out = tmp_path / "out.conll"
        run("predict", german, "can't", "--flat", "--output", out, "--force", *more)
        return [line.split("\t")[0] for line in out.read_text().splitlines()[2:] if line]

    assert words() == ["can't"]
    assert words("--language", "en") == ["ca", "n't"]
    assert find_text_rules([german, german]) == {"language": "de", "lines": "auto"}
    assert find_text_rules([german, small_model]) == {"lines": "auto"}
    assert find_text_rules(["no model"]) == {}
    options, corpus = LabelOptions(), _corpus(tmp_path)
    assert [len(s) for s in options.read_sentences([str(german)], corpus)] == [1]
    assert [len(s) for s in options.read_sentences([str(small_model)], corpus)] == [2]
    english = LabelOptions(language="en")
    assert [len(s) for s in english.read_sentences([str(german)], corpus)] == [2]


def _corpus(folder: Path) -> str:
    (folder / "corpus.jsonl").write_text(json.dumps({"text": "can't", "spans": []}) + "\n")
    return str(folder / "corpus.jsonl")


def test_predicts_rejected_records(run, small_model, tmp_path):
    record = {"text": "Ada met Bob.", "spans": [{"start": 0, "end": 3, "label": "X"}], "answer": "reject"}
    (tmp_path / "in.jsonl").write_text(json.dumps(record) + "\n")
    result = run("predict", small_model, "--input", tmp_path / "in.jsonl", "--output", "-")
    assert json.loads(result.stdout)["text"] == "Ada met Bob."
    refused = run("predict", small_model, "--input", tmp_path / "in.jsonl", "--keep-rejected", code=2)
    assert "predict reads all records" in refused.stderr


@pytest.mark.parametrize("option", ["--input", "--output"])
def test_refuses_circular_links(run, small_model, tmp_path, option):
    (tmp_path / "in.txt").write_text("Ada\n")
    (tmp_path / "loop.jsonl").symlink_to("loop.jsonl")
    paths = {"--input": tmp_path / "in.txt", "--output": tmp_path / "out.jsonl"} | {
        option: tmp_path / "loop.jsonl"
    }
    message = run("predict", small_model, *(part for pair in paths.items() for part in pair), code=2).stderr
    assert "symbolic links" in message


def test_refuses_a_text_column_without_input(run, small_model):
    message = run("predict", small_model, "Ada", "--text-column", "body", code=2).stderr
    assert "--text-column needs --input" in message


@pytest.mark.parametrize("name", ["out.csv", "out.xlsx", "out.parquet", "out.html"])
def test_writes_tables_by_file_name(run, tmp_path, name):
    (tmp_path / "in.csv").write_text("id,body\n1,Ada Lovelace met Bob in London\n2,.\n")
    arguments = ("--input", tmp_path / "in.csv", "--text-column", "body", "--output", tmp_path / name)
    result = run("predict", *arguments)
    assert f"-> {tmp_path / name} ({name.removeprefix('out.')})" in result.output
    if name == "out.html":
        assert "Ada Lovelace</mark>" in (tmp_path / name).read_text()
    else:
        assert [bool(sentence.entities) for sentence in read(tmp_path / name)] == [True, False]


def test_reads_texts_from_a_workbook(run, tmp_path):
    (tmp_path / "in.csv").write_text("body,n\nAda Lovelace met Bob in London,1\n")
    run("predict", "--input", tmp_path / "in.csv", "--text-column", "body", "--output", tmp_path / "in.xlsx")
    result = run("predict", "--input", tmp_path / "in.xlsx", "--output", "-", "-q")
    assert json.loads(result.stdout)["n"] == "1"
    assert (
        "the first line must have one column 'x'"
        in run("predict", "--input", tmp_path / "in.xlsx", "--text-column", "x", code=2).output
    )


@pytest.mark.parametrize("command", ["predict", "suggest"])
def test_columns_option_suggests_text_column(run, tmp_path, command):
    arguments = ("--input", "sample:test") if command == "predict" else ("sample:test",)
    assert "with --text-column" in run(command, *arguments, "--columns", "text=body", code=2).output
