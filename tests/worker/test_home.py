"""A worker's home: made private, locked by one process at a time, and its files whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from millpond_worker import control
from millpond_worker.errors import WorkerConfigError, WorkerNotRunningError, WorkerRunningError
from millpond_worker.home import Home, HomeLock, default_home, is_running, read_json, write_json

HOLD = (
    "import sys\nfrom pathlib import Path\nfrom millpond_worker.home import Home, HomeLock\n"
    "with HomeLock(Home(Path(sys.argv[1]))):\n    print('held', flush=True)\n    sys.stdin.read()\n"
)


def holder_of(folder: Path) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    return child


def end(child: subprocess.Popen[str]) -> None:
    child.kill()
    child.communicate()


# THE LOCK


def test_lock_held_twice_in_one_process_is_refused(tmp_path: Path) -> None:
    with HomeLock(Home(tmp_path)):
        with pytest.raises(WorkerRunningError) as caught, HomeLock(Home(tmp_path)):
            pass
        assert is_running(Home(tmp_path)), "the refused one took the lock with it"
    assert caught.value.fields == {"home": str(tmp_path), "process": str(os.getpid())}
    assert (caught.value.exit_code, "--home" in caught.value.remedy) == (3, True)


def test_O02_lock_of_a_killed_process_is_free_at_once(tmp_path: Path) -> None:
    end(holder_of(tmp_path))

    assert (tmp_path / "worker.lock").read_text() != ""
    assert not is_running(Home(tmp_path))
    with HomeLock(Home(tmp_path)):
        assert (tmp_path / "worker.lock").read_text() == str(os.getpid())


def test_lock_is_let_go_when_its_block_raises(tmp_path: Path) -> None:
    with pytest.raises(KeyError), HomeLock(Home(tmp_path)):
        raise KeyError

    assert not is_running(Home(tmp_path))


def test_lock_makes_a_folder_only_its_owner_enters(tmp_path: Path) -> None:
    with HomeLock(Home(tmp_path / "a" / "b")):
        assert (tmp_path / "a" / "b").stat().st_mode & 0o077 == 0


def test_lock_below_a_file_is_refused_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(WorkerConfigError, match="cannot be made") as caught, HomeLock(Home(tmp_path / "file" / "home")):
        pass
    assert "--home" in caught.value.remedy


def test_asking_whether_it_runs_leaves_no_trace(tmp_path: Path) -> None:
    assert not is_running(Home(tmp_path / "none"))
    assert list(tmp_path.iterdir()) == []


def test_asking_whether_it_runs_never_takes_the_lock_away(tmp_path: Path) -> None:
    child = holder_of(tmp_path)
    try:
        assert [is_running(Home(tmp_path)) for _ in range(20)] == [True] * 20
    finally:
        end(child)


# PATHS


def test_default_home_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLPOND_HOME", str(tmp_path))
    assert default_home() == Home(tmp_path / "worker")
    monkeypatch.delenv("MILLPOND_HOME")
    monkeypatch.setenv("HOME", "/nowhere")
    assert default_home() == Home(Path("/nowhere/.config/millpond/worker"))


def test_path_of_the_settings_starts_at_home_unless_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/nowhere")
    home = Home(tmp_path)
    assert [home.path("k.json"), home.path("/etc/k"), home.path("~/k")] == [
        tmp_path / "k.json",
        Path("/etc/k"),
        Path("/nowhere/k"),
    ]


# JSON FILES


def test_json_written_is_read_and_leaves_no_draft(tmp_path: Path) -> None:
    write_json(tmp_path / "a", {"x": [1]})
    write_json(tmp_path / "a", {"x": [2]})

    assert read_json(tmp_path / "a") == {"x": [2]}
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_json_that_cannot_be_written_leaves_the_old(tmp_path: Path) -> None:
    write_json(tmp_path / "a", 1)

    with pytest.raises(TypeError):
        write_json(tmp_path / "a", object())
    assert read_json(tmp_path / "a") == 1


@pytest.mark.parametrize("data", [None, b"", b"{", b"\xff"])
def test_json_missing_or_damaged_reads_as_nothing(tmp_path: Path, data: bytes | None) -> None:
    if data is not None:
        (tmp_path / "a").write_bytes(data)
    assert read_json(tmp_path / "a") is None


# COMMANDS TO A RUNNING WORKER


def test_ask_without_a_worker_is_refused_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(WorkerNotRunningError) as caught:
        control.ask(Home(tmp_path), "drain", 30)

    assert "millpond-worker up" in caught.value.remedy
    assert list((tmp_path / "control").iterdir()) == []


def test_ask_of_a_worker_that_does_not_answer_ends_in_time(tmp_path: Path) -> None:
    with HomeLock(Home(tmp_path)), pytest.raises(WorkerNotRunningError):
        control.ask(Home(tmp_path), "drain", 0.3)
    assert list((tmp_path / "control").iterdir()) == []


def test_ask_is_taken_once_and_answered(tmp_path: Path) -> None:
    home, taken = Home(tmp_path), list[str]()

    def worker() -> None:
        while not taken:
            for answer, command in control.take(home):
                taken.append(command)
                write_json(answer, {"said": command})

    with HomeLock(home):
        thread = threading.Thread(target=worker, daemon=True)
        thread.start()
        assert control.ask(home, "drain", 10) == {"said": "drain"}
        thread.join(5)
    assert taken == ["drain"]
    assert control.take(home) == []


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"command": 1}', b"\xff"])
def test_take_of_a_damaged_request_drops_it(tmp_path: Path, data: bytes) -> None:
    home = Home(tmp_path)
    home.control.mkdir()
    (home.control / "x.ask").write_bytes(data)

    assert control.take(home) == []
    assert list(home.control.iterdir()) == []
