"""Feeds mutated corpora to every reader: each must read them or say what is wrong, and nothing else.

`python -m benchmarks.fuzz_readers --mutations 1000000 --seed 0 --jobs 2`

Small valid files are damaged at random and read in memory, as the format that detection finds and as the
format that they once were. These are failures: an exception that is not a `FencepostError`, a reading that
does not end, the death of the process, and a sentence that differs from what a second, naive reading of the
same bytes finds. A case depends on the seed, the format and its number alone, so that a failure can be
made again; its input is kept in the folder of failures.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import multiprocessing
import random
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import srsly  # type: ignore[import-untyped]

from benchmarks.common import machine, report, say
from fencepost.corpus import FORMATS, ReadOptions, WriteOptions, write
from fencepost.corpus.brat import read_document
from fencepost.corpus.formats import detect_format
from fencepost.corpus.json_tokens import SHAPES, encode
from fencepost.corpus.overlaps import overlapping
from fencepost.corpus.source import BYTE_ORDER_MARK, Found, Reading, Rejected, Source
from fencepost.entity import Entity, Sentence
from fencepost.errors import FencepostError
from fencepost.text import make_splitter

CASE_SECONDS = 20  # a reading of some hundred bytes that takes longer hangs
STALL_SECONDS = 120  # the same, where the hang is in C code that no signal interrupts
MEMORY_BYTES = 6 << 30
CHUNK = 250  # cases that a worker takes at a time
KEPT_PER_SIGNATURE = 3  # inputs of one kind of failure that are saved

# How many of a thousand mutations each format gets; those that go through spaCy are slower.
WEIGHTS = {"jsonl-text": 50, "brat": 40, "spacy": 25, "gpml": 85}
WEIGHT = 100
LEAST = 20_000  # of a full run, for any format


# --- Seeds: valid files, small, with every feature of their format ---------------------------------

PEOPLE = Sentence(
    ["The", "mayor", "of", "New", "York", "met", "Ada", "Lovelace", "."],
    [Entity(0, 5, "PER"), Entity(3, 5, "LOC"), Entity(3, 5, "GPE"), Entity(6, 8, "PER", 0.75)],
    id="s1",
    doc="news",
    pos=["DT", "NN", "IN", "NNP", "NNP", "VBD", "NNP", "NNP", "."],
    space_after=[True, True, True, True, True, True, True, False, False],
)
CHINESE = Sentence(["科", "技", "大", "学", "在", "北", "京"], [Entity(0, 4, "ORG.NAM"), Entity(5, 7, "GPE")])
BIOLOGY = Sentence(
    ["IL-2", "gene", "expression", "in", "café-like", "T", "cells", "😀"],
    [Entity(0, 1, "protein"), Entity(0, 2, "DNA", meta={"named": True}), Entity(5, 7, "cell_type")],
    id="s2",
    doc="abstract",
    left=["Before", "it"],
    right=["after"],
    meta={"genre": "bio", "numbers": [1, 2.5, None]},
)
SHORT = Sentence(["Paris"], [Entity(0, 1, "LOC")], doc="abstract")
EMPTY = Sentence(["No", "name", "here", "#", "(", ")", "!"])
SAMPLE = [PEOPLE, SHORT, EMPTY, BIOLOGY, CHINESE]
CHARACTERS = [
    replace(CHINESE, meta={"positions": [0, 1, 2, 3, 0, 0, 1]}),
    Sentence(list("我爱北京"), [Entity(2, 4, "GPE.NAM")], meta={"positions": [0, 0, 0, 1]}),
    Sentence(["好"], meta={"positions": [0]}),
]

Parts = tuple[bytes, ...]  # a file; or for BRAT the annotations and the text

BY_HAND: dict[str, list[str]] = {
    "jsonl": [
        """\
{"words": ["A", "b"], "entities": [{"start": 0, "end": 2, "type": "X", "text": "A b", "k": 1}]}\r
\r
{"words": [], "entities": [], "sent_id": 7, "meta": {"a": {"b": "\\u00e9\\ud83d\\ude00"}}}\r
""",
        """\
[{"words": ["A", "b"], "entities": []},
 {"words": ["c]"], "entities": [{"start": 0, "end": 1, "type": "X", "score": 0.5}]}
]
""",
    ],
    "jsonl-tokens": [
        """\
{"tokens": ["A", "b", "c"], "entities": [{"start": 0, "end": 0, "type": "X"}], "orig_id": "o"}
{"tokens": ["d"], "entities": [], "ltokens": ["l"]}
""",
        """\
{"tokens": ["A", "b", "c"], "entities": [{"start": 0, "end": 3, "type": "X"}], "doc_id": 3}
{"tokens": ["d", "e"], "entities": [{"start": 0, "end": 1, "type": "Y"}]}
""",
    ],
    "jsonl-mentions": [
        """\
{"doc_id": "d", "sent_id": "d-1", "tokens": ["A", "b", "c"], "sentence": "A b c", "entity_mentions": [\
{"id": "E1", "text": "b c", "entity_type": "X", "mention_type": "NAM", "start": 1, "end": 3}]}
{"doc_id": "d", "sent_id": "d-2", "tokens": ["e"], "entity_mentions": []}
""",
    ],
    "jsonl-index": [
        """\
{"sentence": ["A", "b", "c"], "ner": [{"index": [0, 1], "type": "X"}, {"index": [2], "type": "Y"}]}
{"sentence": ["d"], "ner": []}
""",
    ],
    "jsonl-gliner": [
        """\
[{"tokenized_text": ["A", "b", "c"], "ner": [[0, 1, "X"], [2, 2, "Y"]]}, {"tokenized_text": ["d"], "ner": []}]
""",
    ],
    "jsonl-text": [
        """\
{"text": "Ada met Bob. He left  Rome.", "label": [[0, 3, "PER"], [8, 11, "PER"], [22, 26, "LOC"]]}
{"id": 4, "text": "Nothing here.", "entities": []}
{"text": "U.S.A", "labels": [{"start_offset": 0, "end_offset": 3, "labels": ["A", "B"]}]}
""",
        """\
[{"text": "Ada", "spans": [{"start": 0, "end": 3, "label": "PER", "text": "Ada", "score": 0.5}],
"tokens": [{"text": "Ada", "start": 0, "end": 3, "id": 0, "ws": false}]},
{"text": "a\\n\\nb c", "spans": []}]""",
    ],
    "conll": [
        """\
-DOCSTART- -X- -X- O

EU NNP I-NP I-ORG
rejects VBZ I-VP O
German JJ I-NP I-MISC
call NN I-NP B-MISC

Peter NNP I-NP I-PER
Blackburn NNP I-NP I-PER
""",
        "# id = 1\r\nAda\tB-PER\r\nLovelace\tE-PER\r\n\t\r\n# id = 2\r\nRome\tS-LOC\r\n#\tO\r\n\r\n",
        "高 B-NAME\n勇 E-NAME\n： O\n男 O\n\n汉 B-RACE\n族 E-RACE\n",
        "-DOCSTART-\tO\n\nAda\tB-PER\n\n-DOCSTART-\tO\n\nBob\tB-PER\nSmith\tI-PER\n \nx\tO\n",
    ],
    "weibo": ["科0\tB-ORG.NAM\n技1\tI-ORG.NAM\n 2\tO\n\n\t\n10\tO\n,1\tO\n"],
    "conll2012": [
        """\
