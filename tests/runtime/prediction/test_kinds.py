"""What kind of file the texts to predict are in, where its name or first character says something else."""

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
def test_corpora_texts_and_tables_are_distinguished(tmp_path, name, content, kind):
    path = tmp_path / name
    path.write_text(content)
    source = Source.open(path)
    assert detect_kind(source, None) == kind
    source.close()
