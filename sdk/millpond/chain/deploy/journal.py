"""The deployment's journal: each step is written down before it is sent and after it is seen, so that a killed command can go on.

A file of one JSON object per line. It says what was meant and what came of it; the signed transactions are in the sender's outbox.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, Self

from millpond.chain.deploy.errors import DeploymentConflictError, DeploymentJournalError, DeploymentRunningError
from millpond.chain.deploy.planner import Goal
from millpond.protocol.ids import Address, Bytes32

Record = dict[str, Any]


class DeployJournal(Protocol):
    """Records in order. `append` returns only when the record survives a power cut."""

    def records(self) -> list[Record]: ...

    def append(self, record: Record) -> None:
        """Raises `DeploymentJournalError`."""
        ...


class MemoryDeployJournal:
    """Records that live as long as the object."""

    def __init__(self) -> None:
        self._records: list[Record] = []

    def records(self) -> list[Record]:
        return list(self._records)

    def append(self, record: Record) -> None:
        self._records.append(record)


class FileDeployJournal:
    """A context manager; one process at a time holds the file. Raises `DeploymentRunningError`, `DeploymentJournalError`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle = -1

    def __enter__(self) -> Self:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._close()
            raise DeploymentRunningError(f"another command is deploying from {self.path.parent}") from error
        except OSError as error:
            self._close()
            raise self._failed(error) from error
        self._drop_torn_line()
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def records(self) -> list[Record]:
        try:
            return [json.loads(line) for line in self.path.read_text().splitlines()]
        except OSError as error:
            raise self._failed(error) from error
        except ValueError as error:
            raise DeploymentJournalError(
                f"{self.path} is damaged: {error}",
                remedy="Move the file away and repeat the command: what is on the chain is found there.",
            ) from error

    def append(self, record: Record) -> None:
        line = (json.dumps(record, sort_keys=True) + "\n").encode()
        try:
            if os.write(self._handle, line) != len(line):
                raise DeploymentJournalError(f"{self.path} cannot be written: the disk is full")
            os.fsync(self._handle)
        except OSError as error:
            raise self._failed(error) from error

    def _drop_torn_line(self) -> None:
        """A crash, or a full disk, can leave half of the last line: nothing was done because of it."""
        text = self.path.read_bytes()
        whole = text.rfind(b"\n") + 1
        if whole < len(text):
            os.ftruncate(self._handle, whole)

    def _failed(self, error: OSError) -> DeploymentJournalError:
        return DeploymentJournalError(f"{self.path} cannot be used: {error.strerror}", path=str(self.path))

    def _close(self) -> None:
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


@dataclass(frozen=True, slots=True)
class Progress:
    """What the journal says of one chain. `addresses` are those of the newest plan, `blocks` of the steps that were seen.
    `fee_cap` is the most that this run offers, wei per gas; 0 for none of its own."""

    addresses: dict[str, Address] = field(default_factory=dict)
    blocks: dict[str, int] = field(default_factory=dict)
    is_finished: bool = False
    fee_cap: int = 0


def progress(records: Iterable[Record], genesis: Bytes32) -> Progress:
    """Folds the records of the chain that starts with `genesis`."""
    now = Progress()
    for record in records:
        if record.get("genesis") != genesis:
            continue
        match record["kind"]:
            case "plan":
                now = replace(now, addresses=record["addresses"], is_finished=False)
            case "fees":
                now = replace(now, fee_cap=record["cap"])
            case "done":
                now = replace(now, blocks={**now.blocks, record["step"]: record["block"]})
            case "finished":
                now = replace(now, is_finished=True, fee_cap=0)
            case "replaced":
                now = Progress()
    return now


def check_same(known: dict[str, Address], goal: Goal) -> None:
    """Raises `DeploymentConflictError` when the goal puts a contract elsewhere than what is known already."""
    for name, where in goal.addresses().items():
        if known.get(name, where) != where:
            raise DeploymentConflictError(
                f"this folder holds a deployment with {name} at {known[name]}; these options and this release put it at {where}",
                contract=name,
                known=known[name],
                wanted=where,
            )
