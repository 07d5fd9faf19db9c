"""Valid files, small, with every feature of their format."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from fencepost.data import write
from fencepost.data.entity import Entity, Sentence

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
"""
    ],
    "jsonl-index": [
        """\
{"sentence": ["A", "b", "c"], "ner": [{"index": [0, 1], "type": "X"}, {"index": [2], "type": "Y"}]}
{"sentence": ["d"], "ner": []}
"""
    ],
    "jsonl-gliner": [
        """\
[{"tokenized_text": ["A", "b", "c"], "ner": [[0, 1, "X"], [2, 2, "Y"]]}, {"tokenized_text": ["d"], "ner": []}]
"""
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
    "label-studio": [
        """\
[{"id": 1, "data": {"text": "Ada met Bob. He left  Rome.", "page": 3}, "predictions": [], "annotations": [
{"was_cancelled": true, "result": []},
{"was_cancelled": false, "result": [
{"type": "labels", "value": {"start": 0, "end": 3, "text": "Ada", "labels": ["PER", "X"]}, "id": "a"},
{"type": "relation", "from_id": "a", "to_id": "b"},
{"type": "labels", "value": {"start": 22, "end": 26, "labels": ["LOC"]}, "id": "b", "score": 0.5}]}]},
{"data": {"body": "Nothing here."}, "annotations": [{"result": []}, {"result": [], "ground_truth": true}]}]
""",
        """\
{"data": {"text": "Ada"}, "annotations": [{"result": [{"type": "labels", "value": \
{"start": 0, "end": 3, "labels": ["PER"]}}]}]}
{"data": {"text": "Bob"}, "predictions": [{"result": []}]}
""",
    ],
    "doccano": [
        """\
{"id": 4, "text": "Ada met Bob. He left  Rome.", "label": [[0, 3, "PER"], [8, 11, "PER"], [22, 26, "LOC"]]}
{"text": "Nothing here.", "label": [], "Comments": []}
"""
    ],
    "prodigy": [
        """\
{"text": "Ada left.", "_input_hash": 5, "tokens": [\
{"text": "Ada", "start": 0, "end": 3, "id": 0, "ws": true}, \
{"text": "left.", "start": 4, "end": 9, "id": 1, "ws": false}], "spans": [{"start": 0, "end": 3, \
"token_start": 0, "token_end": 0, "label": "PER"}], "answer": "accept", "meta": {"source": "x"}}
{"text": "Bob", "spans": [], "answer": "accept"}
"""
    ],
    "spacy-v2": [
        """\
[["Ada met Bob. He left  Rome.", {"entities": [[0, 3, "PER"], [8, 11, "PER"], [22, 26, "LOC"]], "cats": {}}],
 ["Nothing here.", {"entities": []}]]
""",
        """\
TRAIN_DATA = [
    ("Ada met Bob in Rome", {"entities": [(0, 3, "PER"), (8, 11, 'PER'), (15, 19, "LOC")]}),
    ('Nothing', {'entities': []}),  # a comment
]
""",
    ],
    "webanno": [
        """\
#FORMAT=WebAnno TSV 3.2
#T_SP=de.tudarmstadt.ukp.dkpro.core.api.lexmorph.type.pos.POS|PosValue
#T_SP=de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity|identifier|value
#T_RL=de.tudarmstadt.ukp.dkpro.core.api.syntax.type.dependency.Dependency|DependencyType|BT_POS


#Text=Ms. Haag plays 😀\\tElianti.
1-1\t0-3\tMs.\tNNP\t*[1]|*[2]\tPER[1]|a\\_b\\[\\][2]\tSUBJ\t1-3\t
1-2\t4-8\tHaag\tNNP\t*[1]\tPER[1]\tSBJ\t1-3\t
1-3\t9-14\tplays\tVBD\t_\t_\tP|ROOT\t1-5|1-3\t
1-3.1\t9-13\tplay\t_\t*\tX\t_\t_\t
1-4\t15-17\t😀\t_\t_\t_\t_\t_\t
1-5\t18-25\tElianti\tNNP\thttp://x\tOTH\t_\t_\t
1-6\t25-26\t.\t.\t_\t_\t_\t_\t

#Sentence.id=s2
#Text=One
#Text=two
2-1\t27-30\tOne\t_\t*[3]\tLOC[3]\t_\t_\t
2-2\t31-34\ttwo\t_\t*[3]\tLOC[3]\t_\t_\t

#Text=three four
3-1\t35-40\tthree\t_\t*[3]\tLOC[3]\t_\t_\t
3-2\t41-45\tfour\t_\t*\t*\t_\t_\t
""",
        """\
#FORMAT=WebAnno TSV 3.1
#T_SP=webanno.custom.Entity|kind
#T_CH=webanno.custom.Link|referenceType|referenceRelation

#Text=caf\\u00E9 bar
1-1\t0-4\tcafé\tPLACE\tpr[1]\tcoref->1-1\t
1-2\t5-8\tbar\t_\t_\t_\t
""",
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
    "csv": [
        """\
Sentence #,Word,POS,Tag
Sentence: 1,Thousands,NNS,O
,in,IN,O
,London,NNP,B-geo
,now,RB,O
Sentence: 2,\"\"\"\",``,O
,"Ada",NNP,B-per
,Lovelace,NNP,I-per
""",
        """\
id;text;start;end;label\r
1;Ada Lovelace met the mayor of Rome;0;12;PER\r
1;Ada Lovelace met the mayor of Rome;17;34;PER\r
2;"Nothing; here";;;\r
3;"In
Paris";3;8;LOC\r
""",
        """\
text\tentities
Ada met Bob\t[(0, 3, 'PER'), (8, 11, 'PER')]
Nothing here\t
Bob left\t"[{""start"": 0, ""end"": 3, ""label"": ""PER""}]"
""",
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
    """Return valid files of a format: the sample written by its own writer, and some files by hand."""
    sample = CHARACTERS if name == "weibo" else SAMPLE
    files: list[Parts] = []
    with tempfile.TemporaryDirectory() as folder:
        for number, sentences in enumerate((sample, sample[::-1], sample[:2])):
            for suffix in ("", ".json") if name.startswith("jsonl") else ("",):
                path = Path(folder) / f"{number}{suffix}"
                write(sentences, path, name, prefer="outermost", on_refused=lambda *_: None)
                if name == "brat":
                    files.extend(
                        (file.read_bytes(), file.with_suffix(".txt").read_bytes())
                        for file in sorted(path.glob("*.ann"))
                    )
                else:
                    files.append((path.read_bytes(),))
    if name == "spacy":
        return [*files, *_make_docbins()]
    if name == "brat":
        return [*files, *((one.encode(), two.encode()) for one, two in BRAT_BY_HAND)]
    return [*files, *((text.encode(),) for text in BY_HAND[name])]


def _make_docbins() -> Iterator[Parts]:
    """Yield typical files of spaCy: whole documents, with entities in `doc.ents` or in other groups."""
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
