"""An exported model without PyTorch and spaCy, in a process that cannot import them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runtime import models

ABSENT = ("torch", "transformers", "safetensors", "scipy", "accelerate", "huggingface_hub", "spacy")
BLOCK = f"import sys\nfor name in {ABSENT!r}: sys.modules[name] = None\n"
CHECK = f"""
loaded = [name for name, module in sys.modules.items() if module and name.partition(".")[0] in {ABSENT!r}]
assert not loaded, loaded
"""


def run(program: str, *arguments: str) -> str:
    """Run a program that must succeed, and return its output."""
    result = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", BLOCK + program + CHECK, *arguments],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout


def test_exported_models_predict_without_pytorch(folder: Path, onnx, tmp_path) -> None:
    """One model is from scratch, one has a tokenizer."""
    encoder = {"name": str(models.save_bert(tmp_path / "bert")), "lstm": {"size": 0}}
    other = models.saved(models.random_model("boundary-offset", encoder), tmp_path / "model")
    program = """
import json
import fencepost
import fencepost.runtime
from fencepost import Recogniser, Sentence, Span
ner = fencepost.load(sys.argv[1], engine="onnx")
texts = ["Ada met Charles in London.", "", "the University of Toronto opened"]
found = [[(s.start, s.end, s.type, s.score, s.text) for s in spans] for spans in ner.pipe(iter(texts))]
assert list(ner.predict([Sentence(["Ada"])]))[0].entities
assert fencepost.load(sys.argv[1], engine="int8")(texts[0])
assert fencepost.load(sys.argv[2])(texts[0])
try:
    fencepost.load(sys.argv[1], engine="pytorch")
except fencepost.UsageError as error:
    print(error)
print(json.dumps(found))
"""
    message, output = run(program, str(folder), str(other)).splitlines()
    assert message == (
        f"{folder}: without graphs (fencepost export) the model needs torch, which is not installed: "
        "pip install 'fencepost[train]'"
    )
    texts = ["Ada met Charles in London.", "", "the University of Toronto opened"]
    expected = [
        [[s.start, s.end, s.type, pytest.approx(s.score), s.text] for s in spans]
        for spans in onnx.pipe(texts)
    ]
    assert json.loads(output) == expected
    assert len(expected[0]) >= 3


def test_command_line_predicts_without_pytorch(folder: Path) -> None:
    program = """
from fencepost.cli import main
sys.argv = ["fencepost", "predict", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""
    out = run(program, str(folder), "Ada met Charles in London.")
    assert "PER" in out
    assert "London" in out


def test_shipped_model_predicts_without_pytorch() -> None:
    out = run("import fencepost; print(fencepost.load()('Ada Lovelace lived in London.'))")
    assert "Ada Lovelace" in out


def test_public_names_can_be_listed_without_pytorch() -> None:
    """Tab completion and `import *` get every name; training says what it needs."""
    program = """
import fencepost
from fencepost import *
for name in dir(fencepost):
    getattr(fencepost, name)
try:
    fencepost.train("sample:train", "my-model")
except UsageError as error:
    print(error)
"""
    needs = "training needs torch, which is not installed: pip install 'fencepost[train]'"
    assert run(program).strip() == needs


def test_features_that_need_spacy_say_so(tmp_path) -> None:
    """They are the format of spaCy, and a language whose words spaCy gets from another package."""
    program = """
from fencepost import Sentence, UsageError
from fencepost.data import write
from fencepost.data.text import make_splitter
for work in (lambda: write([Sentence(["Ada"])], sys.argv[1]), lambda: make_splitter("ja")):
    try:
        work()
    except UsageError as error:
        print(error)
"""
    of_format, of_language = run(program, str(tmp_path / "a.spacy")).splitlines()
    assert of_format.startswith("writing a DocBin needs spacy")
    for message in (of_format, of_language):
        assert "pip install 'fencepost[spacy]'" in message


def test_prediction_imports_no_unused_modules() -> None:
    program = """
from fencepost.cli import main
sys.argv = ["fencepost", "predict", "Ada met Charles."]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
unused = {"jinja2", "yaml", "urllib.request", "fencepost.cli.train", "fencepost.data.formats.registry"}
print(sorted(unused & sys.modules.keys()))
"""
    assert run(program).endswith("[]\n")
