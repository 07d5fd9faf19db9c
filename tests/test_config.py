from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fencepost.cli.models import parse_prediction_changes
from fencepost.config import Config, TrainingSettings, merge_trees
from fencepost.data.entity import Sentence
from fencepost.encoder.settings import EncoderSettings
from fencepost.errors import DataError, UsageError
from fencepost.evaluation import Temperature
from fencepost.methods.boundary_smoothing.network import BoundarySmoothingSettings
from fencepost.methods.registry import METHODS
from fencepost.runtime.folder import CONFIG_FILE, format_config
from tests.methods.doubles import register


@pytest.fixture
def write(tmp_path):
    def write(text: str) -> Path:
        path = tmp_path / "run.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def refused(*arguments, by=Config.compose, **named) -> str:
    with pytest.raises((UsageError, DataError)) as caught:
        by(*arguments, **named)
    return str(caught.value)


# Defaults


def test_default_is_boundary_smoothing() -> None:
    config = Config.compose()
    assert config.method == BoundarySmoothingSettings()
    assert config.encoder == EncoderSettings(freeze_embeddings=True)
    assert config.training == TrainingSettings()
    assert config.predict.select == "auto"
    assert config == Config.parse({})


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "{}", "encoder:\ntraining:\n", "method:\n"])
def test_empty_files_and_sections_mean_defaults(write, text: str) -> None:
    assert Config.compose(write(text)) == Config.compose()


# Files and changes


def test_reads_settings_from_a_file(write) -> None:
    config = Config.compose(
        write(
            """
            method: {name: boundary-smoothing, epsilon: 0.2, smoothing_size: 2}
            encoder:
              name: scratch
              lstm: {size: 20}
              features: {vectors: glove/ä.txt}
            training:
              learning_rate: 1e-4   # a string, for YAML 1.1
              encoder_learning_rate: 2.0e-5
              patience: null
            predict: {select: nested}
            """
        )
    )
    assert (config.method.epsilon, config.method.smoothing_size) == (0.2, 2)
    assert config.encoder.lstm.size == 20
    assert config.encoder.lstm.layers == 1
    assert config.encoder.features.vectors == Path("glove/ä.txt")
    assert (config.training.learning_rate, config.training.encoder_learning_rate) == (1e-4, 2e-5)
    assert config.training.patience is None
    assert config.predict.select == "nested"


def test_embeddings_are_frozen_by_default_in_boundary_smoothing_alone() -> None:
    frozen = {name for name in METHODS if Config.parse({"method": {"name": name}}).encoder.freeze_embeddings}
    assert frozen == {"boundary-smoothing"}
    assert not Config.compose(changes=["encoder.freeze_embeddings=false"]).encoder.freeze_embeddings


@pytest.mark.parametrize(
    ("change", "part", "key", "value"),
    [
        ("training.learning_rate=1e-4", "training", "learning_rate", 1e-4),
        ("training.learning_rate=0.5", "training", "learning_rate", 0.5),
        ("training.epochs=20", "training", "epochs", 20),
        ("training.patience=null", "training", "patience", None),
        ("training.patience=", "training", "patience", None),
        ("training.patience=3", "training", "patience", 3),
        ("encoder.freeze_embeddings=false", "encoder", "freeze_embeddings", False),
        ("encoder.name=some/folder=1", "encoder", "name", "some/folder=1"),
        ("encoder.name='123'", "encoder", "name", "123"),
        ("method.epsilon=0", "method", "epsilon", 0.0),
        ("method={epsilon: 0.3}", "method", "epsilon", 0.3),
        ("predict.select=flat", "predict", "select", "flat"),
    ],
)
def test_change_sets_only_its_key(change: str, part: str, key: str, value) -> None:
    config = Config.compose(changes=[change])
    assert getattr(getattr(config, part), key) == value
    others = {part: {key}}
    assert config.model_dump(exclude=others) == Config.compose().model_dump(exclude=others)


def test_flags_override_changes_which_override_the_file(write) -> None:
    path = write("training: {epochs: 1, batch_size: 2, seed: 3, accumulate: 4}")
    config = Config.compose(
        path,
        ["training.epochs=10", "training.batch_size=20", "training.batch_size=21", "training.seed=30"],
        {"training": {"epochs": 100}, "encoder": {"name": "scratch"}},
    )
    training = config.training
    assert (training.epochs, training.batch_size, training.seed, training.accumulate) == (100, 21, 30, 4)
    assert config.encoder.name == "scratch"


