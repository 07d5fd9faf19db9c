"""The warning about text in a language that the model does not know."""

import importlib
import json
import shutil
import warnings

import pytest

from fencepost.data import read
from fencepost.data.entity import Sentence
from fencepost.encoder.settings import TextProfile, TextSettings
from fencepost.errors import LanguageWarning
from fencepost.runtime.language import LanguageCheck
from fencepost.runtime.loading import SHIPPED, load
from fencepost.runtime.recogniser import Recogniser
from tests.runtime.doubles import Double, marking

OTHER_SCRIPTS = ("ru", "zh", "ar", "el", "ja", "he", "hi", "ko", "uk", "bg", "fa", "am", "ta", "te", "kn")
SAME_SCRIPT = ("de", "fr", "fi", "es", "it", "nl", "pl", "cs", "sv", "tr", "id", "hu", "ro", "lt", "vi", "pt")
ENGLISH = {
    "names": "Sarah Lee, Zoë Müller, Łukasz Nowak, Nguyễn Văn A, José García, Søren Kierkegaard. " * 4,
    "numbers": "12 34.5 67% $5m 2024-01-01 1,000 3x\n" * 20,
    "code": "def find(self, words):\n    return [word for word in words if word.isalpha()]\n" * 6,
    "emoji": "😀 🎉 so happy today!!! 😂😂 #blessed @ada thx u guys 🙏 лол\n" * 4,
    "terms": "NF-κB and TNF-α activate interleukin-2 transcription in human T lymphocytes via β2 integrins. "
    * 4,
    "a title": "War and Peace (Война и мир) was written by Leo Tolstoy (Лев Николаевич Толстой) in Russia.",
    "list": "- Budget: $5m\n- Owner: Sarah Lee\n- Team: ops, sales, legal\n" * 10,
    "link": "see https://example.org/a/b?c=d and mail ada@example.org " * 10,
}


@pytest.fixture(scope="module")
def shipped():
    return load()


def check_of(recogniser, *, old=False, language="en"):
    predictor = recogniser._predictor
    return LanguageCheck(None if old else predictor.profile, predictor.subwords, language)


def reason(recogniser, text, **options):
    check = check_of(recogniser, **options)
    for words in recogniser._splitter.split(text):
        check.add([text[start:end] for start, end in words])
    return check.judge()


def examples(language):
    """Return the example sentences of spaCy."""
    return " ".join(importlib.import_module(f"spacy.lang.{language}.examples").sentences)


@pytest.mark.parametrize("language", OTHER_SCRIPTS)
def test_warns_of_other_scripts(shipped, language):
    assert "of its letters are of other scripts" in reason(shipped, examples(language))
    assert reason(shipped, examples(language), old=True) is not None or language in ("am", "ta", "te", "kn")


@pytest.mark.parametrize("language", SAME_SCRIPT)
def test_warns_of_other_languages_in_the_same_script(shipped, language):
    assert "most frequent words of the training data" in reason(shipped, examples(language))


@pytest.mark.parametrize("name", ENGLISH)
def test_does_not_warn_of_english(shipped, name):
    assert reason(shipped, ENGLISH[name]) is None
    assert reason(shipped, ENGLISH[name], old=True) is None


def test_warning_is_shown_once():
    ner = load()
    with pytest.warns(
        LanguageWarning, match=r"another language: 100% of its letters .* Cyrillic\. .*Shown once"
    ):
        ner("Меня зовут Анна, и я живу в Москве.")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ner("Меня зовут Анна, и я живу в Москве.")
        ner.with_options(select="flat")("Меня зовут Анна, и я живу в Москве.")
        list(load().pipe(["Ada Lovelace was born in London."] * 3))


def test_only_the_first_words_of_a_run_are_checked():
    ner = load()
    list(ner.pipe(["Ada Lovelace was born in London and met him there."] * 150))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ner("Меня зовут Анна, и я живу в Москве.")
    assert ner._language_check.rest == 0


def test_few_foreign_words_do_not_warn():
    ner = load()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ner("Война и мир. War and Peace is a novel by Leo Tolstoy that was read by many people in England.")


def test_profile_has_scripts_and_frequent_words_of_the_training_data():
    words = [*("the", "cat", "saw", "a", "dog"), *("and", "the", "dog", "saw", "the", "man"), "of", "."]
    profile = TextSettings().fit_to([Sentence(words)] * 500).profile
    assert profile.scripts == ("LATIN",)
    assert profile.words[0] == "the"
    assert 0.9 < profile.share <= 1
    few = TextSettings().fit_to([Sentence(words)]).profile
    assert (few.words, few.share) == ((), 0.0)
    assert TextSettings().fit_to([Sentence(["Москва"])]).profile.scripts == ("CYRILLIC",)
    own = TextProfile(scripts=("GREEK",))
    assert TextSettings(profile=own).fit_to([Sentence(words)]).profile == own


def test_old_models_of_languages_with_one_letter_per_word_do_not_warn(shipped):
    assert reason(shipped, examples("ru"), old=True, language="zh") is None


def test_models_without_profile_or_tokenizer_do_not_warn(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Recogniser(Double(marking(("Ada",))))("Меня зовут Анна, и я живу в Москве.")
    old = shutil.copytree(SHIPPED, tmp_path / "old")
    saved = json.loads((old / "config.json").read_text())
    del saved["config"]["text"]["profile"]
    (old / "config.json").write_text(json.dumps(saved))
    with pytest.warns(LanguageWarning, match=r"sub-words of 1\.\d letters"):
        load(old)("Меня зовут Анна, и я живу в Москве.")


def test_command_warns_in_one_line_unless_quiet(tmp_path):
    from typer.testing import CliRunner

    from fencepost.cli import app

    text = "Меня зовут Анна, и я живу в Москве."
    result = CliRunner().invoke(app, ["predict", text, "--output", "-"])
    assert result.exit_code == 0
    (line,) = result.stderr.splitlines()[:1]
    assert line.startswith("warning: this text differs from the training data of the model")
    assert json.loads(result.stdout)["text"] == text
    assert "warning" not in CliRunner().invoke(app, ["predict", text, "--output", "-", "--quiet"]).stderr


@pytest.mark.corpora
@pytest.mark.parametrize(
    ("path", "size"),
    [
        ("gum/test.jsonl", 1),
        ("gum/test.jsonl", 20),
        ("genia/test.jsonl", 1),
        ("genia/test.jsonl", 20),
        ("wnut17/test.conll", 20),  # some single tweets are German or Dutch, and noticed
        ("wnut17/train.conll", 20),
    ],
)
def test_does_not_warn_of_english_corpora(shared_data, shipped, path, size):
    sentences = list(read(shared_data / path))
    for start in range(0, len(sentences), size):
        check = check_of(shipped)
        for sentence in sentences[start : start + size]:
            check.add(sentence.words)
        assert check.judge() is None, sentences[start].text


@pytest.mark.corpora
def test_warns_of_chinese_corpora(shared_data, shipped):
    check = check_of(shipped)
    for sentence in read(shared_data / "resume" / "test.bmes"):
        check.add(sentence.words)
    assert "Chinese" in check.judge()
