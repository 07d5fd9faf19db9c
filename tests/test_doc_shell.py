"""The `sh` blocks of the documentation, run in a shell on a folder with the files that they name.

Further options make training runs small. Commands that need a network, a cluster or GPUs are listed here;
`test_doc_commands` parses these too, and runs the serving page.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from fencepost.analysis.audit.suggestions import Suggestion
from fencepost.config import Config
from fencepost.data import read, write
from fencepost.data.entity import Sentence
from fencepost.training import train
from tests.runtime import models
from tests.test_doc_commands import fenced
from tests.test_docs import PAGES

ELSEWHERE = (
    "pip install ",  # already installed
    "git clone ",
    "accelerate launch --multi_gpu ",
    "torchrun --nnodes 2 ",
    "--encoder dmis-lab/",  # a name on the hub
    "--ray-address auto",
    "fencepost serve ",  # does not end
    "curl ",  # needs a server
    *("docker ", "kubectl ", "sudo "),
)
SMALL = {
    "train": "--epochs 1 --batch-size 8",
    "sweep": "--epochs 1 --batch-size 8 --seeds 1",
    "tune": "--epochs 1 --trials 2",
    "audit": "--epochs 1 --batch-size 8 --folds 2",
    "adapt": "--epochs 1 --batch-size 8",
    "distil": "--epochs 1 --batch-size 8",
}
SCRATCH = "--encoder scratch --set encoder.lstm.size=8"
PLACES = {"RECIPE": "boundary-smoothing/conll2003", "--nproc-per-node 4": "--nproc-per-node 2"}
COMMANDS = re.compile(r"fencepost (adapt|distil|train|sweep|tune|audit(?=.* --out )) ")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    """Folder of small corpora, briefly trained models, texts, and files of other programs."""
    folder: Path = tmp_path_factory.mktemp("prepared")
    parts = {name: list(islice(read(f"sample:{name}"), 24)) for name in ("train", "dev", "test")}
    for name, sentences in parts.items():
        write(sentences, folder / f"{name}.jsonl")
        write(sentences, folder / f"{name}.conll", prefer="outermost")
    write(parts["test"], folder / "spans-of-another-program.jsonl")
    write(_as_in_genia(parts["dev"]), folder / "GENIAcorpus3.02p.xml")
    for name, part in (("noisy", "train"), ("new", "train"), ("old-test", "test")):
        write(parts[part], folder / f"{name}.jsonl")
    gold = next(entity for entity in parts["train"][0].entities)
    accepted = Suggestion("spurious", 0, gold, None, 0.5, 0.0).to_dict(1, parts["train"][0])
    (folder / "accepted.jsonl").write_text(json.dumps({**accepted, "accept": True}), encoding="utf-8")
    training = list(islice(read("sample:train"), 150))
    train(_small("boundary-smoothing", epochs=10), training, folder / "my-model", parts["dev"], quiet=True)
    train(_small("diffusion", epochs=1), parts["train"], folder / "diffusion-model", parts["dev"], quiet=True)
    for name in ("other-model", "old-model", "plain", "smoothed"):
        shutil.copytree(folder / "my-model", folder / name)
    models.save_bert(folder / "my-encoder")
    texts = "".join(f"{sentence.text}\n" for sentence in parts["test"])
    (folder / "texts").mkdir()
    for name in ("texts.txt", "texts/a.txt", "texts/b.txt"):
        (folder / name).write_text(texts, encoding="utf-8")
    return folder


def _as_in_genia(sentences: Iterable[Sentence]) -> Iterator[Sentence]:
    names = {"person": "DNA_part", "organization": "RNA_part", "place": "protein_part"}
    for sentence in sentences:
        yield sentence.with_entities(
            replace(entity, type=names.get(entity.type, "cell_line")) for entity in sentence.entities
        )


def _small(method: str, epochs: int) -> Config:
    encoder = {"name": "scratch", "lstm": {"size": 64, "dropout": 0.0}}
    training = {"epochs": epochs, "batch_size": 4, "learning_rate": 0.01}
    return Config.parse({"method": {"name": method}, "encoder": encoder, "training": training})


def runnable(block: str) -> Iterator[str]:
    """Yield the commands of a block that can run here, with options for small training runs."""
    for line in block.replace("\\\n", " ").splitlines():
        if any(other in line for other in ELSEWHERE):
            continue
        command, _, _ = line.partition("  #")
        for name, here in PLACES.items():
            command = command.replace(name, here)
        if kind := COMMANDS.search(command):
            (out,) = re.findall(r"--out ([\w-]+)", command)
            yield f"rm -rf {out}"
            has_encoder = any(part in command for part in ("--encoder", "--from", "fencepost adapt"))
            command = f"{command} {SMALL[kind[1]]}" + ("" if has_encoder else f" {SCRATCH}")
        if "fencepost export" in command:  # without entities, there is nothing to check
            yield "rm -rf my-model && cp -r other-model my-model"
        yield command.replace("| jq .entities", "")  # jq may be missing


RUN = [
    page
    for page in PAGES
    if page.name != "serving.md" and any(list(runnable(block)) for block in fenced(page, "sh"))
]


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_shell_blocks_run(page, prepared, tmp_path):
    folder = tmp_path / "work"
    shutil.copytree(prepared, folder)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for block in fenced(page, "sh"):
        for command in runnable(block):
            result = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", command],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert result.returncode == 0, f"$ {command}\n{result.stderr}"