#begin document (bc/cctv/00); part 000
bc/cctv/00 0 0 In IN (TOP* - - - - * -
bc/cctv/00 0 1 New NNP * - - - - (GPE(CITY* (4
bc/cctv/00 0 2 York NNP *) - - - - *)) 4)

#end document
#begin document (x y); part 012
x 0 0 Ada NNP * - - - - (PERSON) -

#end document
""",
        "Ada\t(PER*\nof\t*\nRome\t(LOC))\n\nyes\t*\n",
    ],
    "gpml": [
        """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE set SYSTEM "gpml.dtd">
<set><article>
<articleinfo><bibliomisc>MEDLINE:95369245</bibliomisc></articleinfo>
<title><sentence><cons lex="IL-2_gene_expression" sem="G#other_name"><cons lex="IL-2" sem="G#DNA">\
<w c="NN">IL-2</w> <w c="NN">gene</w></cons> <w c="NN">expression</w></cons> <w c="CC">or</w>\
</sentence></title>
<abstract><sentence id="7"><cons sem="(AND G#DNA G#protein)"><w c="*">a</w> <cons><w c="CC">&amp;</w></cons> \
<w c="NN">b</w></cons></sentence></abstract></article></set>
""",
        """\
<set><article><abstract><sentence>Activation of the <cons sem="G#protein">CD28</cons> surface \
<cons sem="G#protein">re<cons sem="G#other">ceptor</cons></cons>. It &lt;is&gt; so.</sentence>
<sentence>Nothing.</sentence></abstract></article></set>""",
    ],
}
BRAT_BY_HAND = [
    (
        """\
T1\tPER 0 3\tAda
T2\tPER 8 11\tBob
R1\tKnows Arg1:T1 Arg2:T2
A1\tNegated T1
E1\tMeet:T1 Who:T2
#1\tAnnotatorNotes T1\tsure
*\tAlias T1 T2
T3\tLOC 22 26\tRome
""",
        "Ada met Bob. He left  Rome.\n\nThe end of it.\n",
    ),
    ("T1\tX 0 3;8 11\tAda Bob\r\nT2\tY 8 11\tBob\r\n", "Ada met\r\nBob. 科技大学。\r\n"),
    ("T1\tX 3 5\nT2\tX 0 5\thello\n", "hello world"),
]


@cache
def seeds(name: str) -> list[Parts]:
    """The valid files of a format: what its own writer makes of the sample, and some written by hand."""
    sample = CHARACTERS if name == "weibo" else SAMPLE
    made: list[Parts] = []
    with tempfile.TemporaryDirectory() as folder:
        for number, sentences in enumerate((sample, sample[::-1], sample[:2])):
            for suffix in ("", ".json") if name.startswith("jsonl") else ("",):
                path = Path(folder) / f"{number}{suffix}"
                write(sentences, path, name, prefer="outermost", on_refused=lambda *_: None)
                if name == "brat":
                    made.extend(
                        (file.read_bytes(), file.with_suffix(".txt").read_bytes())
                        for file in sorted(path.glob("*.ann"))
                    )
                else:
                    made.append((path.read_bytes(),))
    if name == "spacy":
        return [*made, *_docbins()]
    if name == "brat":
        return [*made, *((one.encode(), two.encode()) for one, two in BRAT_BY_HAND)]
    return [*made, *((text.encode(),) for text in BY_HAND[name])]


def _docbins() -> Iterator[Parts]:
    """Files as spaCy's users have them: whole documents, entities in `doc.ents` or in other groups."""
    import spacy
    from spacy.tokens import DocBin, Span

    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    for user_data in (False, True):
        documents = DocBin(store_user_data=user_data)
        for text in ("Ada met Bob in Rome. They left.", "Nothing here."):
            doc = nlp(text)
            doc.set_ents([Span(doc, 0, 1, label="PER")])
            if user_data:
                doc.spans["mine"] = [Span(doc, 0, 2, label="X"), Span(doc, 1, 3, label="Y")]
            documents.add(doc)
        yield (documents.to_bytes(),)


# --- Mutations ------------------------------------------------------------------------------------


def _tokens(text: str) -> list[bytes]:
    """The words of a text; an underscore stands for a space, ~ for a tab and | for a line end."""
    table = str.maketrans("_~|", " \t\n")
    return [word.translate(table).encode() for word in text.split()]


ANYWHERE = [bytes([byte]) for byte in b"\x00\t\n\r \x0b\x0c\x1c\x85\xa0\xff\xc3"]
ANYWHERE += [
    text.encode() for text in ("\ufeff", "\u2028", "\u0085", "\u00a0", "\u3000", "\u200d", "e\u0301", "𝕏")
]
ANYWHERE += [
    b"\r\n",
    b"\n\n",
    b"\n \n",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xff\xfe",
    b"9" * 30,
    b"x" * 3000,
]
DOCUMENTS = _tokens("""
    |-DOCSTART-~O| -DOCSTART-_ |-DOCSTART-_-X-_O_O|| # |#_comment| ~ __ |~| |#begin_document_(a);_part_1|
    |#begin_document |#end_document|
""")
NASTY: dict[str, list[bytes]] = {
    "jsonl": _tokens(r"""
        NaN Infinity -Infinity 1e999 1e308 -0 1.0 true null [] {} "" "\ud800" \udc00 \u0000 , [ ] { } " \ : \"
        "id":1, "words":[], "entities":[], "tokens":[], "meta":{"id":2}, "meta":3, "text":"x", "start":-1, ]]
        "end":99, "type":"", "score":2, "score":NaN, "pos":null, [1,2,"X"] "index":[0,2], "labels":["a","a"],
        "spans":[], }}
    """),
    "conll": DOCUMENTS + _tokens("B- I-PER E-X S-X M-X L-X U-X O B-A-B b-per BxX - O-X"),
    "conll2012": DOCUMENTS + _tokens("(PER* *) (A(B* *)) ( ) * (A) ((A) (A*B) () " + "(" * 300 + "A*"),
    "gpml": _tokens("""
        &nbsp; &#0; &#xD800; &lt; & < > ]]> <![CDATA[_x_]]> <!--_c_--> %a; <!DOCTYPE_set_SYSTEM_'gpml.dtd'>
        <!DOCTYPE_a_[<!ENTITY_b_'c'>]> <!ENTITY_a_'b'> <w> </w> <w/> <w_c=''>_</w> <w_c='NN'>x</w> <?pi_x?>
        <a:b> <cons> </cons> <cons/> <cons_sem='G#'> <cons_sem='G#X'/> <cons_sem='(OR_G#a_G#b'> <sentence>
        </sentence> <sentence/> <article> </article> _sem='G#Y' _sem=''
        <?xml_version='1.0'_encoding='utf-16'?>
    """),
    "brat": _tokens("""
        T1~PER_0_3~ R1~Rel_Arg1:T1_Arg2:T2| 0_5;7_9 -1_4 99999999999999999999 ; ~ |E1~X:T1| |*~Equiv_T1_T2|
        |#1~Notes_T1~x| T |T9~X_0_1| || ._
    """),
    "spacy": [
        b"\x80",
        b"\x90",
        b"\xc0",
        b"\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00",
        b"\xdf\xff\xff\xff\xff",
        b"sc",
    ],
}
NASTY["jsonl"] += [
    b"[" * 3000,
    b'{"a":' * 900,
    b'"a":' + b"[" * 400 + b"]" * 400 + b",",
    b"9" * 5000,
    b"1" * 400,
]
NASTY["gpml"] += [b"<a>" * 1000]
NASTY["weibo"] = NASTY["conll"] + _tokens("0 1 01 12345678901 ٣")
NUMBERS = [*_tokens("0 1 2 3 -1 -0 01 1.0 1e2 2147483648 1000000000000"), b"9" * 400]
CODECS = _tokens(
    "utf-16 utf-32 utf-7 ascii latin-1 cp037 idna punycode hex rot13 undefined unicode-escape gbk x"
)
VALUES: list[Any] = [None, True, False, 0, 1, -1, 2, 3, 1.0, 0.5, -0.0, 1e300, 10**12, 10**30, 2**63, 10**400]
VALUES += ["", " ", "x", "0", "X\tY\nZ", "\u2028", "\x00", "é", "(A)", "-DOCSTART-", [], {}, [[]], {"": 0}]
VALUES += [[0, 1, "X"], ["a"], [0, 10**10], {"start": 0, "end": 1, "type": "X"}, {"meta": {"meta": 1}}]
VALUES += [json.loads("[" * depth + "]" * depth) for depth in (50, 300, 940)]
KEYS = [
    key.decode()
    for key in _tokens("""
        words tokens sentence entities ner text spans label labels id sent-id doc left right ltokens pos meta
        score type start end index ws x positions
    """)
]
KEYS += ["", "space_after", "doc_id", "start_offset"]
_NUMBER = re.compile(rb"-?[0-9]+")
_WORD = re.compile(rb"[A-Za-z_]+")


