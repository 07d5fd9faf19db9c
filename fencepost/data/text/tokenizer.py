"""A rule tokenizer with spaCy's rules for each language, which returns the same tokens without spaCy.

The rules are data in `rules/`, written by `tools/tokenizer_rules.py`. Those of a language are stored as
differences from the language-neutral ones (`xx`):

- `prefix`, `suffix`, `infix`: patterns at which a word is split; `whole`, `url`: words that are not split;
- `special`: words with the tokens that they are split into, or that are not split;
- `phrases`: special cases that the patterns would split, as tokens separated by spaces; they are searched for
  among the tokens at the end. `joined`: those that become one token, which are therefore not in `special`.
"""

from __future__ import annotations

import json
import re
import unicodedata
from enum import Enum
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

RULES = Path(__file__).parent / "rules"
NEUTRAL = "xx"
_CACHE_SIZE = 20_000  # different words, of less than 1 kB each
_CACHE_LENGTH = 50  # characters; longer words hardly occur twice
_CHUNK = re.compile(r"\S+|\A\s+|(?<=\S )\s+|(?<=\S)(?! )\s+")  # a single space after a word is not a token
_NOTHING = "(?!)"

_STOPS = frozenset(
    "!.?։؟۔܀܁܂߹।॥၊။።፧፨᙮᜵᜶᠃᠉᥄᥅᪨᪩᪪᪫᭚᭛᭞᭟᰻᰼᱾᱿‼‽⁇⁈⁉⸮⸼。꓿꘎꘏꛳꛷꡶꡷꣎꣏꤯꧈꧉꩝꩞꩟꫰꫱꯫﹒﹖"
    "﹗！．？｡𐩖𐩗𑁇𑁈𑂾𑂿𑃀𑃁𑅁𑅂𑅃𑇅𑇆𑇍𑇞𑇟𑈸𑈹𑈻𑈼𑊩𑑋𑑌𑗂𑗃𑗉𑗊𑗋𑗌𑗍𑗎𑗏𑗐𑗑𑗒𑗓𑗔𑗕𑗖𑗗𑙁𑙂𑜼𑜽𑜾𑩂𑩃𑪛𑪜𑱁𑱂𖩮𖩯𖫵𖬷𖬸𖭄𛲟𝪈"
)
"""Characters after which spaCy's sentencizer ends a sentence (MIT licence: `rules/LICENSE`)."""

_Trie = dict[str, Any]  # from a token to the tokens that may follow; the key "" marks the end of a phrase


class Kind(Enum):
    """Kind of a token, for the rule that ends sentences."""

    WORD = 0
    PUNCTUATION = 1
    STOP = 2
    SPACE = 3


Token = tuple[int, str, Kind]  # offset, text and kind


def resolve_language(language: str) -> str | None:
    """Return the code under which the rules of a language are stored; None if there are none."""
    code: str = _read("aliases").get(language, language)
    return code if re.fullmatch("[a-z]{2,3}", code) and (RULES / f"{code}.json").is_file() else None


def load_rules(code: str) -> dict[str, Any]:
    """Return the rules of a language; where it has none, the neutral ones."""
    neutral = _read(NEUTRAL)
    own = {} if code == NEUTRAL else _read(code)
    special = neutral["special"] if own.get("inherit", True) else []
    return neutral | own | {"special": special + own.get("special", [])}


def _read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((RULES / f"{name}.json").read_bytes())
    return content


def classify(token: str) -> Kind:
    """Return the kind of a token, by spaCy's `is_space`, `is_punct` and the characters of its sentencizer."""
    if token in _STOPS:
        return Kind.STOP
    if token.isspace():
        return Kind.SPACE
    if all(unicodedata.category(character).startswith("P") for character in token):
        return Kind.PUNCTUATION
    return Kind.WORD