def test_change_of_a_nested_key_keeps_its_siblings(write) -> None:
    config = Config.compose(write("encoder: {lstm: {size: 20, layers: 2}}"), ["encoder.lstm.size=40"])
    assert (config.encoder.lstm.size, config.encoder.lstm.layers) == (40, 2)


def test_flags_or_changes_may_name_the_method_of_a_file(monkeypatch, write) -> None:
    register(monkeypatch)
    path = write("method: {bias: false}\npredict: {threshold: 0.2}")
    config = Config.compose(path, flags={"method": {"name": "tagger"}})
    assert (config.method.bias, config.predict.threshold) == (False, 0.2)
    assert Config.compose(path, ["method.name=tagger"]) == config
    assert refused(path) == f"{path}: method.bias: there is no such key; method has {METHOD_KEYS}"


def test_file_and_changes_override_defaults_of_the_method(monkeypatch, write) -> None:
    register(monkeypatch)
    config = Config.compose(write("method: {name: tagger}\nencoder: {lstm: {size: 4}}"))
    assert (config.encoder.name, config.encoder.lstm.size, config.encoder.lstm.dropout) == ("scratch", 4, 0.0)
    assert config.training.epochs == 3
    assert Config.compose(changes=["method.name=tagger", "training.epochs=9"]).training.epochs == 9


def test_merge_trees_does_not_change_its_arguments() -> None:
    base = {"a": {"b": 1, "c": {"d": 2}}, "e": [1]}
    change = {"a": {"c": {"d": 3}}, "e": [2], "f": None}
    assert merge_trees(base, change) == {"a": {"b": 1, "c": {"d": 3}}, "e": [2], "f": None}
    assert base == {"a": {"b": 1, "c": {"d": 2}}, "e": [1]}
    assert change == {"a": {"c": {"d": 3}}, "e": [2], "f": None}


# Round trips


some_configs = st.fixed_dictionaries(
    {},
    optional={
        "method": st.fixed_dictionaries(
            {},
            optional={
                "epsilon": st.floats(0, 1, exclude_max=True),
                "smoothing_size": st.integers(1, 9),
                "widest": st.none() | st.integers(1, 99),
            },
        ),
        "encoder": st.fixed_dictionaries(
            {},
            optional={
                "name": st.sampled_from(["minilm", "no", "1e-4", "null", "ä: [", "2024-01-01", " ", "#"]),
                "lstm": st.fixed_dictionaries({"size": st.integers(0, 9).map(lambda half: 2 * half)}),
                "features": st.fixed_dictionaries({"vectors": st.sampled_from([None, "a.txt", "/b/ä"])}),
            },
        ),
        "training": st.fixed_dictionaries(
            {},
            optional={
                "learning_rate": st.floats(1e-300, 1e300),
                "epochs": st.just("auto") | st.integers(1, 99),
                "encoder_learning_rate": st.just("auto") | st.floats(0, 1),
                "patience": st.none() | st.integers(1, 5),
                "seed": st.integers(0, 2**32 - 1),
            },
        ),
        "predict": st.fixed_dictionaries(
            {},
            optional={
                "select": st.sampled_from(["auto", "keep-all"]),
                "threshold": st.none()
                | st.floats(0, 1)
                | st.dictionaries(st.sampled_from(["A", "ä: [", "null"]), st.floats(0, 1)),
            },
        ),
    },
)


@given(some_configs)
def test_config_is_read_back_from_json_and_yaml(tmp_path, tree) -> None:
    config = Config.parse(tree)
    assert Config.parse(json.loads(config.model_dump_json())) == config
    assert Config.parse(config.model_dump()) == config
    path = tmp_path / "again.yaml"
    path.write_text(config.to_yaml(), encoding="utf-8")
    assert Config.compose(path) == config


def test_yaml_has_sections_in_order_and_readable_unicode() -> None:
    text = Config.parse({"encoder": {"name": "größe"}}).to_yaml()
    assert [line for line in text.splitlines() if not line.startswith(" ")] == [
        "method:",
        "encoder:",
        "training:",
        "predict:",
        "text:",
    ]
    assert "name: größe" in text


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_a_config(name: str) -> None:
    config = Config.parse({"method": {"name": name}})
    assert type(config.method) is METHODS[name].settings
    assert type(config.predict) is METHODS[name].predict
    assert Config.parse(json.loads(config.model_dump_json())) == config


def test_config_is_immutable() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Config.parse({}).training = TrainingSettings()


# Wrong keys

