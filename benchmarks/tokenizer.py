"""What it costs to split texts into tokens, beside spaCy with the same rules.

    python -m benchmarks.tokenizer [CORPUS ...] [--language en]

A corpus is `gum` or `genia`, of which the test part is read, or what `fencepost` reads; `sample:train` by
default. For each: CPU microseconds for a word (as separated by white space), with new words and with known
ones, in turn with spaCy; and the number of documents with other tokens. Prints one JSON object as its last
line.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import spacy

from benchmarks.common import FILES, machine, read_corpus
from fencepost.data import read
from fencepost.data.text.tokenizer import RuleTokenizer, load_rules

SENTENCES = 15  # that make a document


def cost(tokenize: Callable[[str], Any], texts: list[str], words: int) -> float:
    start = time.process_time()
    for text in texts:
        tokenize(text)
    return round((time.process_time() - start) / words * 1e6, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("corpora", nargs="*", metavar="CORPUS", default=["sample:train"])
    parser.add_argument("--language", default="en")
    options = parser.parse_args()
    result = {name: compare(name, options.language) for name in options.corpora}
    print(json.dumps({"benchmark": "tokenizer", **machine(), "corpora": result}))


def compare(corpus: str, language: str) -> dict[str, Any]:
    """Return the cost of a word in a corpus, new and known, with both tokenizers."""
    sentences = [s.text for s in (read_corpus(corpus)["test"] if corpus in FILES else read(corpus))]
    texts = [" ".join(sentences[at : at + SENTENCES]) for at in range(0, len(sentences), SENTENCES)]
    words = sum(len(text.split()) for text in texts)
    ours, nlp = RuleTokenizer(load_rules(language)), spacy.blank(language)
    result: dict[str, Any] = {}
    for name in ("new", "known"):
        result[name] = {"spacy": cost(nlp.make_doc, texts, words), "fencepost": cost(ours, texts, words)}
    different = sum(
        [(token.idx, token.text) for token in nlp.make_doc(text)] != [token[:2] for token in ours(text)]
        for text in texts
    )
    return result | {"words": words, "documents": len(texts), "different": different}


if __name__ == "__main__":
    main()
