"""Files that are complete or absent, even after a kill, and the messages about a full disk."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost.data.output import (
    TEMPORARY,
    WriteError,
    open_output,
    raise_write_errors,
    remove_leftovers,
    temporary_folder,
    whole_file,
    whole_folder,
)
from fencepost.errors import UsageError
from tests.limits import file_size_limit

KILLED = """
import os, signal, sys
from pathlib import Path
from fencepost.data.output import whole_file, whole_folder
with {}(Path(sys.argv[1])) as made:
    {}
    os.kill(os.getpid(), signal.SIGKILL)
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# Killed


@pytest.mark.parametrize(
    ("maker", "act"),
    [
        ("whole_file", 'made.write(b"half"); made.flush()'),
        ("whole_folder", '(made / "a.txt").write_text("half")'),
    ],
)
def test_next_write_removes_leftovers_of_a_killed_process(maker: str, act: str, tmp_path: Path) -> None:
    code = KILLED.format(maker, act)
    process = subprocess.run([sys.executable, "-c", code, tmp_path / "out"], check=False)
    assert process.returncode == -signal.SIGKILL
    (left,) = names(tmp_path)
    assert left.startswith(TEMPORARY)
    with whole_file(tmp_path / "other") as stream:
        stream.write(b"whole")
    assert names(tmp_path) == ["other"]


def test_keeps_files_of_others(tmp_path: Path) -> None:
    others = [".fencepost-abcdefgh", ".fencepost-notes", ".saving-abc", "fencepost-abcdefgh"]
    for name in others[:1]:
        (tmp_path / name).write_text("a file")
    for name in others[1:]:
        (tmp_path / name).mkdir()
    remove_leftovers(tmp_path)
    assert names(tmp_path) == others


def test_removes_leftovers_of_older_versions(tmp_path: Path) -> None:
    (tmp_path / ".saving-abc").mkdir()
    (tmp_path / ".saving-abc" / "model.safetensors").write_text("half")
    remove_leftovers(tmp_path, ".saving-*")
    assert names(tmp_path) == []


def test_keeps_temporary_files_in_use(tmp_path: Path) -> None:
    with whole_file(tmp_path / "one") as one:
        one.write(b"1")
        with whole_file(tmp_path / "other") as other:
            other.write(b"2")
        remove_leftovers(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"one": b"1", "other": b"2"}


def test_recreates_a_folder_removed_before_its_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fencepost.data import output

    lock, locked = output._lock, list[Path]()

    def lock_late(path: Path, *, wait: bool) -> int:
        descriptor = lock(path, wait=wait)
        if not locked:
            path.rmdir()
        locked.append(path)
        return descriptor

    monkeypatch.setattr(output, "_lock", lock_late)
    with temporary_folder(tmp_path) as folder:
        assert folder.is_dir()
        assert folder != locked[0]
    assert names(tmp_path) == []


def test_keeps_links_to_folders_of_others(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "file").write_text("x")
    (tmp_path / ".fencepost-link").symlink_to(tmp_path / "theirs")
    remove_leftovers(tmp_path)
    assert (tmp_path / "theirs" / "file").exists()


# A full disk


def fill_file(path: Path) -> None:
    with whole_file(path) as stream:
        stream.write(b"x" * 100_000)


def fill_folder(path: Path) -> None:
    with whole_folder(path) as folder:
        (folder / "document.txt").write_text("x" * 100_000)


def append(path: Path) -> None:
    with open_output(path, "ab") as stream:
        stream.write(b"x" * 100_000)


@pytest.mark.parametrize("fill", [fill_file, fill_folder, append])
def test_full_disk_message_names_the_file(fill: Callable[[Path], None], tmp_path: Path) -> None:
    with file_size_limit(1000), pytest.raises(WriteError) as caught:
        fill(tmp_path / "out")
    assert str(caught.value) == f"{tmp_path / 'out'}: cannot be written: File too large"
    assert not [name for name in names(tmp_path) if name.startswith(TEMPORARY)]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_reports_a_full_device() -> None:
    with pytest.raises(WriteError, match=r"^/dev/full: cannot be written: No space left on device$"):
        fill_file(Path("/dev/full"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("command", ["convert sample:dev - --to jsonl", "inspect sample:dev --json"])
def test_reports_a_full_standard_output(command: str) -> None:
    code = "from fencepost.cli import main; main()"
    with Path("/dev/full").open("wb") as full:
        process = subprocess.run(
            [sys.executable, "-c", code, *command.split()],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert process.stderr == "fencepost: standard output: cannot be written: No space left on device\n"
    assert process.returncode == 1


def test_read_errors_are_not_reported_as_write_errors(tmp_path: Path) -> None:
    for maker in (whole_file, whole_folder):
        with pytest.raises(FileNotFoundError, match=r"input"), maker(tmp_path / "out"):  # type: ignore[attr-defined]
            (tmp_path / "input").read_text()


def test_target_that_cannot_be_created_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="none/out: cannot be written: No such file or directory"):
        fill_file(tmp_path / "none" / "out")


def test_closed_pipe_is_not_a_write_error() -> None:
    with pytest.raises(BrokenPipeError), raise_write_errors("out"):
        raise BrokenPipeError