THRESHOLD = "should be a number from 0 to 1, or one for each type as {TYPE: 0.5}"
METHOD_KEYS = "name, epsilon, smoothing_size, label_smoothing, size, dropout, width_size, widest, inside"
TRAINING_KEYS = ", ".join(TrainingSettings.model_fields)
PARTS = "there are method, encoder, training, predict, text"


@pytest.mark.parametrize(
    ("change", "key", "rest"),
    [
        ("trainin.epochs=1", "trainin", f"did you mean training? {PARTS}"),
        ("xyz=1", "xyz", PARTS),
        (
            "predict.selct=a",
            "predict.selct",
            "did you mean predict.select? predict has select, threshold, trim, batch_size",
        ),
        ("method.epsilo=0", "method.epsilo", f"did you mean method.epsilon? method has {METHOD_KEYS}"),
        ("method.xyz=0", "method.xyz", f"method has {METHOD_KEYS}"),
        (
            "training.epoch.s=2",
            "training.epoch",
            f"did you mean training.epochs? training has {TRAINING_KEYS}",
        ),
        (
            "encoder.lstm.siz=2",
            "encoder.lstm.siz",
            "did you mean encoder.lstm.size? encoder.lstm has size, layers, dropout",
        ),
    ],
)
def test_refuses_an_unknown_key_and_lists_the_known_ones(change: str, key: str, rest: str) -> None:
    assert refused(changes=[change]) == f"{key}: there is no such key; {rest}"


# Wrong values

METHOD_NAMES = ", ".join(METHODS)


@pytest.mark.parametrize(
    ("change", "key", "rest"),
    [
        (
            "predict.select=x",
            "predict.select",
            "should be 'auto', 'flat', 'nested', 'keep-all' or 'soft-nms', not 'x'",
        ),
        ("training.epochs=0", "training.epochs", "should be greater than or equal to 1, or be auto, not 0"),
        (
            "training.encoder_learning_rate=-1",
            "training.encoder_learning_rate",
            "should be greater than or equal to 0, or be auto, not -1",
        ),
        ("predict.threshold=1.5", "predict.threshold", f"{THRESHOLD}, not 1.5"),
        ("predict.threshold=high", "predict.threshold", f"{THRESHOLD}, not 'high'"),
        ("predict.threshold={A: 2}", "predict.threshold", f"{THRESHOLD}, not {{'A': 2}}"),
        ("training.epochs=[1, 2]", "training.epochs", "should be a valid integer, or be auto, not [1, 2]"),
        ("training.epochs=null", "training.epochs", "should be a valid integer, or be auto, not None"),
        ("training.epochs.a=1", "training.epochs", "should be a valid integer, or be auto, not {'a': 1}"),
        ("training.clip=.nan", "training.clip", "should be a finite number, not nan"),
        ("method.epsilon=1", "method.epsilon", "should be less than 1, not 1"),
        ("encoder.lstm.size=3", "encoder.lstm.size", "should be a multiple of 2, not 3"),
        ("encoder.name=5", "encoder.name", "should be a valid string, not 5"),
        ("encoder.lstm=5", "encoder.lstm", "should be a mapping (keys: size, layers, dropout), not 5"),
        (
            "predict=[]",
            "predict",
            "should be a mapping (keys: select, threshold, trim, batch_size), not []",
        ),
        ("method=a", "method", f"should be a mapping (keys: {METHOD_KEYS}), not 'a'"),
        ("method.name=null", "method.name", f"there is no method 'None'; there are {METHOD_NAMES}"),
        ("method.name=[a]", "method.name", f"there is no method \"['a']\"; there are {METHOD_NAMES}"),
        (
            "method.name=smoothing",
            "method.name",
            f"there is no method 'smoothing'; did you mean boundary-smoothing? there are {METHOD_NAMES}",
        ),
        (
            "training.epochs=two",
            "training.epochs",
            "should be a valid integer, unable to parse string as an integer, or be auto, not 'two'",
        ),
    ],
)
def test_refuses_a_wrong_value_and_says_what_is_valid(change: str, key: str, rest: str) -> None:
    assert refused(changes=[change]) == f"{key}: {rest}"


def test_all_errors_of_a_file_are_reported_with_its_path(write) -> None:
    path = write("training: {epochs: 0}\nencoder: {pooling: median}\nother: 1")
    assert refused(path).splitlines() == [
        f"{path}: encoder.pooling: should be 'mean', 'max' or 'first', not 'median'",
        f"{path}: training.epochs: should be greater than or equal to 1, or be auto, not 0",
        f"{path}: other: there is no such key; there are method, encoder, training, predict, text",
    ]


