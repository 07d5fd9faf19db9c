"""The public names of `import fencepost`."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fencepost
from fencepost import Entity, Sentence, UsageError
from fencepost.runtime.loading import SHIPPED
from tests.runtime.doubles import Double, everything

NAMES = {
    *("load", "train", "evaluate", "read", "write", "Recogniser", "Document", "Span", "Entity", "Sentence"),
    *("FencepostError", "DataError", "UsageError", "LanguageWarning", "__version__"),
}


def test_dir_has_only_public_names() -> None:
    assert set(dir(fencepost)) == NAMES == set(fencepost.__all__)
    assert all(getattr(fencepost, name) is not None for name in NAMES)
    with pytest.raises(AttributeError, match="has no attribute 'lode'"):
        fencepost.lode  # noqa: B018


@pytest.mark.slow
def test_mypy_uses_the_types_of_the_package(tmp_path: Path) -> None:
    """The package has `py.typed`; `make lint` checks the same program in the repository."""
    program = (Path(__file__).parents[1] / "tools" / "user_program.py").read_text(encoding="utf-8")
    (tmp_path / "program.py").write_text(f"{program}    ner.lode()\n", encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "program.py"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    line = program.count("\n") + 1
    expected = f'program.py:{line}: error: "Recogniser" has no attribute "lode"  [attr-defined]'
    assert ended.stdout.splitlines()[:1] == [expected], ended.stdout + ended.stderr


GOLD = [
    Sentence(["Ada", "met", "Bob"], [Entity(0, 1, "PER"), Entity(2, 3, "PER")]),
    Sentence(["in", "Rome"], [Entity(1, 2, "LOC")]),
]
PREDICTED = [GOLD[0], GOLD[1].with_entities(())]


def test_evaluate_accepts_sentences_files_frames_and_recognisers(tmp_path: Path) -> None:
    def score(gold, predicted, **options) -> float:
        return fencepost.evaluate(gold, predicted, **options).overall.f1

    assert score(GOLD, PREDICTED) == pytest.approx(0.8)
    for path, sentences in ((tmp_path / "gold.jsonl", GOLD), (tmp_path / "predicted.xml", PREDICTED)):
        fencepost.write(sentences, path)
    assert score(tmp_path / "gold.jsonl", tmp_path / "predicted.xml") == pytest.approx(0.8)
    frames = [
        pd.DataFrame(
            [{"w": s.words, "marks": [[e.start, e.end, e.type] for e in s.entities]} for s in sentences]
        )
        for sentences in (GOLD, PREDICTED)
    ]
    columns = {"words": "w", "entities": "marks"}
    assert score(*frames, columns=columns) == pytest.approx(0.8)
    ner = fencepost.Recogniser(Double(lambda sentence: [e for e in everything(sentence) if len(e) == 1]))
    expected = fencepost.evaluate(GOLD, list(ner.predict(GOLD)))
    assert fencepost.evaluate(GOLD, ner) == expected
    assert expected.overall.counts != (0, 0, 0)


def test_evaluate_refuses_other_data() -> None:
    with pytest.raises(UsageError, match=r"comes first: fencepost.evaluate\(gold, recogniser\)"):
        fencepost.evaluate(fencepost.Recogniser(Double(everything)), GOLD)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"the gold data must be a file, sentences, .*, not int"):
        fencepost.evaluate(3, GOLD)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="the predicted data: number 1 has the type str; sentences must be"):
        fencepost.evaluate(GOLD, [GOLD[0], "Rome"])  # type: ignore[list-item]


SENTENCE = GOLD[0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda ner, out: fencepost.load(3), "the folder of a model must be a path, not int"),
        (lambda ner, out: fencepost.load("nowhere"), r"nowhere: not a model folder \(it does not exist\)"),
        (lambda ner, out: fencepost.load(threads="2"), "threads: should be at least 1, .* not '2'"),
        (lambda ner, out: fencepost.load(device="gpu"), "there is no device 'gpu'; .*cpu, cuda, mps"),
        (lambda ner, out: fencepost.load(min_confidence=True), "min_confidence is True"),
        (lambda ner, out: fencepost.read(3), "path must be a file, a data frame or rows, not int"),
        (lambda ner, out: fencepost.write(GOLD, 3), "the output must be a path, not int"),
        (lambda ner, out: fencepost.write(3, out / "x.jsonl"), "sentences must be a list of .*, not int"),
        (lambda ner, out: fencepost.write(SENTENCE, out / "x.jsonl"), "sentences must be .*, not Sentence"),
        (lambda ner, out: fencepost.write("Ada", out / "x.jsonl"), "must be a fencepost.Sentence, not str"),
        (lambda ner, out: fencepost.train(GOLD, 3), "out must be a path, not int"),
        (lambda ner, out: fencepost.train(GOLD, out, start=3), "start must be a path, not int"),
        (lambda ner, out: fencepost.train(GOLD, out, config=3), "config, .* must be a path, not int"),
        (lambda ner, out: list(ner.predict(["Ada"])), "must be a fencepost.Sentence, not str"),
        (lambda ner, out: list(ner.predict(SENTENCE)), "sentences must be a list of .*, not Sentence"),
        (lambda ner, out: list(ner.pipe(None)), "texts are a list of strings, .*, not NoneType"),
    ],
)
def test_values_of_another_type_are_refused(call, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        call(fencepost.Recogniser(Double(everything)), tmp_path)


def test_entities_become_json() -> None:
    ner = fencepost.Recogniser(Double(everything))
    spans, (sentence,) = ner("Ada met Bob"), ner.predict([Sentence(["Ada", "met", "Bob"])])
    for entity in (*spans, *sentence.entities):
        item = json.loads(json.dumps(entity.to_dict()))
        assert (item["start"], item["end"], item["type"]) == (entity.start, entity.end, entity.label)
    assert Entity(0, 1, "PER", meta={"named": "yes"}).to_dict()["meta"] == {"named": "yes"}


def test_load_fetches_hub_names_but_not_paths(monkeypatch, tmp_path: Path) -> None:
    fetched = []

    def fetch(name, **_options):
        fetched.append(name)
        return SHIPPED

    monkeypatch.setattr("fencepost.integrations.hub.fetch", fetch)
    monkeypatch.chdir(tmp_path)
    assert fencepost.load("owner/model", types=["person"]).folder == SHIPPED
    assert fetched == ["owner/model"]
    (tmp_path / "models").mkdir()
    for path in ("models/mine", "mine", "/nothing/here", "../a/b", tmp_path / "owner/model", "a/b/c"):
        with pytest.raises(UsageError, match="not a model folder"):
            fencepost.load(path)
    assert fetched == ["owner/model"]


def test_min_confidence_can_be_set_per_type() -> None:
    text = "Ada met Bob in the long summer of the year in London"
    every = fencepost.Recogniser(Double(everything))(text)
    least = {"PER": 0.7, "LOC": 1.0}
    expected = [span for span in every if span.score >= least.get(span.type, 0)]
    assert 0 < len(expected) < len(every)
    assert fencepost.Recogniser(Double(everything), min_confidence=least)(text) == expected
    ner = fencepost.Recogniser(Double(everything), min_confidence=0.9)
    assert ner.with_options(min_confidence=least)(text) == expected
    for number in (np.float32(0.5), np.float64(0.5)):
        assert ner.with_options(min_confidence=number)(text) == [s for s in every if s.score >= 0.5]
        assert ner.with_options(min_confidence={"PER": number})(text) != every
    with pytest.raises(UsageError, match="there is no type 'PERS'; did you mean PER"):
        ner.with_options(min_confidence={"PERS": 0.5})
    for value in (-0.1, 1.1, float("nan"), "0.5", None):
        with pytest.raises(UsageError, match=r"min_confidence is .*; a confidence is between 0 and 1"):
            ner.with_options(min_confidence={"PER": value})