@dataclass(frozen=True, slots=True)
class Damage:
    """Small changes to the bytes of a file of a format; `other` is another such file."""

    rng: random.Random
    format: str
    other: bytes

    def somewhere(self, data: bytes) -> bytes:
        """One change of any kind."""
        change = self.rng.choices(_CHANGES, _CHANGE_WEIGHTS)[0]
        return change(self, data)

    def flip(self, data: bytes) -> bytes:
        if not data:
            return data
        place = self.rng.randrange(len(data))
        return data[:place] + bytes([data[place] ^ (1 << self.rng.randrange(8))]) + data[place + 1 :]

    def cut(self, data: bytes) -> bytes:
        start, end = self._range(data)
        return data[:start] + data[end:]

    def double(self, data: bytes) -> bytes:
        start, end = self._range(data)
        return data[:end] + data[start:end] * self.rng.choice((1, 1, 1, 2, 30)) + data[end:]

    def insert(self, data: bytes) -> bytes:
        anywhere = self.rng.randint(0, len(data))
        place = self.rng.choice((0, len(data), anywhere, anywhere))
        return data[:place] + self._token() + data[place:]

    def replace_word(self, data: bytes) -> bytes:
        words = list(_WORD.finditer(data))
        if not words:
            return data
        match = self.rng.choice(words)
        word = self._token() if self.rng.random() < 0.6 else self.rng.choice(words)[0]
        return data[: match.start()] + word + data[match.end() :]

    def replace_number(self, data: bytes) -> bytes:
        numbers = list(_NUMBER.finditer(data))
        if not numbers:
            return data
        match = self.rng.choice(numbers)
        near = str(int(match[0][:18]) + self.rng.choice((-1, 1, 1))).encode()
        number = near if self.rng.random() < 0.6 else self.rng.choice(NUMBERS)
        return data[: match.start()] + number + data[match.end() :]

    def lines(self, data: bytes) -> bytes:
        """Lines that change places, vanish, come twice or end otherwise."""
        lines = data.split(b"\n")
        one, two = self.rng.randrange(len(lines)), self.rng.randrange(len(lines))
        match self.rng.randrange(5):
            case 0:
                lines[one], lines[two] = lines[two], lines[one]
            case 1:
                del lines[one]
            case 2:
                lines.insert(one, lines[two])
            case 3:
                lines[one] += b"\r"
            case _:
                lines.insert(one, self.rng.choice((b"", b" ", b"\t", b"\r", *ANYWHERE)))
        return b"\n".join(lines)

    def splice(self, data: bytes) -> bytes:
        place = self.rng.randint(0, len(data))
        start, end = self._range(self.other)
        match self.rng.randrange(3):
            case 0:
                return data[:place] + self.other[start:]
            case 1:
                return data + self.other
            case _:
                return data[:place] + self.other[start:end] + data[place:]

    def truncate(self, data: bytes) -> bytes:
        return data[: self.rng.randint(0, len(data))]

    def recode(self, data: bytes) -> bytes:
        """Another encoding of the whole file, or only the claim of one; other line ends."""
        text = data.decode("utf-8", "replace")
        match self.rng.randrange(5):
            case 0:
                return data.replace(b"UTF-8", self.rng.choice(CODECS))
            case 1:
                return text.encode(self.rng.choice(("utf-16", "utf-16-le", "utf-32", "utf-7")))
            case 2:
                return text.encode("latin-1", "replace")
            case 3:
                return BYTE_ORDER_MARK + data
            case _:
                return data.replace(b"\n", b"\r\n")

    def _token(self) -> bytes:
        own = NASTY.get(self.format) or NASTY["jsonl"]
        return self.rng.choice(own if self.rng.random() < 0.6 else ANYWHERE)

    def _range(self, data: bytes) -> tuple[int, int]:
        start = self.rng.randint(0, len(data))
        length = self.rng.choice((1, 1, 2, 4, 8, 30, 200))
        return start, min(len(data), start + self.rng.randint(1, length))


_CHANGES: tuple[Callable[[Damage, bytes], bytes], ...] = (
    *(Damage.flip, Damage.cut, Damage.double, Damage.insert, Damage.replace_word, Damage.replace_number),
    *(Damage.lines, Damage.splice, Damage.truncate, Damage.recode),
)
_CHANGE_WEIGHTS = (18, 10, 10, 16, 14, 14, 12, 6, 3, 2)


def mutate_tree(value: Any, rng: random.Random) -> Any:
    """A change to one place in a tree of lists and objects, to values that are packed in it included."""
    if rng.random() < 0.08 or value in (None, "", [], {}, b""):
        return rng.choice(VALUES)
    if isinstance(value, list):
        return _mutate_list(value, rng)
    if isinstance(value, dict):
        return _mutate_dict(value, rng)
    if isinstance(value, bytes):
        return _mutate_packed(value, rng)
    if isinstance(value, str):
        return _mutate_string(value, rng)
    if type(value) is int and rng.random() < 0.6:
        return value + rng.choice((-2, -1, 1, 1, 2))
    return rng.choice(VALUES)


