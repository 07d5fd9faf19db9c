"""Damage files: bits, bytes, lines, numbers, difficult tokens, and values inside JSON and DocBins."""

from __future__ import annotations

import contextlib
import json
import random
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import srsly  # type: ignore[import-untyped]

from benchmarks.fuzz.seeds import Parts, seeds
from fencepost.data import ReadOptions
from fencepost.data.source import BYTE_ORDER_MARK


def _nest(depth: int) -> list[Any]:
    """Return nested lists, made without recursion."""
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def _parse_tokens(text: str) -> list[bytes]:
    """Return the words of a text; an underscore means a space, ~ a tab and | a line end."""
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
DOCUMENTS = _parse_tokens("""
    |-DOCSTART-~O| -DOCSTART-_ |-DOCSTART-_-X-_O_O|| # |#_comment| ~ __ |~| |#begin_document_(a);_part_1|
    |#begin_document |#end_document|
""")
NASTY: dict[str, list[bytes]] = {
    "jsonl": _parse_tokens(r"""
        NaN Infinity -Infinity 1e999 1e308 -0 1.0 true null [] {} "" "\ud800" \udc00 \u0000 , [ ] { } " \ : \"
        "id":1, "words":[], "entities":[], "tokens":[], "meta":{"id":2}, "meta":3, "text":"x", "start":-1, ]]
        "end":99, "type":"", "score":2, "score":NaN, "pos":null, [1,2,"X"] "index":[0,2], "labels":["a","a"],
        "spans":[], }}
    """),
    "conll": DOCUMENTS + _parse_tokens("B- I-PER E-X S-X M-X L-X U-X O B-A-B b-per BxX - O-X"),
    "conll2012": DOCUMENTS + _parse_tokens("(PER* *) (A(B* *)) ( ) * (A) ((A) (A*B) () " + "(" * 300 + "A*"),
    "webanno": _parse_tokens(r"""
        [1] [2] PER[1] PER[1]|LOC[2] * *[1] ** \* \ \\ ] [ -> 1-1 1-1.1 1-2.3 0-0 3-2 #Text= |#Text=x|
        |#Sentence.id=7| #T_SP= |#T_SP=a|b| .. 1-99 \u00e9 \t
    """),
    "gpml": _parse_tokens("""
        &nbsp; &#0; &#xD800; &lt; & < > ]]> <![CDATA[_x_]]> <!--_c_--> %a; <!DOCTYPE_set_SYSTEM_'gpml.dtd'>
        <!DOCTYPE_a_[<!ENTITY_b_'c'>]> <!ENTITY_a_'b'> <w> </w> <w/> <w_c=''>_</w> <w_c='NN'>x</w> <?pi_x?>
        <a:b> <cons> </cons> <cons/> <cons_sem='G#'> <cons_sem='G#X'/> <cons_sem='(OR_G#a_G#b'> <sentence>
        </sentence> <sentence/> <article> </article> _sem='G#Y' _sem=''
        <?xml_version='1.0'_encoding='utf-16'?>
    """),
    "brat": _parse_tokens("""
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
NASTY["webanno"] += [b"_", b"|", b"\t_", b"\n#T_SP=webanno.custom.X|value"]
NASTY["spacy-v2"] = NASTY["jsonl"] + _parse_tokens(
    """( ) ' TRAIN_DATA= ('a',{'entities':[(0,1,'X')]}), f() None #"""
)
NASTY["spacy-v2"] += [b"-" * 5000 + b"1", b"(" * 300, b"lambda:" * 1000]
NASTY["weibo"] = NASTY["conll"] + _parse_tokens("0 1 01 12345678901 ٣")
NUMBERS = [*_parse_tokens("0 1 2 3 -1 -0 01 1.0 1e2 2147483648 1000000000000"), b"9" * 400]
CODECS = _parse_tokens(
    "utf-16 utf-32 utf-7 ascii latin-1 cp037 idna punycode hex rot13 undefined unicode-escape gbk x"
)
VALUES: list[Any] = [None, True, False, 0, 1, -1, 2, 3, 1.0, 0.5, -0.0, 1e300, 10**12, 10**30, 2**63, 10**400]
VALUES += ["", " ", "x", "0", "X\tY\nZ", "\u2028", "\x00", "é", "(A)", "-DOCSTART-", [], {}, [[]], {"": 0}]
VALUES += [[0, 1, "X"], ["a"], [0, 10**10], {"start": 0, "end": 1, "type": "X"}, {"meta": {"meta": 1}}]
VALUES += [_nest(depth) for depth in (50, 300, 900)]
KEYS = [
    key.decode()
    for key in _parse_tokens("""
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
        """Make one change of any kind."""
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
        """Swap, delete, duplicate or insert lines, or change a line end."""
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
        """Change the encoding of the file, its declaration, or all line ends."""
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
    """Change one place in a tree of lists and objects, which may be inside packed values."""
    if rng.random() < 0.08 or value in (None, "", [], {}, b""):
        return rng.choice(VALUES)
    if isinstance(value, list):
        return _mutate_list(value, rng)
    if isinstance(value, dict):
        return _mutate_dict(value, rng)
    if isinstance(value, bytes):
        return _mutate_pack(value, rng)
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
    result = dict(value)
    match rng.randrange(8):
        case 0:
            del result[key]
        case 1:
            result[rng.choice((*KEYS, *value))] = rng.choice(VALUES)
        case 2:
            result[rng.choice((*KEYS, *value))] = result.pop(key)
        case _:
            result[key] = mutate_tree(value[key], rng)
    return result


def _mutate_string(value: str, rng: random.Random) -> str:
    if value.startswith("{"):
        with contextlib.suppress(ValueError):  # JSON in a string, which Fencepost stores in a DocBin
            return json.dumps(mutate_tree(json.loads(value), rng))
    other = rng.choice(("", " ", "\t", "\n", "\x00", "\u2028", "e\u0301", "😀", "科", value, "\ud800"))
    place = rng.randint(0, len(value))
    return value[:place] + other + value[place + rng.randint(0, 1) :]


def _mutate_pack(value: bytes, rng: random.Random) -> bytes:
    try:
        tree = srsly.msgpack_loads(value)
    except Exception:  # noqa: BLE001 - not MessagePack, so plain bytes
        return Damage(rng, "spacy", value).somewhere(value)
    return _pack(mutate_tree(tree, rng), value)


def _pack(tree: Any, unpackable: bytes) -> bytes:
    try:
        packed: bytes = srsly.msgpack_dumps(tree)
    except Exception:  # noqa: BLE001 - a value that MessagePack cannot represent
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
    """Return the case with this number, which is the same on every machine and in every run."""
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
    if name.startswith(("jsonl", "doccano", "prodigy")) and rng.random() < 0.4:
        return _mutate_json(data, rng)
    return Damage(rng, name, other).somewhere(data)


def _mutate_docbin(data: bytes, rng: random.Random) -> bytes:
    """Change the content of a DocBin and compress it again, with a valid checksum."""
    try:
        payload = zlib.decompress(data)
        if rng.random() < 0.3:
            payload = Damage(rng, "spacy", payload).somewhere(payload)
        else:
            payload = _pack(mutate_tree(srsly.msgpack_loads(payload), rng), payload)
    except Exception:  # noqa: BLE001 - an earlier mutation has damaged it
        return Damage(rng, "spacy", data).somewhere(data)
    return zlib.compress(payload, 1)


def _mutate_json(data: bytes, rng: random.Random) -> bytes:
    """Change a value of the JSON on one line."""
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
        keep_rejected=rng.random() < 0.5,
    )
