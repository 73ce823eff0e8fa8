"""The deployment's journal on disk, and the folder that it lies in."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from millpond.chain.address_book import AddressBook, DeploymentSettings
from millpond.chain.deploy.errors import DeploymentConflictError, DeploymentJournalError, DeploymentRunningError
from millpond.chain.deploy.journal import (
    DeployJournal,
    FileDeployJournal,
    MemoryDeployJournal,
    Progress,
    check_same,
    progress,
)
from millpond.chain.deploy.planner import Goal
from millpond.chain.deploy.site import Site
from millpond.chain.errors import AddressBookError
from millpond.chain.keys import development_wallet
from millpond.protocol.ids import ZERO_BYTES32, Bytes32

GOAL = Goal(DeploymentSettings(development_wallet(0, 31337).address))
HERE, ELSEWHERE = Bytes32("0x" + "aa" * 32), Bytes32("0x" + "bb" * 32)


def book(chain_id: int) -> AddressBook:
    return AddressBook(chain_id, ZERO_BYTES32, 5, GOAL.settings, dict(GOAL.addresses()), {})


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_journal_returns_what_was_appended_in_order(tmp_path: Path, kind: str) -> None:
    def use(journal: DeployJournal) -> None:
        for number in range(3):
            journal.append({"kind": "begin", "step": number})
        assert [record["step"] for record in journal.records()] == [0, 1, 2]

    if kind == "memory":
        use(MemoryDeployJournal())
        return
    with FileDeployJournal(tmp_path / "journal") as journal:
        use(journal)
    with FileDeployJournal(tmp_path / "journal") as again:
        assert len(again.records()) == 3


def test_torn_last_line_is_dropped_and_the_next_record_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_text('{"kind": "plan"}\n{"kind": "be')
    with FileDeployJournal(path) as journal:
        journal.append({"kind": "done"})
        assert [record["kind"] for record in journal.records()] == ["plan", "done"]


def test_damaged_journal_raises_and_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_text('{"kind": "plan"\n{"kind": "begin"}\n')
    with FileDeployJournal(path) as journal, pytest.raises(DeploymentJournalError, match="journal"):
        journal.records()


def test_second_command_in_one_folder_is_refused(tmp_path: Path) -> None:
    with FileDeployJournal(tmp_path / "journal"), pytest.raises(DeploymentRunningError):
        FileDeployJournal(tmp_path / "journal").__enter__()
    with FileDeployJournal(tmp_path / "journal"):
        pass


def test_disk_error_raises_before_anything_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with FileDeployJournal(tmp_path / "journal") as journal:
        monkeypatch.setattr("os.write", full)
        with pytest.raises(DeploymentJournalError, match="No space left"):
            journal.append({"kind": "plan"})


def test_progress_of_another_chain_of_the_same_id_is_none() -> None:
    records = [{"kind": "plan", "genesis": ELSEWHERE, "addresses": {"Escrow": "0x1"}}]
    assert progress(records, HERE) == Progress()


def test_progress_folds_plan_steps_and_end() -> None:
    addresses = dict(GOAL.addresses())
    records = [
        {"kind": "fees", "genesis": HERE, "cap": 7},
        {"kind": "plan", "genesis": HERE, "addresses": addresses},
        {"kind": "begin", "genesis": HERE, "step": "Escrow"},
        {"kind": "done", "genesis": HERE, "step": "Escrow", "block": 9},
    ]
    assert progress(records, HERE) == Progress(addresses, {"Escrow": 9}, is_finished=False, fee_cap=7)
    records.append({"kind": "finished", "genesis": HERE})
    assert progress(records, HERE) == Progress(addresses, {"Escrow": 9}, is_finished=True)
    records.append({"kind": "replaced", "genesis": HERE})
    assert progress(records, HERE) == Progress()


def test_other_settings_than_the_known_deployment_raise() -> None:
    check_same(GOAL.addresses(), GOAL)
    other = Goal(dataclasses.replace(GOAL.settings, challenge_window=8 * 86_400))
    with pytest.raises(DeploymentConflictError, match="Attestations"):
        check_same(GOAL.addresses(), other)


def test_address_book_of_another_chain_is_refused(tmp_path: Path) -> None:
    site = Site(tmp_path, 424242)
    book(1).save(site.book)
    with pytest.raises(AddressBookError, match="of chain 1, not of 424242"):
        site.known()


def test_address_book_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path, 5)
    book(5).save(site.book)
    before = site.book.read_text()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(AddressBookError, match="No space left"):
        dataclasses.replace(book(5), block=6).save(site.book)
    assert site.book.read_text() == before
    assert json.loads(before)["block"] == 5


def test_development_stack_s_book_stands_in_until_there_is_one(tmp_path: Path) -> None:
    earlier = tmp_path / "dev.json"
    site = Site(tmp_path / "deployments", 31337, earlier)
    with pytest.raises(AddressBookError):
        site.load()
    book(31337).save(earlier)
    assert site.load().block == 5
    dataclasses.replace(book(31337), block=6).save(site.book)
    assert site.load().block == 6