def _mutate_list(value: list[Any], rng: random.Random) -> list[Any]:
    index = rng.randrange(len(value))
    item = value[index]
    match rng.randrange(8):
        case 0:
            return value[:index] + value[index + 1 :]
        case 1:
            return [*value[:index], item, *value[index:]]
        case 2:
            return [*value[:index], rng.choice(VALUES), *value[index:]]
        case _:
            return [*value[:index], mutate_tree(item, rng), *value[index + 1 :]]


def _mutate_dict(value: dict[Any, Any], rng: random.Random) -> dict[Any, Any]:
    key = rng.choice(list(value))
    changed = dict(value)
    match rng.randrange(8):
        case 0:
            del changed[key]
        case 1:
            changed[rng.choice((*KEYS, *value))] = rng.choice(VALUES)
        case 2:
            changed[rng.choice((*KEYS, *value))] = changed.pop(key)
        case _:
            changed[key] = mutate_tree(value[key], rng)
    return changed


def _mutate_string(value: str, rng: random.Random) -> str:
    if value.startswith("{"):
        with contextlib.suppress(ValueError):  # JSON in a string: what Fencepost keeps in a DocBin
            return json.dumps(mutate_tree(json.loads(value), rng))
    other = rng.choice(("", " ", "\t", "\n", "\x00", "\u2028", "e\u0301", "😀", "科", value, "\ud800"))
    place = rng.randint(0, len(value))
    return value[:place] + other + value[place + rng.randint(0, 1) :]


def _mutate_packed(value: bytes, rng: random.Random) -> bytes:
    try:
        tree = srsly.msgpack_loads(value)
    except Exception:  # noqa: BLE001 - not MessagePack, so plain bytes
        return Damage(rng, "spacy", value).somewhere(value)
    return _packed(mutate_tree(tree, rng), value)


def _packed(tree: Any, unpackable: bytes) -> bytes:
    try:
        packed: bytes = srsly.msgpack_dumps(tree)
    except Exception:  # noqa: BLE001 - a value that MessagePack has no form for
        return unpackable
    return packed


@dataclass(frozen=True, slots=True)
class Case:
    """One input, and the options under which it is read."""

    format: str
    number: int
    parts: Parts
    options: ReadOptions


def make_case(name: str, number: int, seed: int) -> Case:
    """The case of this number: the same on every machine and in every run."""
    rng = random.Random(f"{seed}/{name}/{number}")
    files = seeds(name)
    parts = list(rng.choice(files))
    other = rng.choice(files)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 6))):
        index = rng.randrange(len(parts))
        parts[index] = _mutate(parts[index], rng, name, other[index])
    options = _random_options(rng) if rng.random() < 0.15 else ReadOptions()
    return Case(name, number, tuple(parts), options)


def _mutate(data: bytes, rng: random.Random, name: str, other: bytes) -> bytes:
    if name == "spacy" and rng.random() < 0.85:
        return _mutate_docbin(data, rng)
    if name.startswith("jsonl") and rng.random() < 0.4:
        return _mutate_json(data, rng)
    return Damage(rng, name, other).somewhere(data)


def _mutate_docbin(data: bytes, rng: random.Random) -> bytes:
    """A change inside what the file's checksum protects."""
    try:
        payload = zlib.decompress(data)
        if rng.random() < 0.3:
            payload = Damage(rng, "spacy", payload).somewhere(payload)
        else:
            payload = _packed(mutate_tree(srsly.msgpack_loads(payload), rng), payload)
    except Exception:  # noqa: BLE001 - an earlier mutation has broken it already
        return Damage(rng, "spacy", data).somewhere(data)
    return zlib.compress(payload, 1)


