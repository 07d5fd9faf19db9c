"""Write the rules of spaCy's tokenizer as data: `python -m tools.tokenizer_rules` (needs spaCy).

Each language has a file in `fencepost/data/text/rules/` with the differences from the language-neutral rules
(`xx.json`). The patterns are those of spaCy with fewer characters: ranges of character classes are merged,
and alternatives with the same end are grouped, which does not change what they match.
"""

from __future__ import annotations

import json
import pkgutil
import re
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

import spacy
import spacy.lang
from spacy.symbols import ORTH
from spacy.tokenizer import Tokenizer
from spacy.util import LANG_ALIASES

from fencepost.data.text.tokenizer import NEUTRAL, RULES, RuleTokenizer

if TYPE_CHECKING:
    from collections.abc import Iterable

PATTERNS = {
    "prefix": "prefix_search",
    "suffix": "suffix_search",
    "infix": "infix_finditer",
    "whole": "token_match",
    "url": "url_match",
}
CHARACTERS = dict.fromkeys(PATTERNS) | {"infix": r"\S"}  # for Chinese, as spaCy's default segmenter
OWN_SEGMENTER = {"ja", "ko", "th", "vi"}  # languages that need another package
EVERYTHING = "".join(map(chr, range(sys.maxunicode + 1)))
_CLASS = re.compile(r"\\.|\[(\^?)(\]?(?:\\.|[^\]\\])*)\]")  # or an escaped character outside of one
_SHORT = 40  # characters of a class that is not changed
_ALTERNATIVE = re.compile(r"\(\?:\^((?:\(\?:[^()]*\)|[^|()])*?)((?:\[[^\]]*\][+*]?)+)\$\)")


def shorten(pattern: str) -> str:
    """Return a shorter pattern that matches the same."""
    return _CLASS.sub(lambda match: _merge(*match.groups()) if match[2] else match[0], pattern)


@cache
def _merge(negation: str, body: str) -> str:
    """Return a character class with disjoint ranges; raises `ValueError` if this changes its characters."""
    if len(body) < _SHORT or re.search(r"\\[dswDSW]", body):
        return f"[{negation}{body}]"
    ranges: list[list[int]] = []
    for code in map(ord, re.findall(f"[{body}]", EVERYTHING)):
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    shorter = "".join(
        re.escape(chr(first)) + ("-" if last > first + 1 else "") + re.escape(chr(last)) * (last > first)
        for first, last in ranges
    )
    for flags in (re.NOFLAG, re.IGNORECASE):
        if re.findall(f"[{shorter}]", EVERYTHING, flags) != re.findall(f"[{body}]", EVERYTHING, flags):
            raise ValueError(f"the characters change: {body}")
    return f"[{negation}{shorter}]"


def group(pattern: str) -> str:
    """Group the alternatives `^...$` that end with the same classes, if there are no others.

    French has hundreds with large classes, which would take 4 s to compile.
    """
    heads: dict[str, list[str]] = {}
    for head, tail in _ALTERNATIVE.findall(pattern):
        heads.setdefault(tail, []).append(head)
    flags = _ALTERNATIVE.sub("", pattern).replace("|", "")
    if not re.fullmatch(r"(\(\?\w+\))?", flags):
        return pattern  # there are other alternatives
    return flags + "|".join(f"^(?:{'|'.join(group)}){tail}$" for tail, group in heads.items())


def export_patterns(tokenizer: Tokenizer) -> dict[str, str | None]:
    patterns: dict[str, str | None] = {}
    for name, attribute in PATTERNS.items():
        method = getattr(tokenizer, attribute)
        patterns[name] = None
        if method is not None:
            compiled = method.__self__
            implied = re.compile(compiled.pattern).flags
            if compiled.flags != implied:
                raise ValueError(f"{name} has flags that are not part of its pattern")
            patterns[name] = shorten(compiled.pattern)
    if patterns["whole"]:
        patterns["whole"] = group(patterns["whole"])
    return patterns


def export_cases(
    tokenizer: Tokenizer, patterns: dict[str, str | None], neutral: dict[str, list[str]]
) -> dict[str, Any]:
    """Return the special cases that are not neutral ones, and the phrases of all special cases."""
    plain = RuleTokenizer({**patterns, "special": [], "joined": [], "phrases": []})
    cases = list_special_cases(tokenizer)
    inherit = neutral.keys() <= cases.keys()
    own = {text: cases[text] for text in cases if not inherit or neutral.get(text) != cases[text]}
    phrases = {
        text: " ".join(token for _, token, _ in plain(text))
        for text in cases
        if " " in text
        or tokenizer.find_prefix(text)
        or tokenizer.find_suffix(text)
        or tokenizer.find_infix(text)
    }
    single = {  # phrases that become one token
        text: phrase
        for text, phrase in phrases.items()
        if neutral and own.get(text) == [text] and phrase.replace(" ", "") == text
    }
    own = {text: pieces for text, pieces in own.items() if text not in single}
    # White space needs no phrase, and could not be distinguished from the separators of tokens.
    others = {phrase for text, phrase in phrases.items() if text not in single and not text.isspace()}
    return {
        "inherit": inherit,
        "special": [pieces if len(pieces) > 1 else pieces[0] for pieces in own.values()],
        "joined": list(single.values()),
        "phrases": sorted(others),
    }


def list_special_cases(tokenizer: Tokenizer) -> dict[str, list[str]]:
    return {text: [piece[ORTH] for piece in pieces] for text, pieces in sorted(tokenizer.rules.items())}


def export(languages: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the content of the files by name."""
    neutral_tokenizer = spacy.blank(NEUTRAL).tokenizer
    patterns = export_patterns(neutral_tokenizer)
    neutral = patterns | export_cases(neutral_tokenizer, patterns, {})
    files: dict[str, dict[str, Any]] = {
        "aliases": {alias: code for code, aliases in LANG_ALIASES.items() for alias in aliases},
        NEUTRAL: neutral,
        "zh": CHARACTERS | {"inherit": False, "joined": [], "phrases": []},
    }
    for language in sorted(set(languages) - files.keys()):
        tokenizer = spacy.blank(language).tokenizer
        patterns = export_patterns(tokenizer)
        rules = patterns | export_cases(tokenizer, patterns, list_special_cases(neutral_tokenizer))
        files[language] = {key: value for key, value in rules.items() if value != neutral[key]}
    return files


def to_json(content: dict[str, Any]) -> str:
    """Return the text of a file, with a line for each key."""
    lines = (f"{json.dumps(key)}:{_compact(value)}" for key, value in content.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def main() -> None:
    """Rewrite the files that ship in the package."""
    languages = {module.name for module in pkgutil.iter_modules(spacy.lang.__path__) if module.ispkg}
    for name, content in export(languages - OWN_SEGMENTER).items():
        (RULES / f"{name}.json").write_text(to_json(content), "utf-8", newline="\n")


if __name__ == "__main__":
    main()
