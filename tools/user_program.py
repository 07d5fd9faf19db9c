"""A program of a user, for mypy: `make lint` checks that it gets the types that it expects."""

from typing import assert_type

import fencepost
from fencepost import Document, Entity, Recogniser, Sentence, Span


def use_fencepost() -> None:
    """Use what the package promises to keep."""
    ner = fencepost.load(min_confidence={"person": 0.5}, types=["person"])
    assert_type(ner, Recogniser)
    document = ner("Ada Lovelace was born in London.")
    assert_type(document, Document)
    assert_type(document[0], Span)
    assert_type(document[0].label, str)
    assert_type(document.to_json(), str)
    for entities, number in ner.pipe([("a", 1)], as_tuples=True):
        assert_type(len(entities) + number, int)
    sentences = list(fencepost.read("sample:dev"))
    assert_type(sentences, list[Sentence])
    assert_type(Sentence(["Ada"], [Entity(0, 1, "person")]).text, str)
    assert_type(fencepost.evaluate(sentences, ner).overall.f1, float)
    fencepost.write(sentences, "dev.conll")
    fencepost.train(sentences, "my-model", method="boundary-offset")
