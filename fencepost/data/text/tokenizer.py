"""A rule tokenizer that gives the tokens of spaCy's, by spaCy's rules for a language, without spaCy.

The rules are data (`rules/`, written by `tools/tokenizer_rules.py`), those of a language as differences from
the language-neutral ones (`xx`):

- `prefix`, `suffix`, `infix`: patterns of what is cut off or out of a word; `whole`, `url`: what stays whole;
- `special`: words whose tokens are given, or that stay one token;
- `phrases`: special cases that the patterns alone cut, as tokens with spaces between them: they are looked
  for among the tokens in the end. `joined`: those that become one token, and so are not in `special`.
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
_CHUNK = re.compile(r"\S+|\A\s+|(?<=\S )\s+|(?<=\S)(?! )\s+")  # one space after a word is no token
_NOTHING = "(?!)"

_STOPS = frozenset(
    "!.?։؟۔܀܁܂߹।॥၊။።፧፨᙮᜵᜶᠃᠉᥄᥅᪨᪩᪪᪫᭚᭛᭞᭟᰻᰼᱾᱿‼‽⁇⁈⁉⸮⸼。꓿꘎꘏꛳꛷꡶꡷꣎꣏꤯꧈꧉꩝꩞꩟꫰꫱꯫﹒﹖"
    "﹗！．？｡𐩖𐩗𑁇𑁈𑂾𑂿𑃀𑃁𑅁𑅂𑅃𑇅𑇆𑇍𑇞𑇟𑈸𑈹𑈻𑈼𑊩𑑋𑑌𑗂𑗃𑗉𑗊𑗋𑗌𑗍𑗎𑗏𑗐𑗑𑗒𑗓𑗔𑗕𑗖𑗗𑙁𑙂𑜼𑜽𑜾𑩂𑩃𑪛𑪜𑱁𑱂𖩮𖩯𖫵𖬷𖬸𖭄𛲟𝪈"
)
"""The marks after which spaCy's sentencizer ends a sentence (its MIT licence: `rules/LICENSE`)."""

_Trie = dict[str, Any]  # token -> the tokens that may follow; "" -> a phrase may end here


class Kind(Enum):
    """What a token is to the rule that ends sentences."""

    WORD = 0
    PUNCTUATION = 1
    STOP = 2
    SPACE = 3


Token = tuple[int, str, Kind]  # with the place where its text starts


def resolve_language(language: str) -> str | None:
    """Return the code under which the rules of a language are stored; None if there are none."""
    code: str = _read("aliases").get(language, language)
    return code if re.fullmatch("[a-z]{2,3}", code) and (RULES / f"{code}.json").is_file() else None


def load_rules(code: str) -> dict[str, Any]:
    """Return the rules of a language: its own, and the neutral ones where it has none."""
    neutral = _read(NEUTRAL)
    own = {} if code == NEUTRAL else _read(code)
    special = neutral["special"] if own.get("inherit", True) else []
    return neutral | own | {"special": special + own.get("special", [])}


def _read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((RULES / f"{name}.json").read_bytes())
    return content


def kind_of(token: str) -> Kind:
    """Return the kind of a token: spaCy's `is_space` and `is_punct`, and the marks of its sentencizer."""
    if token in _STOPS:
        return Kind.STOP
    if token.isspace():
        return Kind.SPACE
    if all(unicodedata.category(character).startswith("P") for character in token):
        return Kind.PUNCTUATION
    return Kind.WORD


class RuleTokenizer:
    """Cuts texts into tokens by the rules of a language; threads may share one."""

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
        return re.compile(self._url_pattern)  # at the first word with a dot inside: it takes a while

    def __call__(self, text: str) -> list[Token]:
        """Return all tokens; what is not in one are single spaces after a token."""
        tokens: list[Token] = []
        beginnings = []  # where a phrase may begin
        for match in _CHUNK.finditer(text):
            start, chunk = match.start(), match.group()
            for piece, kind, begins in self._cache.get(chunk) or self._pieces(chunk):
                if begins:
                    beginnings.append(len(tokens))
                tokens.append((start, piece, kind))
                start += len(piece)
        return self._apply_phrases(text, tokens, beginnings) if beginnings else tokens

    def _pieces(self, chunk: str) -> list[tuple[str, Kind, bool]]:
        """Return the tokens of a chunk with all that depends on them alone, and remember them."""
        pieces = [(piece, kind_of(piece), piece in self._trie) for piece in self._split(chunk)]
        if len(chunk) <= _CACHE_LENGTH:
            if len(self._cache) >= _CACHE_SIZE:
                self._cache = {}  # not cleared: another thread may be reading it
            self._cache[chunk] = pieces
        return pieces

    def _split(self, chunk: str) -> list[str]:
        """Cut prefixes and suffixes off a chunk until it is whole or a special case, then cut its middle."""
        prefixes: list[str] = []
        suffixes: list[str] = []
        while chunk and chunk not in self._specials and not self._whole(chunk):
            prefix = _length(self._prefix(chunk))
            rest = chunk[prefix:]
            suffix = 0 if prefix and rest in self._specials else _length(self._suffix(rest))
            if suffix and chunk[:-suffix] in self._specials:
                prefix = 0  # what looks like one belongs to the special case
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
        borders = [0]
        for match in self._infixes(chunk):
            if match.start():
                borders += match.span()
        borders.append(len(chunk))
        return [chunk[start:end] for start, end in pairwise(borders) if start < end]

    def _apply_phrases(self, text: str, tokens: list[Token], beginnings: list[int]) -> list[Token]:
        """Replace phrases that are special cases: the longest first, then the first.

        As in spaCy, what a phrase covers is closed to others even if its text turns out to be none.
        """
        phrases = [(first, last) for first in beginnings for last in self._ends(tokens, first)]
        taken: set[int] = set()
        chosen: list[tuple[int, int]] = []
        for first, last in sorted(phrases, key=lambda phrase: (phrase[0] - phrase[1], phrase[0])):
            if first not in taken and last - 1 not in taken:
                chosen.append((first, last))
            taken.update(range(first, last))
        for first, last in sorted(chosen, reverse=True):  # from the end, so that places stay valid
            start, end = tokens[first][0], tokens[last - 1][0] + len(tokens[last - 1][1])
            if pieces := self._specials.get(text[start:end]):
                starts = accumulate(map(len, pieces), initial=start)
                tokens[first:last] = [
                    (at, piece, kind_of(piece)) for at, piece in zip(starts, pieces, strict=False)
                ]
        return tokens

    def _ends(self, tokens: list[Token], first: int) -> Iterator[int]:
        """Yield where phrases that begin at a token end."""
        node = self._trie
        for last in range(first, len(tokens)):
            if tokens[last][1] not in node:
                return
            node = node[tokens[last][1]]
            if "" in node:
                yield last + 1


def _length(match: re.Match[str] | None) -> int:
    return match.end() - match.start() if match else 0
