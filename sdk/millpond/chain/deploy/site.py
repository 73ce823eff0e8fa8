"""Where a machine keeps its deployments: a folder per chain id with address book, journal and outbox."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from millpond.chain.address_book import AddressBook
from millpond.chain.deploy.journal import FileDeployJournal
from millpond.chain.outbox import SqliteOutbox


@dataclass(frozen=True, slots=True)
class Site:
    """One chain's folder. `earlier` is an address book to read where the folder has none yet."""

    folder: Path
    chain_id: int
    earlier: Path | None = None

    @property
    def book(self) -> Path:
        return self.folder / str(self.chain_id) / "addresses.json"

    @contextmanager
    def opened(self) -> Iterator[tuple[FileDeployJournal, SqliteOutbox]]:
        """Journal and outbox, for one process at a time; raises `DeploymentRunningError`."""
        with FileDeployJournal(self.book.with_name("journal.jsonl")) as journal:
            outbox = SqliteOutbox(self.book.with_name("outbox.db"))
            try:
                yield journal, outbox
            finally:
                outbox.close()

    def known(self) -> AddressBook | None:
        """The address book, if there is one; raises `AddressBookError` when it is malformed or of another chain."""
        return AddressBook.load(self.book, self.chain_id) if self.book.exists() else None

    def load(self) -> AddressBook:
        """The address book; raises `AddressBookError` where there is none."""
        use_earlier = not self.book.exists() and self.earlier is not None and self.earlier.exists()
        return AddressBook.load(self.earlier if use_earlier and self.earlier else self.book, self.chain_id)