class RuleTokenizer:
    """Tokenizer with the rules of a language; threads may share it."""

    def __init__(self, rules: Mapping[str, Any]) -> None:
        self._prefix = re.compile(rules["prefix"] or _NOTHING).search
        self._suffix = re.compile(rules["suffix"] or _NOTHING).search
        self._infixes = re.compile(rules["infix"] or _NOTHING).finditer
        self._whole = re.compile(rules["whole"] or _NOTHING).match
        self._url_pattern = rules["url"] or _NOTHING
        self._specials: dict[str, list[str]] = {}
        for case in (*rules["special"], *(phrase.replace(" ", "") for phrase in rules["joined"])):
            pieces = [case] if isinstance(case, str) else case
            self._specials["".join(pieces)] = pieces
        self._trie: _Trie = {}
        for phrase in (*rules["phrases"], *rules["joined"]):
            node = self._trie
            for token in phrase.split(" "):
                node = node.setdefault(token, {})
            node[""] = {}
        self._cache: dict[str, list[tuple[str, Kind, bool]]] = {}

    @cached_property
    def _url(self) -> re.Pattern[str]:
        return re.compile(self._url_pattern)  # compiled only when needed, because it is slow

    def __call__(self, text: str) -> list[Token]:
        """Return all tokens; they cover the text except for single spaces after a token."""
        tokens: list[Token] = []
        firsts = []  # indices of tokens that may start a phrase
        for match in _CHUNK.finditer(text):
            start, chunk = match.start(), match.group()
            for token, kind, starts_phrase in self._cache.get(chunk) or self._tokenize_chunk(chunk):
                if starts_phrase:
                    firsts.append(len(tokens))
                tokens.append((start, token, kind))
                start += len(token)
        return self._apply_phrases(text, tokens, firsts) if firsts else tokens

    def _tokenize_chunk(self, chunk: str) -> list[tuple[str, Kind, bool]]:
        """Return the tokens of a chunk, their kinds, and whether they may start a phrase; cache them."""
        tokens = [(token, classify(token), token in self._trie) for token in self._split(chunk)]
        if len(chunk) <= _CACHE_LENGTH:
            if len(self._cache) >= _CACHE_SIZE:
                self._cache = {}  # not cleared: another thread may be reading it
            self._cache[chunk] = tokens
        return tokens

    def _split(self, chunk: str) -> list[str]:
        """Split off prefixes and suffixes until a chunk is whole or a special case, then split the rest."""
        prefixes: list[str] = []
        suffixes: list[str] = []
        while chunk and chunk not in self._specials and not self._whole(chunk):
            prefix = _get_length(self._prefix(chunk))
            rest = chunk[prefix:]
            suffix = 0 if prefix and rest in self._specials else _get_length(self._suffix(rest))
            if suffix and chunk[:-suffix] in self._specials:
                prefix = 0  # it belongs to the special case
            if not prefix and not suffix:
                break
            end = len(chunk) - suffix
            prefixes += [chunk[:prefix]] if prefix else []
            suffixes += [chunk[end:]] if suffix else []
            chunk = chunk[prefix:end]
        return [*prefixes, *self._split_middle(chunk), *reversed(suffixes)]

    def _split_middle(self, chunk: str) -> list[str]:
        if chunk in self._specials:
            return self._specials[chunk]
        if self._whole(chunk) or ("." in chunk and self._url.match(chunk)):
            return [chunk] if chunk else []
        offsets = [0]
        for match in self._infixes(chunk):
            if match.start():
                offsets += match.span()
        offsets.append(len(chunk))
        return [chunk[start:end] for start, end in pairwise(offsets) if start < end]

    def _apply_phrases(self, text: str, tokens: list[Token], firsts: list[int]) -> list[Token]:
        """Replace phrases that are special cases; of overlapping ones, the longest, then the first.

        As in spaCy, the tokens of a phrase cannot be in another one, even if its text is not a special case.
        """
        phrases = [(first, last) for first in firsts for last in self._find_phrase_ends(tokens, first)]
        covered: set[int] = set()
        selection: list[tuple[int, int]] = []
        for first, last in sorted(phrases, key=lambda phrase: (phrase[0] - phrase[1], phrase[0])):
            if first not in covered and last - 1 not in covered:
                selection.append((first, last))
            covered.update(range(first, last))
        for first, last in sorted(selection, reverse=True):  # from the end, so that indices stay valid
            start, end = tokens[first][0], tokens[last - 1][0] + len(tokens[last - 1][1])
            if pieces := self._specials.get(text[start:end]):
                starts = accumulate(map(len, pieces), initial=start)
                tokens[first:last] = [
                    (at, piece, classify(piece)) for at, piece in zip(starts, pieces, strict=False)
                ]
        return tokens

    def _find_phrase_ends(self, tokens: list[Token], first: int) -> Iterator[int]:
        """Yield the ends of the phrases that start with a token."""
        node = self._trie
        for last in range(first, len(tokens)):
            if tokens[last][1] not in node:
                return
            node = node[tokens[last][1]]
            if "" in node:
                yield last + 1


def _get_length(match: re.Match[str] | None) -> int:
    return match.end() - match.start() if match else 0