def _mutate_json(data: bytes, rng: random.Random) -> bytes:
    """A change of the values rather than of the bytes."""
    lines = data.split(b"\n")
    index = rng.randrange(len(lines))
    with contextlib.suppress(ValueError, RecursionError):
        end = b"," * lines[index].rstrip().endswith(b",")
        tree = mutate_tree(json.loads(lines[index].rstrip().removesuffix(b",")), rng)
        lines[index] = (
            json.dumps(tree, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass") + end
        )
    return b"\n".join(lines)


def _random_options(rng: random.Random) -> ReadOptions:
    return ReadOptions(
        word_column=rng.choice((None, None, 1, 2, -2, 4, 9)),
        tag_column=rng.choice((None, None, -1, 2, 3, 11)),
        pos_column=rng.choice((None, None, 2, 5, -1)),
        scheme=rng.choice((None, "iob1", "iob2", "bioes")),
        ends=rng.choice((None, "inclusive", "exclusive")),
        check_text=rng.random() < 0.5,
        language=rng.choice(("en", "en", "zh", "de", "xx")),
        pretokenized=rng.random() < 0.5,
        spans_key=rng.choice((None, "sc", "mine", "absent")),
    )


# --- Reading ---------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """What a reader made of a case; not `complete` where it stopped with an error of ours."""

    format: str
    parts: Parts
    options: ReadOptions
    readings: list[Reading] = field(default_factory=list)
    complete: bool = False

    @property
    def found(self) -> list[Found]:
        return [reading for reading in self.readings if isinstance(reading, Found)]

    @property
    def lines(self) -> list[str]:
        """The lines, without looking at how the library splits them."""
        whole = self.parts[0].removeprefix(BYTE_ORDER_MARK)
        return [line.decode("utf-8", "replace").removesuffix("\r") for line in whole.split(b"\n")]


def read_case(case: Case) -> list[Outcome]:
    """The case as its own format, and as the format that detection takes it for if that is another."""
    if case.format == "brat":
        return [_read_brat(case)]
    outcomes = [_read_file(case.format, case)]
    with contextlib.suppress(FencepostError):
        detected = detect_format(Source.from_bytes(case.parts[0])).name
        if detected != case.format or case.options != ReadOptions():
            outcomes.append(_read_file(detected, replace(case, options=ReadOptions())))
    return outcomes


def _read_file(name: str, case: Case) -> Outcome:
    outcome = Outcome(name, case.parts, case.options)
    with contextlib.suppress(FencepostError):
        source = Source.from_bytes(case.parts[0])
        for reading in FORMATS[name].read(source, case.options):
            outcome.readings.append(reading)
        outcome.complete = True
    return outcome


def _read_brat(case: Case) -> Outcome:
    outcome = Outcome("brat", case.parts, case.options)
    with contextlib.suppress(FencepostError):
        splitter = make_splitter(case.options.language, pretokenized=case.options.pretokenized)
        source = Source.from_bytes(case.parts[0])
        text = case.parts[1].decode("utf-8", "replace")
        for reading in read_document(text, source, case.options, splitter, source):
            outcome.readings.append(reading)
        outcome.complete = True
    return outcome


# --- Checks: is what was read what the bytes say? ---------------------------------------------------

Key = tuple[int, int, str]


def complaints(outcome: Outcome) -> Iterator[str]:
    """What is wrong with the sentences of an outcome."""
    for found in outcome.found:
        yield from _model_complaints(found.sentence)
    yield from _round_trip_complaints([found.sentence for found in outcome.found])
    for reading in outcome.readings:
        if isinstance(reading, Rejected) and not reading.reason:
            yield "rejected without a reason"
    yield from _ORACLES[outcome.format](outcome)


def _model_complaints(sentence: Sentence) -> Iterator[str]:
    """Whether a sentence is one by the data model, and of the types that it promises."""
    entities = [Entity(e.start, e.end, e.type, e.score, dict(e.meta)) for e in sentence.entities]
    again = replace(sentence, words=list(sentence.words), entities=entities)
    if again != sentence:
        yield "a sentence differs from itself made again"
    strings = [*sentence.words, *sentence.left, *sentence.right, *(sentence.pos or ())]
    strings += [entity.type for entity in entities]
    strings += [name for name in (sentence.id, sentence.doc) if name is not None]
    if not all(type(string) is str for string in strings):
        yield "a word, tag, type or name that is not a string"
    elif any("\ud800" <= character <= "\udfff" for character in "".join(strings)):
        yield "half a surrogate pair"
    if not all(type(space) is bool for space in sentence.space_after or ()):
        yield "space_after that is not true or false"
    for entity in entities:
        if type(entity.start) is not int or type(entity.end) is not int or type(entity.score) is not float:
            yield "a boundary that is not a whole number, or a score that is not a number"


def _round_trip_complaints(sentences: list[Sentence]) -> Iterator[str]:
    """Fencepost's own format holds everything, so everything must come back from it."""
    data = "".join(encode(sentences, WriteOptions(), shape=SHAPES[0])).encode()
    readings = list(FORMATS["jsonl"].read(Source.from_bytes(data), ReadOptions()))
    back = [reading.sentence for reading in readings if isinstance(reading, Found)]
    if back != sentences:
        yield "not the same after a round trip through jsonl"


def own_round_trip_complaints(outcome: Outcome, folder: Path) -> Iterator[str]:
    """Written in its own format and read again, a sentence keeps its words and entities."""
    format_ = FORMATS[outcome.format]
    sentences = [found.sentence for found in outcome.found]
    sentences = [one for one in sentences if not overlapping(one.entities, format_.overlaps)]
    refused: list[int] = []
    path = folder / "round-trip"
    write(sentences, path, outcome.format, on_refused=lambda sentence, _: refused.append(id(sentence)))
    if refused and outcome.format == "jsonl":
        yield "jsonl cannot hold what was read from it"
    kept = [sentence for sentence in sentences if id(sentence) not in refused]
    if not kept:
        return
    options = ReadOptions(ends="exclusive", check_text=outcome.options.check_text)
    readings = list(format_.read(Source.from_bytes(path.read_bytes()), options))
    back = [reading.sentence for reading in readings if isinstance(reading, Found)]
    if [_content(sentence) for sentence in back] != [_content(sentence) for sentence in kept]:
        yield "not the same after a round trip through its own format"


def _content(sentence: Sentence) -> tuple[Sequence[str], list[Key]]:
    return sentence.words, sorted(entity.key for entity in sentence.entities)


# JSON: words key, entities key, type key, and how an entity's words are given.
JSON_SHAPES = {
    "jsonl": ("words", "entities", "type", ("exclusive",)),
    "jsonl-mentions": ("tokens", "entity_mentions", "entity_type", ("exclusive", "inclusive")),
    "jsonl-tokens": ("tokens", "entities", "type", ("exclusive", "inclusive")),
    "jsonl-index": ("sentence", "ner", "type", ("index",)),
    "jsonl-gliner": ("tokenized_text", "ner", "type", ("triple",)),
}


def _json_complaints(outcome: Outcome) -> Iterator[str]:
    """Every object that was read, beside what a plain `json.loads` makes of it."""
    pairs = _json_pairs(outcome)
    if pairs is None:
        yield "not one reading for each object of the file"
        return
    words_key, entities_key, type_key, ends = JSON_SHAPES[outcome.format]
    if outcome.options.ends and len(ends) > 1:
        ends = (outcome.options.ends,)
    for sentence, record in pairs:
        if list(sentence.words) != record[words_key]:
            yield "other words than in the JSON"
        ours = _json_spans(sentence)
        items = record[entities_key]
        ends = tuple(end for end in ends if sorted(_json_span(item, type_key, end) for item in items) == ours)
        if not ends:
            yield "other entities than in the JSON"
            return
        yield from _json_other_complaints(sentence, record, outcome.format)


def _json_span(item: Any, type_key: str, ends: str) -> tuple[int, int, str, float]:
    if ends == "triple":
        return item[0], item[1] + 1, item[2], 1.0
    if ends == "index":
        return min(item["index"]), max(item["index"]) + 1, item[type_key], item.get("score", 1.0)
    return item["start"], item["end"] + (ends == "inclusive"), item[type_key], item.get("score", 1.0)


def _json_other_complaints(sentence: Sentence, record: dict[str, Any], name: str) -> Iterator[str]:
    sides = ("ltokens", "rtokens") if name == "jsonl-tokens" else ("left", "right")
    if [*sentence.left, "|", *sentence.right] != [*record.get(sides[0], ()), "|", *record.get(sides[1], ())]:
        yield "another context than in the JSON"
    for key, ours in (("pos", sentence.pos), ("space_after", sentence.space_after)):
        if (None if ours is None else list(ours)) != record.get(key):
            yield f"other {key} than in the JSON"
    names = {str(record[key]) for key in record if type(record[key]) in (str, int)}
    if any(one is not None and one not in names for one in (sentence.id, sentence.doc)):
        yield "a name that is not in the JSON"
    held = {*JSON_SHAPES[name][:2], *sides, "pos", "space_after", "meta", *sentence.meta}
    if any(key not in held and str(record[key]) not in (sentence.id, sentence.doc) for key in record):
        yield "a key of the JSON got lost"


def _json_pairs(outcome: Outcome) -> list[tuple[Sentence, dict[str, Any]]] | None:
    """The sentences and their objects; None if objects and readings cannot be one to one."""
    if _is_array(outcome):
        try:
            objects = [*enumerate(json.loads(outcome.parts[0].decode("utf-8-sig")))]
        except (ValueError, RecursionError):
            return [(found.sentence, _object_at(outcome, found)) for found in outcome.found]
        places = range(len(outcome.readings))
    else:
        objects = [(number, line) for number, line in enumerate(outcome.lines, start=1) if line.strip()]
        places = [reading.line for reading in outcome.readings]  # type: ignore[assignment]
    numbers = [number for number, _ in objects]
    if list(places) != numbers[: len(places)] or (outcome.complete and len(places) < len(numbers)):
        return None
    return [
        (reading.sentence, json.loads(value) if isinstance(value, str) else value)
        for reading, (_, value) in zip(outcome.readings, objects, strict=False)
        if isinstance(reading, Found)
    ]


def _is_array(outcome: Outcome) -> bool:
    return outcome.parts[0].removeprefix(BYTE_ORDER_MARK).lstrip()[:1] == b"["


def _object_at(outcome: Outcome, found: Found) -> dict[str, Any]:
    """In an array that is broken somewhere: the object on the sentence's line that is most like it."""
    words_key, entities_key, type_key, ends = JSON_SHAPES[outcome.format]
    text = "\n".join(outcome.lines[found.line - 1 :])
    likest: dict[str, Any] = {words_key: None, entities_key: []}
    for match in re.finditer("{", text[: len(outcome.lines[found.line - 1])]):
        with contextlib.suppress(ValueError, RecursionError):
            value, _ = json.JSONDecoder().raw_decode(text, match.start())
            if value.get(words_key) == list(found.sentence.words):
                likest = value
                with contextlib.suppress(TypeError, LookupError):  # entities that the reader rejects
                    spans = [
                        sorted(_json_span(item, type_key, end) for item in value[entities_key])
                        for end in ends
                    ]
                    if _json_spans(found.sentence) in spans:
                        return likest
    return likest


def _json_spans(sentence: Sentence) -> list[tuple[int, int, str, float]]:
    return sorted((entity.start, entity.end, entity.type, entity.score) for entity in sentence.entities)


Dense = tuple[str, list[Key]]  # a text without its white space, and the entities in its characters


def dense_sentences(sentences: Sequence[Sentence]) -> Dense:
    text, keys = "", []
    for sentence in sentences:
        edges = [len(text)]
        for word in sentence.words:
            text += _SPACE.sub("", word)
            edges.append(len(text))
        keys += [(edges[e.start], edges[e.end], e.type) for e in sentence.entities]
    return text, sorted(keys)


def dense_text(text: str, spans: Sequence[Key]) -> Dense:
    before = [0, *itertools.accumulate(not character.isspace() for character in text)]
    return _SPACE.sub("", text), sorted((before[start], before[end], type_) for start, end, type_ in spans)


_SPACE = re.compile(r"\s+")


def _json_text_complaints(outcome: Outcome) -> Iterator[str]:
    if _is_array(outcome):
        if outcome.complete and len(outcome.found) == len(outcome.readings):
            # Between the objects the reader allows white space that is none in JSON.
            with contextlib.suppress(json.JSONDecodeError):
                objects = json.loads(outcome.parts[0].decode("utf-8-sig"))
                yield from _text_complaints(objects, outcome.found, outcome.options)
        return
    by_line: dict[int, list[Reading]] = {}
    for reading in outcome.readings:
        by_line.setdefault(reading.line, []).append(reading)
    last = max(by_line, default=0)
    for number, line in enumerate(outcome.lines, start=1):
        readings = by_line.pop(number, [])
        found = [reading for reading in readings if isinstance(reading, Found)]
        if len(found) < len(readings):
            if len(readings) > 1:
                yield "a line is both read and rejected"
        elif line.strip() and (outcome.complete or number < last):
            yield from _text_complaints([json.loads(line)], found, outcome.options)
    if by_line:
        yield "a reading of a line that is not there"


def _text_complaints(objects: list[Any], found: list[Found], options: ReadOptions) -> Iterator[str]:
    text, spans = "", []
    for record in objects:
        offset = len(text)
        text += record["text"]
        spans += [(offset + start, offset + end, type_) for start, end, type_ in _char_spans(record, options)]
    if dense_text(text, spans) != dense_sentences([one.sentence for one in found]):
        yield "other text or entities than in the JSON"


def _char_spans(record: dict[str, Any], options: ReadOptions) -> Iterator[Key]:
    lists = [
        record[key] for key in ("spans", "entities", "label", "labels") if isinstance(record.get(key), list)
    ]
    for item in lists[0] if lists else ():
        if isinstance(item, list):
            item = {"start": item[0], "end": item[1], "label": item[2]}
        start = item["start"] if "start" in item else item["start_offset"]
        end = item["end"] if "end" in item else item["end_offset"]
        types = [item[key] for key in ("label", "type", "entity_type") if key in item][:1]
        for type_ in item["labels"] if isinstance(item.get("labels"), list) else types:
            yield start, end + (options.ends == "inclusive"), type_


def _column_complaints(
    outcome: Outcome, columns: Callable[[Sequence[str], Sentence, ReadOptions], bool]
) -> Iterator[str]:
    """Every sentence beside its lines, split naively; and no line may be missing."""
    lines = [line.rstrip(" \t\r") for line in outcome.lines]
    for found in outcome.found:
        first, behind = found.line - 1, found.line - 1 + len(found.sentence)
        block = lines[first:behind]
        if len(block) < len(found.sentence) or "" in block:
            yield "more words than lines"
        elif not columns(block, found.sentence, outcome.options):
            yield "other words or entities than in the columns"
        if not all(
            _separates(line) for line in (lines[first - 1 : first] or [""]) + lines[behind : behind + 1]
        ):
            yield "a sentence that is cut off"
    if outcome.complete and outcome.readings:
        rejected = [one.raw.count("\n") + 1 for one in outcome.readings if isinstance(one, Rejected)]
        covered = sum(rejected) + sum(len(found.sentence) for found in outcome.found)
        least = sum(not _separates(line) for line in lines)
        if not least <= covered <= sum(map(bool, lines)):
            yield "a line got lost, or was read twice"


def _separates(line: str) -> bool:
    return not line or line.startswith(("#", "-DOCSTART-"))


def _splits(block: Sequence[str]) -> Iterator[list[list[str]]]:
    """The lines' fields, separated by tabs and separated by spaces."""
    for separator in ("\t", " +"):
        yield [re.split(separator, line) for line in block]


def _column(fields: list[str], number: int) -> str | None:
    index = number - 1 if number > 0 else len(fields) + number
    return fields[index] if 0 <= index < len(fields) else None


def _conll_agrees(block: Sequence[str], sentence: Sentence, options: ReadOptions) -> bool:
    return any(
        [_column(row, options.word_column or 1) for row in rows] == _with_positions(sentence)
        and _naive_entities([_column(row, options.tag_column or -1) or "" for row in rows])
        == sorted(entity.key for entity in sentence.entities)
        for rows in _splits(block)
    )


def _with_positions(sentence: Sentence) -> list[str]:
    positions = sentence.meta.get("positions")
    if positions is None:
        return list(sentence.words)
    return [f"{word}{position}" for word, position in zip(sentence.words, positions, strict=True)]


def _naive_entities(tags: list[str]) -> list[Key]:
    """Chunks as the shared tasks' scorer finds them."""
    keys: list[Key] = []
    for index, tag in enumerate(tags):
        if tag == "O":
            continue
        before = tags[index - 1] if index else "O"
        if tag[0] in "IMEL" and before[0] in "BIM" and before[2:] == tag[2:]:
            keys[-1] = (keys[-1][0], index + 1, tag[2:])
        else:
            keys.append((index, index + 1, tag[2:]))
    return sorted(keys)


def _brackets_agree(block: Sequence[str], sentence: Sentence, options: ReadOptions) -> bool:
    for rows in _splits(block):
        full = len(rows[0]) >= 12
        words = [_column(row, options.word_column or (4 if full else 1)) for row in rows]
        cells = [_column(row, options.tag_column or (11 if full else -1)) or "" for row in rows]
        if words == list(sentence.words) and _naive_brackets(cells) == sorted(
            e.key for e in sentence.entities
        ):
            return True
    return False


def _naive_brackets(cells: list[str]) -> list[Key]:
    keys: list[Key] = []
    stack: list[tuple[int, str]] = []
    for index, cell in enumerate(cells):
        for piece in re.findall(r"\([^()*]*|\)", cell):
            if piece == ")":
                start, type_ = stack.pop() if stack else (0, "unbalanced")
                keys.append((start, index + 1, type_))
            else:
                stack.append((index, piece[1:]))
    return sorted(keys)


def _gpml_complaints(outcome: Outcome) -> Iterator[str]:
    """Every sentence beside what ElementTree finds, as far as ElementTree gets."""
    for reading, element in zip(outcome.readings, _elements(outcome.parts[0]), strict=False):
        if not isinstance(reading, Found):
            continue
        sentence = reading.sentence
        words: list[str] = []
        if _element_dense(element, words) != dense_sentences([sentence]):
            yield "other text or entities than in the XML"
        elif words and words != list(sentence.words):
            yield "other words than in the XML"
        if sentence.id != element.get("id"):
            yield "another id than in the XML"


def _elements(data: bytes) -> Iterator[ET.Element]:
    """The outermost <sentence> elements; a broken file's up to where it breaks."""
    parser: Any = ET.XMLPullParser(("start", "end"))
    depth = 0
    with contextlib.suppress(ET.ParseError, ValueError, LookupError):
        parser.feed(data.removeprefix(BYTE_ORDER_MARK))
    with contextlib.suppress(ET.ParseError, ValueError, LookupError):
        for event, element in parser.read_events():
            if element.tag == "sentence":
                depth += 1 if event == "start" else -1
                if event == "end" and depth == 0:
                    yield element


def _element_dense(element: ET.Element, words: list[str]) -> Dense:
    text = ""
    keys: list[Key] = []

    def walk(node: ET.Element) -> None:
        nonlocal text
        start = len(text)
        text += _SPACE.sub("", node.text or "")
        for child in node:
            walk(child)
            text += _SPACE.sub("", child.tail or "")
        if node is not element and node.tag == "w":
            words.append("".join(node.itertext()))
        if node is not element and node.tag == "cons" and "sem" in node.attrib:
            sem = node.attrib["sem"]
            types = set(re.findall(r"G#([^\s()]+)", sem)) if sem[:1] == "(" else {sem.removeprefix("G#")}
            keys.extend((start, len(text), type_) for type_ in types)

    walk(element)
    return text, sorted(keys)


def _brat_complaints(outcome: Outcome) -> Iterator[str]:
    if not outcome.complete or any(
        "whole document" in one.reason for one in outcome.readings if isinstance(one, Rejected)
    ):
        return
    text = outcome.parts[1].decode("utf-8", "replace")
    spans: list[Key] = []
    for line in outcome.lines:
        fields = line.split("\t")
        if line.startswith("T"):
            type_, _, offsets = fields[1].partition(" ")
            if ";" not in offsets:
                start, end = map(int, offsets.split(" "))
                spans.append((start, end, type_))
    expected_text, expected = dense_text(text, spans)
    pieces = [
        one.raw if isinstance(one, Rejected) else "".join(one.sentence.words) for one in outcome.readings
    ]
    if _SPACE.sub("", "".join(pieces)) != expected_text:
        yield "a part of the text got lost, or came twice"
    # A rejected sentence stands as one word, so that what is behind it keeps its place.
    sentences = [
        Sentence([one.raw]) if isinstance(one, Rejected) else one.sentence for one in outcome.readings
    ]
    ours = dense_sentences(sentences)[1]
    if Counter(ours) - Counter(expected):
        yield "entities that are not in the annotations"
    if len(outcome.found) == len(outcome.readings) and len(ours) < len(expected):
        yield "an entity got lost"


def _docbin_complaints(outcome: Outcome) -> Iterator[str]:
    """Every word and type must be among the file's strings, or be one that spaCy always has."""
    if not outcome.found:
        return
    from spacy.strings import StringStore

    always = StringStore()
    payload = zlib.decompressobj().decompress(outcome.parts[0])
    for found in outcome.found:
        sentence = found.sentence
        for text in (*sentence.words, *(entity.type for entity in sentence.entities)):
            if text.encode("utf-8", "surrogatepass") not in payload and text not in always:
                yield "a word or type that is not in the file"


_ORACLES: dict[str, Callable[[Outcome], Iterator[str]]] = {
    **dict.fromkeys(JSON_SHAPES, _json_complaints),
    "jsonl-text": _json_text_complaints,
    "conll": partial(_column_complaints, columns=_conll_agrees),
    "weibo": partial(_column_complaints, columns=_conll_agrees),
    "conll2012": partial(_column_complaints, columns=_brackets_agree),
    "gpml": _gpml_complaints,
    "brat": _brat_complaints,
    "spacy": _docbin_complaints,
}


# --- Running ---------------------------------------------------------------------------------------


class TooSlow(BaseException):
    """The time of a case is over; not an `Exception`, which a reader might catch."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A case that was not handled as it must be."""

    format: str
    number: int
    kind: str  # exception, hang, crash, wrong data
    signature: str  # what failures of one cause share
    details: str


def examine(case: Case, counts: Counter[str], folder: Path) -> Failure | None:
    """Reads a case in every way and checks what comes of it."""
    stage = "exception"
    try:
        signal.setitimer(signal.ITIMER_REAL, CASE_SECONDS)
        counts["cases"] += 1
        outcomes = read_case(case)
        _count(outcomes[0], counts)
        stage = "wrong data"
        for outcome in outcomes:
            for complaint in complaints(outcome):
                return Failure(case.format, case.number, stage, f"{outcome.format}: {complaint}", complaint)
        if case.number % 4 == 0 and case.format != "brat":
            for complaint in own_round_trip_complaints(outcomes[0], folder):
                return Failure(case.format, case.number, stage, f"{case.format}: {complaint}", complaint)
    except TooSlow:
        return Failure(case.format, case.number, "hang", _place(), traceback.format_exc())
    except Exception:  # noqa: BLE001 - that is what is looked for
        return Failure(case.format, case.number, stage, _place(), traceback.format_exc())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return None


def _place() -> str:
    """The exception being handled, and the innermost place in our own code that it came through."""
    error = sys.exc_info()[1]
    frames = traceback.extract_tb(error.__traceback__) if error else []
    ours = [
        frame
        for frame in frames
        if "fencepost" in Path(frame.filename).parts[-3:-1] or "benchmarks" in frame.filename
    ]
    place = f"{Path(ours[-1].filename).name}:{ours[-1].name}" if ours else "?"
    return f"{type(error).__name__} in {place}"


def _count(outcome: Outcome, counts: Counter[str]) -> None:
    found = len(outcome.found)
    rejected = len(outcome.readings) - found
    counts["sentences found"] += found
    counts["sentences rejected"] += rejected
    if found and outcome.complete and not rejected:
        counts["accepted"] += 1
    elif found:
        counts["accepted in part"] += 1
    elif rejected or not outcome.complete:
        counts["refused"] += 1
    else:
        counts["empty"] += 1


@dataclass(frozen=True, slots=True)
class Chunk:
    """Cases of one format that are examined in one go."""

    format: str
    start: int
    end: int


def _work(connection: Connection, current: Any, seed: int) -> None:
    """A worker: takes chunks until there are no more, and says which case it is at."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGALRM, _raise_too_slow)
    with tempfile.TemporaryDirectory() as folder:
        while (chunk := connection.recv()) is not None:
            counts: Counter[str] = Counter()
            failures = []
            for number in range(chunk.start, chunk.end):
                current.value = number
                failure = examine(make_case(chunk.format, number, seed), counts, Path(folder))
                if failure:
                    failures.append(failure)
            connection.send((chunk, counts, failures))


def _raise_too_slow(*_: object) -> None:
    raise TooSlow


class Worker:
    """A process that examines chunks, and may die of one."""

    def __init__(self, seed: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.current = context.Value("q", -1, lock=False)
        self.process = context.Process(target=_work, args=(theirs, self.current, seed), daemon=True)
        self.process.start()
        theirs.close()
        self.chunk: Chunk | None = None
        self.seen = (-1, time.monotonic())

    def give(self, chunk: Chunk) -> None:
        self.chunk = chunk
        self.current.value = -1  # still in preparation
        self.seen = (-1, time.monotonic())
        self.connection.send(chunk)

    def stalled(self) -> bool:
        """Whether it has been at one case for too long."""
        if self.chunk is None:
            return False
        if self.current.value != self.seen[0]:
            self.seen = (self.current.value, time.monotonic())
        return time.monotonic() - self.seen[1] > STALL_SECONDS

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


@dataclass
class Campaign:
    """A whole run: the chunks that are still to do, and what came of the others."""

    seed: int
    jobs: int
    failures_folder: Path | None
    todo: deque[Chunk]
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    signatures: Counter[str] = field(default_factory=Counter)

    def run(self) -> None:
        total = sum(chunk.end - chunk.start for chunk in self.todo)
        workers = [Worker(self.seed) for _ in range(self.jobs)]
        told = time.monotonic()
        try:
            while self.todo or any(worker.chunk for worker in workers):
                workers = [self._tend(worker) for worker in workers]
                wait([worker.connection for worker in workers if worker.chunk], timeout=1)
                if time.monotonic() - told > 10:
                    told = time.monotonic()
                    done = sum(counts["cases"] for counts in self.counts.values())
                    say(f"{done:,} of {total:,} cases, {sum(self.signatures.values()):,} failures")
        finally:
            for worker in workers:
                worker.stop()

    def _tend(self, worker: Worker) -> Worker:
        """Takes what a worker has done and gives it more; replaces it when it is dead."""
        if worker.chunk is not None:
            if worker.connection.poll():
                try:
                    chunk, counts, failures = worker.connection.recv()
                except (EOFError, ConnectionError):
                    return self._bury(worker, worker.chunk, "crash")
                self.counts.setdefault(chunk.format, Counter()).update(counts)
                for failure in failures:
                    self._record(failure)
                worker.chunk = None
            elif worker.stalled():
                return self._bury(worker, worker.chunk, "hang")
        if worker.chunk is None and self.todo:
            worker.give(self.todo.popleft())
        return worker

    def _bury(self, worker: Worker, chunk: Chunk, kind: str) -> Worker:
        """Records the case that a worker died of, and puts the others of its chunk back."""
        number = max(worker.current.value, chunk.start)
        worker.stop()
        details = f"the process ended with {worker.process.exitcode}"
        self._record(Failure(chunk.format, number, kind, f"{kind} of the process in {chunk.format}", details))
        self.counts.setdefault(chunk.format, Counter())["cases"] += 1
        for start, end in ((chunk.start, number), (number + 1, chunk.end)):
            if start < end:
                self.todo.appendleft(Chunk(chunk.format, start, end))
        return Worker(self.seed)

    def _record(self, failure: Failure) -> None:
        signature = f"{failure.kind}: {failure.signature}"
        self.signatures[signature] += 1
        if self.signatures[signature] > KEPT_PER_SIGNATURE:
            return
        self.failures.append(failure)
        say(f"{failure.format} case {failure.number}: {signature}")
        if self.failures_folder is not None:
            for path in _save(
                failure, make_case(failure.format, failure.number, self.seed), self.failures_folder
            ):
                say(f"  {path}")


def _save(failure: Failure, case: Case, folder: Path) -> list[Path]:
    """The input of a failure (BRAT: both files), and beside it what happened."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{failure.format}-{failure.number}"
    suffixes = (".ann", ".txt") if failure.format == "brat" else (".input",)
    paths = [folder / f"{stem}{suffix}" for suffix in suffixes]
    for path, part in zip(paths, case.parts, strict=True):
        path.write_bytes(part)
    paths.append(folder / f"{stem}.report.json")
    about = {**asdict(failure), "options": asdict(case.options)}
    paths[-1].write_text(
        json.dumps(about, indent=1, ensure_ascii=False), encoding="utf-8", errors="backslashreplace"
    )
    return paths


def shares(mutations: int, names: Sequence[str]) -> dict[str, int]:
    """How many mutations each format gets: by weight, but none of them too few."""
    least = min(LEAST, mutations // (2 * len(names)))
    total = sum(WEIGHTS.get(name, WEIGHT) for name in names)
    counts = {name: max(least, mutations * WEIGHTS.get(name, WEIGHT) // total) for name in names}
    counts[names[0]] += mutations - sum(counts.values())
    return counts


def fuzz(
    mutations: int,
    seed: int = 0,
    jobs: int = 1,
    failures: Path | None = None,
    names: Sequence[str] = tuple(FORMATS),
) -> dict[str, Any]:
    """Examines so many cases over the formats; the result says what came of them."""
    split = shares(mutations, names)
    chunks = [
        Chunk(name, start, min(start + CHUNK, count))
        for name, count in split.items()
        for start in range(0, count, CHUNK)
    ]
    random.Random(seed).shuffle(chunks)  # so that every format's failures show early
    campaign = Campaign(seed, jobs, failures, deque(chunks))
    begun = time.monotonic()
    campaign.run()
    return {
        "benchmark": "fuzz_readers",
        "mutations": sum(counts["cases"] for counts in campaign.counts.values()),
        "seed": seed,
        "jobs": jobs,
        "seconds": round(time.monotonic() - begun, 1),
        "failures": dict(campaign.signatures),
        "formats": {name: _summary(campaign.counts[name]) for name in split},
        **machine(),
    }


def _summary(counts: Counter[str]) -> dict[str, Any]:
    with_sentences = counts["accepted"] + counts["accepted in part"]
    readings = counts["sentences found"] + counts["sentences rejected"]
    return {
        **{
            name.replace(" ", "_"): counts[name]
            for name in ("cases", "accepted", "accepted in part", "refused", "empty")
        },
        "share_with_sentences": round(with_sentences / max(counts["cases"], 1), 3),
        "sentences_found": counts["sentences found"],
        "share_of_sentences_found": round(counts["sentences found"] / max(readings, 1), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--mutations", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--failures", type=Path, default=Path(tempfile.gettempdir()) / "fencepost-fuzz-failures"
    )
    parser.add_argument("--formats", nargs="+", choices=list(FORMATS), default=list(FORMATS))
    arguments = parser.parse_args()
    result = fuzz(arguments.mutations, arguments.seed, arguments.jobs, arguments.failures, arguments.formats)
    report(result)
    sys.exit(1 if result["failures"] else 0)


if __name__ == "__main__":
    main()
