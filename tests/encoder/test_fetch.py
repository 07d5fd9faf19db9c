"""The sources of an encoder: minilm with a checked hash, a folder, the hub; and refusals."""

import json
import socket
import time
from pathlib import Path

import pytest
import torch
from transformers import BertConfig

from fencepost.encoder import pretrained as module
from fencepost.encoder.pretrained import MINILM_HUB, MINILM_PACKAGE, Pretrained, _resolve_name
from fencepost.encoder.settings import EncoderSettings
from fencepost.errors import UsageError
from tests.encoder import tiny


def fetch(name: str | Path) -> Pretrained:
    return Pretrained.fetch(EncoderSettings(name=str(name)), prompts=0)


@pytest.fixture
def no_network(monkeypatch):
    """Let every lookup of a host fail; return the hosts and the requested waiting times."""
    calls: list[str | float] = []

    def unknown(host, *_, **__):
        calls.append(host)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    monkeypatch.setattr(time, "sleep", calls.append)
    return calls


@pytest.fixture
def hub_without_answer(monkeypatch):
    """Prevent requests to the real hub, even on a machine with a network."""
    monkeypatch.setattr(module, "_is_hub_offline", lambda: True)


def test_minilm_comes_from_its_package(minilm, minilm_folder):
    assert _resolve_name("minilm") == str(minilm_folder)
    assert (minilm.width, minilm.prompt_width, minilm.room) == (384, 384, 510)
    assert (minilm.subwords.first, minilm.subwords.last) == ((101,), (102,))
    assert (minilm.subwords.pad, minilm.subwords.unknown) == (0, 100)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Model folder of another package that claims to have minilm."""
    monkeypatch.setattr(module, "MINILM_PACKAGE", "minilm_of_a_stranger")
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "minilm_of_a_stranger" / "model"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    return folder


def test_refuses_a_package_with_other_weights(package, minilm_folder):
    weights = bytearray((minilm_folder / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (package / "model.safetensors").write_bytes(weights)
    with pytest.raises(UsageError, match=r"not the weights of .*MiniLM.* SHA-256 .* reinstall") as caught:
        fetch("minilm")
    assert str(package / "model.safetensors") in str(caught.value)
    weights[-1] ^= 1
    module._compute_sha256.cache_clear()
    (package / "model.safetensors").write_bytes(weights)
    assert _resolve_name("minilm") == str(package)


def test_refuses_a_package_without_weights(package):
    with pytest.raises(UsageError, match="reinstall"):
        fetch("minilm")


def test_minilm_without_its_package_comes_from_the_hub(monkeypatch):
    monkeypatch.setattr(module, "MINILM_PACKAGE", f"{MINILM_PACKAGE}_that_is_not_there")
    assert _resolve_name("minilm") == MINILM_HUB


def test_other_names_are_not_changed():
    assert _resolve_name("bert-base-cased") == "bert-base-cased"


@pytest.mark.parametrize("name", ["no-such/encoder", "bert-bse-cased"])
def test_refuses_an_unknown_name_without_waiting_for_the_network(no_network, caplog, capfd, name):
    """The client of the hub would try six times and wait for 23 seconds."""
    with pytest.raises(UsageError) as caught:
        fetch(name)
    message = str(caught.value)
    assert message.startswith(f"encoder.name: {name!r} cannot be loaded: ")
    assert "give minilm, scratch, a folder" in message
    assert "\n" not in message
    assert len(no_network) <= 2  # ours, and one of the client without a second attempt
    assert all(isinstance(one, str) for one in no_network)  # nothing waited
    assert "etry" not in caplog.text + "".join(capfd.readouterr())


@pytest.mark.parametrize("name", ["./no/such/folder", "/no/such/folder", "a b", "x" * 300])
def test_refuses_a_name_that_is_neither_a_folder_nor_on_the_hub(hub_without_answer, name):
    with pytest.raises(UsageError, match=r"cannot be loaded: .*give minilm, scratch, a folder"):
        fetch(name)


def test_missing_folder_is_named_as_such(hub_without_answer):
    with pytest.raises(UsageError, match="there is no such folder, and it is not a valid name on the hub"):
        fetch("./no/such/folder")


@pytest.mark.parametrize("away", [True, False])
def test_an_offline_hub_is_not_queried(monkeypatch, away):
    request = {}

    def from_pretrained(name, **options):
        request.update(options, name=name)
        raise OSError("no such\nencoder")

    def read_config(name, **options):
        request["of config"] = options
        return BertConfig()

    monkeypatch.setattr(module, "_is_hub_offline", lambda: away)
    monkeypatch.setattr(module.AutoConfig, "from_pretrained", read_config)
    monkeypatch.setattr(module.AutoModel, "from_pretrained", from_pretrained)
    with pytest.raises(UsageError, match=r"'some/encoder' cannot be loaded: no such \(give"):
        fetch("some/encoder")
    assert request["name"] == "some/encoder"
    assert request["local_files_only"] is away
    assert request["trust_remote_code"] is False
    assert request["use_safetensors"] is True
    assert request["of config"] == {"local_files_only": away, "trust_remote_code": False}


def test_error_without_a_message_is_reported_by_its_class(monkeypatch, hub_without_answer):
    def from_pretrained(name, **options):
        raise KeyError

    monkeypatch.setattr(module.AutoConfig, "from_pretrained", from_pretrained)
    with pytest.raises(UsageError, match="cannot be loaded: KeyError"):
        fetch("some/encoder")


class Session:
    def __init__(self, error: Exception | None) -> None:
        self.error = error

    def head(self, url: str, timeout: float) -> None:
        assert url.startswith("https://")
        if self.error:
            raise self.error


@pytest.mark.parametrize("error", [None, ConnectionError(), TimeoutError()])
def test_hub_is_offline_if_it_does_not_answer(monkeypatch, error):
    monkeypatch.setattr(module, "get_session", lambda: Session(error))
    assert module._is_hub_offline() == (error is not None)


def test_loading_a_folder_needs_no_network(no_network, tmp_path):
    tiny.save_encoder("roberta", tmp_path)
    assert fetch(tmp_path).width == 16
    assert no_network == []


def test_weights_are_read_as_float32(tmp_path):
    transformer = tiny.save_encoder("distilbert", tmp_path)
    transformer.to(torch.bfloat16).save_pretrained(tmp_path)
    assert {one.dtype for one in fetch(tmp_path).parameters()} == {torch.float32}


DAMAGE = {
    "empty": lambda folder: [path.unlink() for path in folder.iterdir()],
    "no config": lambda folder: (folder / "config.json").unlink(),
    "half a config": lambda folder: (folder / "config.json").write_text('{"model_type"'),
    "unknown architecture": lambda folder: (folder / "config.json").write_text('{"model_type": "oracle"}'),
    "no weights": lambda folder: (folder / "model.safetensors").unlink(),
    "half of the weights": lambda folder: (folder / "model.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0{"),
    "no tokenizer": lambda folder: [path.unlink() for path in folder.glob("tokenizer*.json")],
    "half a tokenizer": lambda folder: (folder / "tokenizer.json").write_text('{"version": "1.0", "mod'),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_refuses_a_damaged_folder(hub_without_answer, tmp_path, damage):
    tiny.save_encoder("roberta", tmp_path)
    DAMAGE[damage](tmp_path)
    with pytest.raises(UsageError, match=r"^encoder.name: ") as caught:
        fetch(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_refuses_pickled_weights(hub_without_answer, tmp_path):
    transformer = tiny.save_encoder("roberta", tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save(transformer.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(UsageError, match="cannot be loaded"):
        fetch(tmp_path)


def test_code_in_the_folder_is_not_run(hub_without_answer, tmp_path):
    tiny.save_encoder("roberta", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {"model_type": "oracle", "auto_map": {"AutoConfig": "own.Own", "AutoModel": "own.Own"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Own: pass\n")
    with pytest.raises(UsageError, match="cannot be loaded"):
        fetch(tmp_path)
    assert not (tmp_path / "ran").exists()


def test_refuses_a_tokenizer_without_a_fast_form():
    with pytest.raises(
        UsageError, match=r"'some/encoder' is written in Python; use an encoder with a tokenizer.json"
    ):
        module._make_subwords(object(), "some/encoder")
