"""The rule tokenizer, compared with that of spaCy, which has the same rules."""

import pkgutil
import random
import re
import threading
import unicodedata
from functools import cache

import pytest
import spacy
import spacy.lang
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.lang.fr import tokenizer_exceptions as french
from spacy.pipeline import Sentencizer

from fencepost.data import read
from fencepost.data.text import tokenizer
from fencepost.data.text.tokenizer import RULES, Kind, RuleTokenizer, classify, load_rules, resolve_language
from tests import strategies
from tools.tokenizer_rules import OWN_SEGMENTER, export, to_json

ALL = sorted({module.name for module in pkgutil.iter_modules(spacy.lang.__path__) if module.ispkg})
FUZZED = ("de", "en", "es", "fr", "hu", "id", "ru", "tr", "xx", "zh")
FRAGMENTS = [
    *"()[]{}.,;:!?'\"’‘“”«»-–—…/*&%$€£°+=<>~_#@^|\\`",
    *("...", "..", "--", "http://", "www.", "a.b", "@x.com", "km", "5", "10", "3.5", "kg", "1990", "USA"),
    *("A", "b", "É", "ß", "ж", "科", "。", "can't", "l'", "d’", "n't", "U.S.A.", "e.g.", "°C.", "😀", "İ"),
    *(" ", "  ", "\n", "\t", "\n\n", "\u3000", "\xa0", "\u200b"),
]
MULTILINGUAL = """Dr. Smith's co-workers can't pay US$5.50 (approx. 4,10 €) at 10a.m.; see
https://a.example/b?c=1.
M. Dupont n'est-il pas là? L'aujourd'hui de Saint-Jean-d'Acre. „Gänsefüßchen“ z.B. 3.km,  „så“ bl.a. 5kg…
¿Qué tal, Sra. López? EE. UU. — «Москва» и др. т.е. 5°C. Ελλάδα; Αγ. Γρ. 科技。好
العربية، ب. م שלום עולם हिन्दी।
A.B.C. e-mail me@x.org :-) ^_^ (╯°□°）╯︵┻━┻ C++ 1/2 10-20 50% #tag @user
'N diugh\t\tdon’t-you\n \nx²  yo-yo… aba-aba
"""


@cache
def make_pair(code):
    """Return our tokenizer of a language and the pipeline of spaCy, which takes a second to make."""
    return RuleTokenizer(load_rules(code)), spacy.blank(code)


def tokens_of_spacy(nlp, text):
    return [(token.idx, token.text) for token in nlp.make_doc(text)]


def tokens_of_ours(tokenize, text):
    return [(start, token) for start, token, _ in tokenize(text)]


@pytest.mark.parametrize(
    "code",
    [
        code if code in FUZZED else pytest.param(code, marks=pytest.mark.slow)
        for code in sorted(set(ALL) - OWN_SEGMENTER)
    ],
)
def test_tokens_of_each_language_equal_those_of_spacy(code):
    tokenize, nlp = make_pair(code)
    specials = sorted(getattr(nlp.tokenizer, "rules", {}))
    rng = random.Random(code)  # noqa: S311
    mixture = "".join(rng.choice(specials or ["a"]) + rng.choice(FRAGMENTS) for _ in range(300))
    for text in (MULTILINGUAL, mixture, " ".join(specials[:2000])):
        assert tokens_of_ours(tokenize, text) == tokens_of_spacy(nlp, text)


@pytest.mark.parametrize("code", FUZZED)
@settings(max_examples=100)
@given(data=st.data())
def test_tokens_of_any_text_equal_those_of_spacy(code, data):
    tokenize, nlp = make_pair(code)
    specials = st.sampled_from(sorted(getattr(nlp.tokenizer, "rules", {})) or ["a"])
    parts = st.sampled_from(FRAGMENTS) | specials | strategies.odd_words | st.just(" ")
    text = data.draw(st.lists(parts, max_size=15).map("".join))
    assert tokens_of_ours(tokenize, text) == tokens_of_spacy(nlp, text)


@pytest.mark.corpora
@pytest.mark.parametrize(
    "name", ["gum/dev.jsonl", "gum/test.jsonl", "genia/train.jsonl", "genia/test.jsonl", "wnut17/train.conll"]
)
def test_tokens_of_corpora_equal_those_of_spacy(shared_data, name):
    tokenize, nlp = make_pair("en")
    texts = [sentence.text for sentence in read(shared_data / name)]
    assert len(texts) > 1000
    for first in range(0, len(texts), 20):
        text = " ".join(texts[first : first + 20])
        assert tokens_of_ours(tokenize, text) == tokens_of_spacy(nlp, text)


@given(
    st.sampled_from(FRAGMENTS) | strategies.odd_words.filter(bool) | st.characters(exclude_categories=["Cs"])
)
def test_kinds_of_tokens_equal_those_of_spacy(token):
    lexeme = make_pair("en")[1].vocab[token]
    expected = Kind.PUNCTUATION if lexeme.is_punct else Kind.SPACE if lexeme.is_space else Kind.WORD
    assert classify(token) is (Kind.STOP if token in Sentencizer.default_punct_chars else expected)


def test_stops_equal_those_of_the_sentencizer():
    assert set(Sentencizer.default_punct_chars) == tokenizer._STOPS
    assert not any(unicodedata.category(stop).startswith("Z") for stop in tokenizer._STOPS)


def test_grouped_french_patterns_match_like_those_of_spacy():
    whole = re.compile(load_rules("fr")["whole"]).match
    original = make_pair("fr")[1].tokenizer.token_match
    words = [prefix for prefix in french._hyphen_prefix if prefix.isalpha()]
    assert len(words) > 50
    for word in words:
        for text in (
            f"{word}-vampire",
            f"{word.upper()}–vampire-d'or",
            f"{word}vampire",
            f"x{word}-a",
            f"{word}-A5",
        ):
            assert bool(whole(text)) == bool(original(text)), text


@pytest.mark.slow
def test_shipped_rules_equal_the_export_of_the_tool():
    languages = ("en", "tr")
    for name, content in export(languages).items():
        assert (RULES / f"{name}.json").read_text("utf-8") == to_json(content), name


def test_language_aliases_are_resolved():
    assert [resolve_language(name) for name in ("eng", "ger", "iw", "zho", "en")] == [
        "en",
        "de",
        "he",
        "zh",
        "en",
    ]
    assert not any(map(resolve_language, ("ja", "jpn", "klingon", "aliases", "../xx", "EN", "")))


def test_cache_has_a_limited_size(monkeypatch):
    monkeypatch.setattr(tokenizer, "_CACHE_SIZE", 100)
    tokenize = RuleTokenizer(load_rules("en"))
    for number in range(500):
        tokenize(f"new{number} {'long' * 50}{number}")
        assert len(tokenize._cache) <= 100
    assert not any(len(chunk) > tokenizer._CACHE_LENGTH for chunk in tokenize._cache)


def test_threads_can_share_a_tokenizer(monkeypatch):
    monkeypatch.setattr(tokenizer, "_CACHE_SIZE", 5)
    tokenize = RuleTokenizer(load_rules("en"))
    expected, results = tokens_of_ours(make_pair("en")[0], MULTILINGUAL), []
    threads = [
        threading.Thread(
            target=lambda: results.extend(tokens_of_ours(tokenize, MULTILINGUAL) for _ in range(20))
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 80
