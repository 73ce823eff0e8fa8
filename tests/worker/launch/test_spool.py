"""Folders shared with containers: what goes in, what may come out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from millpond_worker.launch.outcomes import breach_of, error_of
from millpond_worker.launch.port import Limits, TaskOutcome, TaskStatus
from millpond_worker.launch.spool import InputPathError, Owner, Room, Usage, measure, owner_of, remove_tree, safe_name

MINE = Owner(os.geteuid(), os.getegid(), False)


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path / "lease", MINE).furnish({})


def test_room_inputs_are_read_only_copies(room: Room, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    room.add_inputs(room.inputs, {"x/a": tmp_path / "a"})
    assert (room.inputs / "x/a").stat().st_mode & 0o777 == 0o444
    (tmp_path / "a").write_bytes(b"2")
    assert (room.inputs / "x/a").read_bytes() == b"1"


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../a", "x/../../a", "a\0b"])
def test_room_input_outside_is_refused(room: Room, name: str) -> None:
    with pytest.raises(InputPathError) as caught:
        room.add_inputs(room.inputs, {name: Path(__file__)})
    assert caught.value.fields["name"] == name


def test_furnish_that_fails_leaves_nothing(tmp_path: Path) -> None:
    fresh = Room(tmp_path / "lease", MINE)
    with pytest.raises(InputPathError):
        fresh.furnish({"a": tmp_path / "none"})
    assert not fresh.folder.exists()


def test_S06_seal_follows_no_link_and_takes_only_regular_files(room: Room, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("key")
    (room.outputs / "good").write_text("result")
    (room.outputs / "link").symlink_to(tmp_path / "secret")
    (room.outputs / "folder").symlink_to(tmp_path)
    os.mkfifo(room.outputs / "pipe")
    sealed = room.seal("t-1", room.outputs)
    assert [(file.name, file.path.read_text()) for file in sealed] == [("good", "result")]


def test_seal_is_a_copy_the_container_cannot_change(room: Room) -> None:
    (room.outputs / "a").write_text("before")
    (sealed,) = room.seal("t-1", room.outputs)
    (room.outputs / "a").write_text("after")
    assert sealed.path.read_text() == "before"


def test_measure_counts_sizes_files_and_the_first_strange_thing(room: Room) -> None:
    (room.outputs / "deep").mkdir()
    (room.outputs / "deep/a").write_bytes(bytes(8192))
    assert measure(room.outputs) == Usage(8192, 2, "")
    (room.outputs / "deep/l").symlink_to("/etc/passwd")
    assert measure(room.outputs).strange == "deep/l"


def test_S02_measure_sparse_file_counts_with_its_full_size(room: Room) -> None:
    with (room.outputs / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    assert measure(room.outputs).size == 1 << 40


def test_remove_tree_removes_closed_folders_and_leaves_link_targets(tmp_path: Path) -> None:
    target = tmp_path / "kept"
    target.mkdir()
    folder = tmp_path / "gone"
    (folder / "closed").mkdir(parents=True)
    (folder / "closed/file").write_text("x")
    (folder / "link").symlink_to(target)
    (folder / "closed").chmod(0)
    remove_tree(folder)
    assert not folder.exists()
    assert target.exists()
    remove_tree(folder)


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "x" * 200, "a\0b"])
def test_safe_name_hostile_name_becomes_a_plain_folder(name: str) -> None:
    assert safe_name(name).isalnum()
    assert safe_name(name) != safe_name(name + "x")


def test_owner_of_root_worker_gives_leases_users_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    first, second = owner_of("lease-1"), owner_of("lease-2")
    assert first != second
    assert first == owner_of("lease-1")
    assert 700_000 <= first.uid < 800_000
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert owner_of("lease-1").is_other is False


@pytest.mark.parametrize(
    ("usage", "word"),
    [
        (Usage(2 << 20, 1), "1 MiB"),
        (Usage(0, 6), "5 files"),
        (Usage(0, 1, "pipe"), "regular"),
        (Usage(1 << 20, 5), None),
    ],
)
def test_breach_of_names_what_is_too_much(usage: Usage, word: str | None) -> None:
    found = breach_of(usage, Limits(1000, 64, out_mib=1, out_files=5))
    assert (found is None) if word is None else (found is not None and word in found.message)


@pytest.mark.parametrize("status", [status for status in TaskStatus if status is not TaskStatus.OK])
def test_error_of_every_bad_end_has_a_remedy_and_an_exit_code(status: TaskStatus) -> None:
    error = error_of(TaskOutcome("t", 1, status))
    assert error is not None
    assert error.remedy
    assert error.exit_code in (6, 8)
    assert error.fields["task"] == "t"
