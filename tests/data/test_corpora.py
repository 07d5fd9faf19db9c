"""The real corpora: nothing is lost in reading and in writing to any format that can represent them."""

import itertools
import re
from itertools import islice

import pytest
from seqeval.metrics.sequence_labeling import get_entities

from fencepost.data import FORMATS, Reader, ReadOptions, read, statistics, write
from fencepost.data.formats.overlaps import has_forbidden_overlap
from tests.data.test_round_trips import READ_AS, WORD_FORMATS, assert_same, characters

pytestmark = pytest.mark.corpora

SENTENCES_AND_ENTITIES = {
    "gum/train.jsonl": (10_330, 50_004),
    "gum/dev.jsonl": (1_575, 7_897),
    "gum/test.jsonl": (1_464, 7_927),
    "genia/train.jsonl": (1_765, 4_714),
    "genia/test.jsonl": (1_732, 5_119),
    "weibo/train.conll": (1_350, None),
    "weibo/dev.conll": (270, None),
    "weibo/test.conll": (270, None),
    "resume/train.bmes": (3_821, None),
    "resume/dev.bmes": (463, None),
    "resume/test.bmes": (477, None),
    "wnut17/train.conll": (3_394, None),
    "wnut17/dev.conll": (1_009, None),
    "wnut17/test.conll": (1_287, None),
}
DETECTED = {
    "gum": "jsonl-tokens",
    "genia": "jsonl-mentions",
    "weibo": "weibo",
    "resume": "conll",
    "wnut17": "conll",
}
SMALL = ["gum/dev.jsonl", "genia/train.jsonl", "weibo/dev.conll", "resume/dev.bmes", "wnut17/dev.conll"]


@pytest.mark.parametrize("name", SENTENCES_AND_ENTITIES)
def test_counts_equal_those_of_the_readme(shared_data, name):
    reader = Reader(shared_data / name)
    figures = statistics(reader)
    sentences, entities = SENTENCES_AND_ENTITIES[name]
    assert reader.format.name == DETECTED[name.split("/")[0]]
    assert figures.sentences == sentences
    assert entities is None or figures.entities == entities


@pytest.mark.parametrize(
    "name", [name for name, (_, count) in SENTENCES_AND_ENTITIES.items() if count is None]
)
def test_flat_corpora_are_read_like_seqeval(shared_data, name):
    text = (shared_data / name).read_text("utf-8")
    blocks = re.split(r"\n\s*\n", text.strip())
    tags = [[re.sub("^M-", "I-", line.split()[-1]) for line in block.splitlines()] for block in blocks]
    expected = list(map(get_entities, tags))
    spans = [[(e.type, e.start, e.end - 1) for e in s.entities] for s in read(shared_data / name)]
    assert spans == expected


def test_gum_has_its_number_of_named_entities(shared_data):
    train = read(shared_data / "gum" / "train.jsonl")
    assert sum(entity.meta["named"] for sentence in train for entity in sentence.entities) == 11_129


@pytest.mark.parametrize("count", [150, pytest.param(None, marks=pytest.mark.slow)])
@pytest.mark.parametrize("target", WORD_FORMATS)
@pytest.mark.parametrize("name", SMALL)
def test_every_format_reads_back_a_corpus_that_it_can_represent(shared_data, tmp_path, name, target, count):
    sentences = list(islice(read(shared_data / name), count))
    allowed = FORMATS[target].overlaps
    fitting = [s for s in sentences if not has_forbidden_overlap(s.entities, allowed)]
    refused = []
    write(fitting, tmp_path / "out", target, on_refused=lambda sentence, _: refused.append(sentence))
    fitting = [s for s in fitting if s not in refused]
    assert len(fitting) > 0.1 * len(sentences)
    reader = Reader(tmp_path / "out")
    assert_same(list(reader), fitting, target)
    assert reader.format.name == READ_AS.get(target, target)


@pytest.mark.parametrize("name", ["gum/test.jsonl", "genia/test.jsonl"])
def test_nested_formats_read_back_whole_nested_corpora(shared_data, tmp_path, name):
    sentences = list(read(shared_data / name))
    for target in ("jsonl", "jsonl-text"):
        write(sentences, tmp_path / target, target)
        assert_same(list(read(tmp_path / target)), sentences, target)


@pytest.mark.parametrize("count", [150, pytest.param(None, marks=pytest.mark.slow)])
@pytest.mark.parametrize("pretokenized", [True, False])
@pytest.mark.parametrize("name", SMALL)
def test_brat_keeps_the_characters_of_every_document(shared_data, tmp_path, name, pretokenized, count):
    sentences = [
        s for s in islice(read(shared_data / name), count) if FORMATS["brat"].find_obstacle(s) is None
    ]
    write(sentences, tmp_path / "out", "brat")
    documents = read(tmp_path / "out", options=ReadOptions(pretokenized=pretokenized))
    flat = [sorted(itertools.chain.from_iterable(characters(s).values())) for s in (documents, sentences)]
    assert flat[0] == flat[1]
