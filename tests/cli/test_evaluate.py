from __future__ import annotations

import json

GOLD = "Ada\tB-PER\nLovelace\tI-PER\nmet\tO\nOslo\tB-LOC\n\nhi\tO\n"


def test_scores_two_files_in_different_formats(run, tmp_path):
    gold, predicted = tmp_path / "gold.conll", tmp_path / "predicted.jsonl"
    gold.write_text(GOLD)
    predicted.write_text(
        '{"words": ["Ada", "Lovelace", "met", "Oslo"], "entities": ['
        '{"start": 0, "end": 2, "type": "PER", "score": 0.9}, '
        '{"start": 3, "end": 4, "type": "PER", "score": 0.6}]}\n'
        '{"words": ["hi"], "entities": []}\n'
    )
    result = json.loads(run("evaluate", "--gold", gold, "--predicted", predicted, "--json").stdout)
    assert (result["precision"], result["recall"], result["f1"], result["support"]) == (0.5, 0.5, 0.5, 2)
    assert result["by_type"]["LOC"]["recall"] == 0.0
    assert result["by_length"]["2"]["f1"] == 1.0
    assert result["ece"] == 0.35
    table = run("evaluate", "--gold", gold, "--predicted", predicted).stdout
    assert "expected calibration error 0.350" in table


def test_perfect_predictions_score_100(run, tmp_path):
    report = tmp_path / "scores.json"
    text = run("evaluate", "--gold", "sample:test", "--predicted", "sample:test", "--json", report).stdout
    assert "100.0" in text
    assert "no confidences" in text
    assert json.loads(report.read_text())["f1"] == 1.0


def test_refuses_different_sentences(run, tmp_path):
    gold, predicted = tmp_path / "gold.conll", tmp_path / "predicted.conll"
    gold.write_text(GOLD)
    predicted.write_text(GOLD.replace("Oslo", "Rome"))
    result = run("evaluate", "--gold", gold, "--predicted", predicted, code=2)
    assert "word 4 is 'Oslo' in the gold and 'Rome'" in result.stderr
    predicted.write_text(GOLD.split("\n\n")[0] + "\n")
    assert (
        "sentence 2 is only in the gold"
        in run("evaluate", "--gold", gold, "--predicted", predicted, code=2).stderr
    )


def test_engines_are_named_and_give_the_same_scores(run, small_model, exported_model):
    content = json.loads(run("evaluate", small_model, "sample:dev", "--json", "--threads", 1).stdout)
    assert content["engine"] == "pytorch"
    assert " sentences per second (pytorch)" in run("evaluate", small_model, "sample:dev").stdout
    other = json.loads(run("evaluate", exported_model, "sample:dev", "--json", "--threads", 1).stdout)
    assert other["engine"] == "onnx"  # as in predict
    text = run("evaluate", exported_model, "sample:dev", "--threads", 1).stdout
    assert " sentences per second (onnx)" in text
    again = run("evaluate", exported_model, "sample:dev", "--engine", "pytorch", "--json").stdout
    assert json.loads(again)["engine"] == "pytorch"
    assert other.keys() == content.keys()
    differing = {name for name in content if content[name] != other[name]}
    assert differing <= {"model", "engine", "sentences_per_second", "peak_memory_mb", "ece", "reliability"}
    flat = json.loads(
        run("evaluate", small_model, "sample:dev", "--set", "predict.select=flat", "--json").stdout
    )
    assert flat["settings"]["predict"]["select"] == "flat"
    assert flat["settings"]["method"] == content["settings"]["method"]
    assert flat["predicted"] < content["predicted"]


def test_refuses_engines_that_the_model_does_not_have(run, small_model):
    assert "was not exported" in run("evaluate", small_model, "sample:dev", "--engine", "onnx", code=2).stderr
    files = ["--gold", "sample:dev", "--predicted", "sample:dev"]
    assert "without --set" in run("evaluate", *files, "--engine", "onnx", code=2).stderr


def test_type_names_cannot_send_escape_sequences(run, tmp_path):
    path = tmp_path / "gold.jsonl"
    path.write_text('{"words": ["Ada"], "entities": [{"start": 0, "end": 1, "type": "\\u001b[31mred"}]}\n')
    text = run("evaluate", "--gold", path, "--predicted", path).stdout
    assert "[31mred" in text
    assert "\x1b" not in text
