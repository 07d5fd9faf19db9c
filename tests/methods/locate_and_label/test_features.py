"""Word features of the paper with this method: word vectors, parts of speech, characters, context."""

from __future__ import annotations

from itertools import islice

import pytest
import torch

from fencepost.config import Config
from fencepost.data import read
from fencepost.data.entity import Sentence
from fencepost.methods.model import Model
from fencepost.runtime.pytorch import load_predictor, make_predictor, save_model
from fencepost.runtime.recogniser import Recogniser

FEATURES = {
    "pos": "encoder.features.pos=6",
    "characters": "encoder.features.characters=8",
    "vectors": "encoder.features.vectors={vectors}",
}


@pytest.fixture(scope="module")
def sentences():
    """Sentences with parts of speech that say whether a word is capitalised."""
    return [
        Sentence(
            s.words, s.entities, pos=["NNP" if word[0].isupper() else "X" for word in s.words], doc=s.doc
        )
        for s in islice(read("sample:train"), 24)
    ]


@pytest.fixture
def vectors(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("the 1 0 0 0.5\nof 0 1 0 0.25\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "names", [[], ["pos"], ["characters"], ["vectors"], ["pos", "characters", "vectors"]]
)
def test_each_feature_is_optional(sentences, vectors, tmp_path, names):
    changes = [FEATURES[name].format(vectors=vectors) for name in names]
    small = ["encoder.name=scratch", "encoder.lstm.size=16", "method.size=8", "method.name=locate-and-label"]
    torch.manual_seed(0)
    model = Model.build(Config.compose(changes=[*small, *changes]), sentences)
    assert len(model.encoder.features) == len(names)
    terms = model(model.collate(sentences[:4]))
    assert set(terms) == {"filter_loss", "regressor_loss", "classifier_loss", "loss"}
    terms["loss"].backward()
    for feature in model.encoder.features:
        trainable = [weights for weights in feature.parameters() if weights.requires_grad]
        assert all(weights.grad is not None and weights.grad.abs().sum() > 0 for weights in trainable)
    save_model(model, tmp_path / "model")
    one, other = (
        Recogniser(load_predictor(tmp_path / "model")).with_options(filter=0, threshold=0, select="keep-all")
        for _ in range(2)
    )
    predicted = list(one.predict(sentences[:6]))
    assert predicted == list(other.predict(sentences[:6]))
    if "pos" in names:  # the feature has an effect
        without = [Sentence(s.words, s.entities, doc=s.doc) for s in sentences[:6]]
        differ = [a.entities != b.entities for a, b in zip(predicted, one.predict(without), strict=True)]
        assert any(differ)


def test_neighbouring_sentences_change_scores(sentences, tmp_path):
    changes = ["method.name=locate-and-label", "encoder.context=1", "encoder.lstm.size=16", "method.size=8"]
    torch.manual_seed(0)
    config = Config.compose(changes=[*changes, "predict.filter=0", "predict.threshold=0"])
    model = Model.build(config, sentences).eval()
    pair = [s for s in sentences if s.doc == sentences[0].doc][:2]
    recogniser = Recogniser(make_predictor(model))
    [alone] = recogniser.predict(pair[:1])
    with_neighbour, _ = recogniser.predict(pair)
    scores = [[entity.score for entity in s.entities] for s in (alone, with_neighbour)]
    assert scores[0] != scores[1]