def test_errors_of_changes_do_not_name_the_file(write) -> None:
    path = write("training: {epochs: 5}")
    assert refused(path, ["training.epochs=0"]).startswith("training.epochs: ")
    assert refused(path, flags={"training": {"epochs": 0}}).startswith("training.epochs: ")
    path = write("training: {epochs: 0}")
    assert refused(path, ["training.seed=-1"]).startswith(f"{path}: training.epochs: ")


# Unreadable files


def test_refuses_unreadable_files(tmp_path) -> None:
    missing = tmp_path / "missing.yaml"
    assert refused(missing) == f"{missing}: cannot be read: No such file or directory"
    assert refused(tmp_path) == f"{tmp_path}: cannot be read: Is a directory"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("training:\n  epochs: 1\n epochs: 2\n", 3),
        ("a: [1, 2\n", 2),
        ("a: b: c\n", 1),
        ("training: {epochs: 1}\n---\ntraining: {epochs: 2}\n", 2),
        ("training:\n\tepochs: 1\n", 2),
        ("a: *b\n", 1),
    ],
)
def test_refuses_invalid_yaml_with_file_and_line(write, text: str, line: int) -> None:
    path = write(text)
    assert refused(path).startswith(f"{path}:{line}: this is not valid YAML: ")


@pytest.mark.parametrize("text", ["1", "text", "- a\n- b", "{1: 2}", "? [a]\n: b"])
def test_refuses_files_without_text_keys(write, text: str) -> None:
    path = write(text)
    assert refused(path).startswith(f"{path}")


def test_refuses_a_list_and_names_the_keys(write) -> None:
    path = write("- a")
    keys = "method, encoder, training, predict, text"
    assert refused(path) == f"{path}: a configuration should be a mapping (keys: {keys})"


def test_refuses_binary_files(tmp_path) -> None:
    path = tmp_path / "run.yaml"
    path.write_bytes(b"training: \xff\xfe")
    assert refused(path).startswith(f"{path}: this file is not UTF-8 (at byte 10)")
    path.write_bytes(b"training: \x00")
    assert refused(path).startswith(f"{path}: this is not valid YAML: ")


def test_byte_order_mark_is_ignored(tmp_path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("training: {epochs: 7}", encoding="utf-8-sig")
    assert Config.compose(path).training.epochs == 7


OBJECTS = [
    "!!python/object/apply:os.system [exit]",
    "!!python/object:fencepost.Entity {}",
    "!!python/name:os.system",
]


@pytest.mark.parametrize("value", OBJECTS)
def test_refuses_yaml_tags_of_python_objects(write, value: str) -> None:
    path = write(f"encoder:\n  name: {value}\n")
    message = refused(path)
    assert message.startswith(
        f"{path}:2: this is not valid YAML: could not determine a constructor for the tag"
    )
    assert "python/" in message
    assert refused(changes=[f"encoder.name={value}"]) == (
        f"--set encoder.name={value}: the value is not valid YAML"
    )


WRONG_FOR_THEIR_TAG = [
    "2024-13-45",
    "!!int abc",
    "!!bool x",
    "!!timestamp x",
    "!!float x",
    "1" * 5000,
]


@pytest.mark.parametrize("value", WRONG_FOR_THEIR_TAG)
def test_refuses_values_that_do_not_fit_their_yaml_tag(write, value: str) -> None:
    """PyYAML raises errors of several classes for these."""
    assert "the value is not valid YAML" in refused(changes=[f"encoder.name={value}"])
    path = write(f"encoder: {{name: {value}}}")
    assert refused(path).startswith(f"{path}")


def test_refuses_a_value_nested_too_deeply() -> None:
    assert "the value is not valid YAML" in refused(changes=["encoder.name=" + "[" * 1000])


@pytest.mark.parametrize("change", ["training.epochs", "", "=3", ".=3", "training.=3", ".epochs=3", "a..b=3"])
def test_refuses_a_change_without_key_or_value(change: str) -> None:
    message = f"--set {change}: write it as KEY=VALUE, for example training.epochs=20"
    assert refused(changes=[change]) == message


@given(st.text(max_size=20), st.sampled_from(["encoder.name", "training.epochs", "method", "a.b", "encoder"]))
def test_any_value_is_accepted_or_refused(text: str, key: str) -> None:
    try:
        Config.compose(changes=[f"{key}={text}"])
    except UsageError as error:
        assert str(error)  # noqa: PT017 - whatever else is raised fails the test


some_keys = st.sampled_from(["method", "name", "encoder", "lstm", "training", "x"])
some_trees = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(some_keys, inner, max_size=3),
    max_leaves=6,
)


