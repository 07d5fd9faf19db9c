from __future__ import annotations

import json
import subprocess
import sys
from itertools import islice

import pytest

from fencepost.analysis.report import MARK, page
from fencepost.data import read, write
from tests.analysis.pages import Page, rows
from tests.limits import file_size_limit

SMALL = ["--encoder", "scratch", "--epochs", "2", "--batch-size", "8"]
SMALL += ["--set", "encoder.lstm.size=16", "--set", "method.size=8", "--set", "method.width_size=4"]
SMALL += ["--set", "predict.threshold=0"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for part, count in (("train", 60), ("dev", 20), ("test", 10)):
        write(islice(read(f"sample:{part}"), count), folder / f"{part}.jsonl")
    return folder


# The report of a folder


def test_report_without_data_has_the_content_of_the_folder(run, small_model):
    result = run("report", small_model)
    target = small_model / "report.html"
    assert result.stdout == f"the report is in {target}\n"
    html = target.read_text(encoding="utf-8")
    text = Page(html).text
    assert "boundary-smoothing" in text
    assert "Loss by epoch" in text
    assert (
        "The model has the weights of epoch 15, the last one, because there was no development data" in text
    )
    assert "There are no test scores" in text
    target.unlink()


def test_report_with_data_has_the_scores_of_evaluate(run, small_model, tmp_path):
    out = tmp_path / "scores.html"
    arguments = [small_model, "--data", "sample:dev", "--out", out, "--set", "predict.select=flat"]
    assert run("report", *arguments).stdout == f"the report is in {out}\n"
    assert not (small_model / "report.html").exists()
    html = out.read_text(encoding="utf-8")
    scores = json.loads(
        run("evaluate", small_model, "sample:dev", "--set", "predict.select=flat", "--json").stdout
    )
    table = {row[0]: row for row in rows(html) if len(row) == 8}
    for name, score in [("all", scores), *scores["by_type"].items()]:
        for column, key in enumerate(("precision", "recall", "f1"), start=1):
            assert table[name][column].startswith(f"{100 * score[key]:.1f} (")
        assert table[name][5] == f"{score['support']:,}"
    text = Page(html).text
    assert f"{scores['ece']:.3f}" in text
    assert f"{100 * scores['macro_f1']:.1f}" in text
    assert "with the engine pytorch" in text
    assert ["predict.select", "flat"] in rows(html)
    assert ["sentences", "150"] in rows(html)
    assert "evaluated on sample:dev" in text


def test_engines_give_the_same_scores(run, small_model, exported_model, tmp_path):
    pages = []
    for model, engine in ((small_model, "pytorch"), (exported_model, "onnx")):
        run("report", model, "--data", "sample:dev", "--out", tmp_path / "one.html", "--threads", 1)
        html = (tmp_path / "one.html").read_text()
        assert f"with the engine {engine}" in Page(html).text
        pages.append([row for row in rows(html) if len(row) == 8])
    assert pages[0] == pages[1]


def test_model_can_be_given_by_name(run, tmp_path):
    run("report", "names", "--data", "sample:dev", "--out", tmp_path / "names.html", "--examples", 0)
    assert "names: fencepost report" in Page((tmp_path / "names.html").read_text()).text
    assert "give a file with --out" in run("report", "names", code=2).stderr


def test_overwrites_only_reports(run, small_model, tmp_path):
    mine = tmp_path / "mine.html"
    mine.write_text("<!doctype html>\n<p>my page</p>")
    refused = run("report", small_model, "--out", mine, code=2).stderr
    assert "already exists and is not a report of fencepost" in refused
    assert mine.read_text().endswith("my page</p>")
    mine.write_text(f"{MARK} 0.0.1 -->")
    run("report", small_model, "--out", mine)
    assert "</html>" in mine.read_text()
    assert "is a folder" in run("report", small_model, "--out", tmp_path, code=2).stderr
    assert (
        "no does not exist" in run("report", small_model, "--out", tmp_path / "no" / "x.html", code=2).stderr
    )


def test_refuses_invalid_arguments(run, small_model, tmp_path):
    out = ["--out", tmp_path / "x.html"]
    assert "not a model folder" in run("report", tmp_path, *out, code=2).stderr
    assert "not a model folder" in run("report", tmp_path / "absent", code=2).stderr
    assert (
        "options for reading and predicting need --data"
        in run("report", small_model, *out, "--engine", "onnx", code=2).stderr
    )
    exported = ["--data", "sample:dev", "--engine", "int8"]
    assert "was not exported" in run("report", small_model, *out, *exported, code=2).stderr
    assert not (tmp_path / "x.html").exists()


def test_markup_in_a_corpus_is_escaped(run, small_model, tmp_path):
    evil = "<script>document.title='hacked'</script>"
    corpus = tmp_path / "<script>.jsonl"
    entity = {"start": 0, "end": 2, "type": evil}
    corpus.write_text(json.dumps({"id": evil, "words": [evil, '"&'], "entities": [entity]}) + "\n")
    run("report", small_model, "--data", corpus, "--out", tmp_path / "x.html")
    html = (tmp_path / "x.html").read_text()
    document = Page(html)
    assert "<script" not in html
    assert not document.tags("script")
    assert evil in document.text


def test_examples_can_be_disabled(run, small_model, tmp_path):
    out = tmp_path / "x.html"
    run("report", small_model, "--data", "sample:test", "--out", out)
    assert 'class="sentence"' in out.read_text()
    run("report", small_model, "--data", "sample:test", "--out", out, "--examples", 0)
    assert 'class="sentence"' not in out.read_text()


def test_an_empty_corpus_has_a_report(run, small_model, tmp_path):
    (tmp_path / "empty.jsonl").write_text("")
    options = ["--data", tmp_path / "empty.jsonl", "--format", "jsonl", "--out", tmp_path / "x.html"]
    run("report", small_model, *options)
    assert "because there are no sentences" in Page((tmp_path / "x.html").read_text()).text


def test_names_missing_jinja(run, small_model, tmp_path, monkeypatch):
    page.make_environment.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    message = run("report", small_model, "--out", tmp_path / "x.html", code=1).stderr
    assert "a report needs jinja2, which is not installed: pip install jinja2" in message


def test_report_does_not_import_pytorch():
    code = "import sys, fencepost.analysis.report, fencepost.cli.report; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


# At the end of training


def test_train_writes_the_report_without_predicting_again(run, data, tmp_path, monkeypatch):
    from fencepost.runtime.recogniser import Recogniser

    sizes = []
    predict = Recogniser.predict
    monkeypatch.setattr(
        Recogniser, "predict", lambda self, of, *more: sizes.append(len(of)) or predict(self, of, *more)
    )
    monkeypatch.setattr("fencepost.training.run.explain_failure", lambda *_: [])
    folder = tmp_path / "model"
    parts = ["--train", data / "train.jsonl", "--dev", data / "dev.jsonl", "--test", data / "test.jsonl"]
    result = run("train", *parts, "--out", folder, *SMALL, "--json")
    assert sizes == [20, 20, 20, 10]  # two epochs, the calibration, the test
    assert f"the report is in {folder / 'report.html'}" in result.stderr
    content = json.loads(result.stdout)
    html = (folder / "report.html").read_text(encoding="utf-8")
    text = Page(html).text
    assert "evaluated on the test data" in text
    table = {row[0]: row for row in rows(html) if len(row) == 8}
    assert table["all"][3].startswith(f"{100 * content['test']['f1']:.1f} (")
    assert ["", "training data", "the test data"] in rows(html)
    assert ["sentences", "60", "10"] in rows(html)
    assert "F1 by epoch" in text
    assert "including training" in text
    # later, from the folder alone: the same scores, without the sentences, and not in the same place
    assert "would contain less" in run("report", folder, code=2).output
    assert (folder / "report.html").read_text(encoding="utf-8") == html
    (folder / "report.html").unlink()
    run("report", folder)
    later = (folder / "report.html").read_text(encoding="utf-8")
    assert [row[0] for row in rows(later) if len(row) == 8] == [row[0] for row in rows(html) if len(row) == 8]
    assert "evaluated on the test data of the training run" in Page(later).text


def test_train_uses_the_development_data_without_test_data(run, data, tmp_path):
    parts = ["--train", data / "train.jsonl", "--dev", data / "dev.jsonl"]
    run("train", *parts, "--out", tmp_path / "model", *SMALL)
    text = Page((tmp_path / "model" / "report.html").read_text()).text
    assert "evaluated on the development data" in text
    assert "sentences with" in text


def test_train_reports_without_scores_or_not_at_all(run, data, tmp_path):
    run("train", "--train", data / "train.jsonl", "--out", tmp_path / "one", *SMALL, "--quiet")
    html = (tmp_path / "one" / "report.html").read_text()
    assert "There are no test scores" in Page(html).text
    assert ["sentences", "60"] in rows(html)
    result = run("train", "--train", data / "train.jsonl", "--out", tmp_path / "two", *SMALL, "--no-report")
    assert not (tmp_path / "two" / "report.html").exists()
    assert "report" not in result.stderr


def test_resume_writes_only_the_missing_report(run, data, tmp_path, monkeypatch):
    folder, result = tmp_path / "model", tmp_path / "result.json"
    arguments = ["train", "--train", data / "train.jsonl", "--out", folder, *SMALL, "--json", result]

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("fencepost.cli.train.write_report", interrupt)
        run(*arguments, code=130)
    assert (folder / "metrics.json").is_file()
    assert not (folder / "report.html").exists()
    result.unlink()
    with monkeypatch.context() as patched:
        patched.setattr("fencepost.training.trainer.Trainer.training_step", interrupt)  # nothing is left
        run(*arguments, "--resume")
    assert json.loads(result.read_text())["model"] == str(folder)
    assert ["sentences", "60"] in rows((folder / "report.html").read_text())
    assert not (folder / "checkpoints").exists()
    assert "is complete" in run(*arguments, "--resume", code=2).stderr


def test_full_disk_gives_a_message_without_traceback(run, data, tmp_path):
    arguments = ["train", "--train", data / "train.jsonl", "--out", tmp_path / "model", *SMALL]
    with file_size_limit(30_000):
        result = run(*arguments, code=1)
    file = tmp_path / "model" / "checkpoints" / "checkpoint-"
    assert f"fencepost: {file}" in result.stderr
    assert "model.safetensors: cannot be written: " in result.stderr
    assert "free some space), continue with the same command and --resume" in result.stderr
    assert "Traceback" not in result.output
    run(*arguments, "--resume")
    assert (tmp_path / "model" / "report.html").is_file()


def test_failed_report_does_not_fail_the_training(run, data, tmp_path, monkeypatch):
    def broken(_):
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("fencepost.analysis.report.render", broken)
    folder = tmp_path / "model"
    result = run("train", "--train", data / "train.jsonl", "--out", folder, *SMALL, "--quiet")
    assert "the report could not be written (ZeroDivisionError: oh); the model is saved" in result.stderr
    assert (folder / "model.safetensors").is_file()
    assert not (folder / "report.html").exists()
