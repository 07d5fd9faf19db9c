"""The kind of an input file whose name or first character suggests another one."""

import pytest

from fencepost.data.source import Source
from fencepost.runtime.prediction.kinds import detect_kind


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.tsv", "#FORMAT=WebAnno TSV 3.3\n\n\n#Text=Ada\n1-1\t0-3\tAda\t\n", "webanno"),
        ("a.txt", "#FORMAT=WebAnno TSV 3.3\n\n\n#Text=Ada\n1-1\t0-3\tAda\t\n", "webanno"),
        ("a.tsv", "id\ttext\n1\tAda\n", "csv"),
        ("a.py", "TRAIN_DATA = [('Ada', {'entities': []})]\n", "spacy-v2"),
        ("a.json", '[["Ada", {"entities": []}]]', "spacy-v2"),
        ("a.jsonl", '["Ada", {"entities": []}]\n["Bob", {"entities": []}]\n', "spacy-v2"),
        ("a.json", '["Ada", {"text": "Bob"}]', "json"),
        ("a.txt", "TRAIN = [1, 2]\n", "text"),
    ],
)
def test_detects_corpora_texts_and_tables(tmp_path, name, content, kind):
    path = tmp_path / name
    path.write_text(content)
    source = Source.open(path)
    assert detect_kind(source, None) == kind
    source.close()