@given(some_trees)
def test_any_file_is_accepted_or_refused(tmp_path, tree) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(tree), encoding="utf-8")
    try:
        Config.compose(path)
    except UsageError as error:
        assert str(path) in str(error)  # noqa: PT017


# After training


@pytest.fixture
def change(tmp_path):
    """Return a function that changes prediction settings of a saved model, as `--set` does."""
    config = Config.parse({"predict": {"select": "nested"}, "training": {"epochs": 5}})
    (tmp_path / CONFIG_FILE).write_text(format_config(config, ["PER"], Temperature()), encoding="utf-8")
    return lambda changes: config.predict.with_changes(parse_prediction_changes(tmp_path, changes))


def test_only_prediction_settings_can_change_after_training(change) -> None:
    settings = change(["predict.select=keep-all", "predict.batch_size=3"])
    assert (settings.select, settings.batch_size) == ("keep-all", 3)
    assert change([]).select == "nested"
    for wrong in ("training.epochs=3", "predict", "predict={batch_size: 3}", "predictor.a=1", "x"):
        assert refused([wrong], by=change) == (
            f"--set {wrong}: only prediction settings of a trained model can be changed: "
            "predict.select, predict.threshold, predict.trim, predict.batch_size"
        )


def test_changes_after_training_are_checked_too(change) -> None:
    assert re.match(r"predict\.batch_size: .*, not 0$", refused(["predict.batch_size=0"], by=change))
    assert "did you mean predict.select?" in refused(["predict.selec=flat"], by=change)
    assert "write it as KEY=VALUE" in refused(["predict.select"], by=change)


def test_refuses_auto_after_training(change) -> None:
    """The training data, which determines the value, is no longer available."""
    message = "predict.select: auto is for training only; this model was trained with nested"
    assert refused(["predict.select=auto"], by=change) == message


@pytest.mark.parametrize(
    ("words", "language"),
    [
        (["Ada", "met", "Charles"], "en"),
        (list("北京市长"), "zh"),
        ([*"北京市长", "Ada"], "zh"),
        ([*"北京", "Ada", "met"], "en"),  # half of them is not most
        (["北京", "市长"], "en"),  # words of several characters: not split into characters
        ([], "en"),
    ],
)
def test_language_is_detected_from_the_training_words(words: list[str], language: str) -> None:
    sentences = [Sentence(words)]
    assert Config.parse({}).text.fit_to(sentences).language == language
    config = Config.parse({"text": {"language": "de"}})
    assert config.text.fit_to(sentences).language == "de"


# Files that would exhaust memory or time


def bomb(levels: int = 40, merge: bool = False) -> str:
    """Return a few lines that expand to 2 ** levels values."""
    lines = ["a0: &a0 {x: 1}" if merge else "a0: &a0 [x, x]"]
    for level in range(1, levels):
        lines.append(
            f"a{level}: &a{level} {{<<: [*a{level - 1}, *a{level - 1}]}}"
            if merge
            else f"a{level}: &a{level} [*a{level - 1}, *a{level - 1}]"
        )
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text", [bomb(), bomb(merge=True), "encoder: &a {name: *a}", "a: &a [*a]", f"a: {'59:' * 300_000}1"]
)
def test_refuses_yaml_that_expands_too_much(write, text: str) -> None:
    path = write(text)
    assert refused(path).startswith(f"{path}: this is not valid YAML: too large")


def test_aliases_are_allowed(write) -> None:
    config = Config.compose(write("training: {batch_size: &size 7}\npredict: {batch_size: *size}"))
    assert config.predict.batch_size == 7


@pytest.mark.parametrize("text", ["a: " + "{b: " * 100_000, "- " * 100_000])
def test_refuses_a_file_nested_too_deeply(write, text: str) -> None:
    path = write(text)
    assert refused(path) == f"{path}: this is not valid YAML: nested too deeply"


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no such device")
def test_refuses_an_endless_file() -> None:
    assert refused(Path("/dev/zero")).startswith("/dev/zero: this file has more than ")


def test_messages_shorten_long_values(write) -> None:
    path = write(f"encoder: {{pooling: {'x' * 9000}}}\ntraining: {[1] * 1000}\n{'y' * 1000}: 1")
    message = refused(path)
    assert "encoder.pooling" in message
    assert len(message) < 2000


def test_message_about_many_problems_has_10_lines(write) -> None:
    message = refused(write("\n".join(f"key{number}: 1" for number in range(5000))))
    assert len(message.splitlines()) == 10
