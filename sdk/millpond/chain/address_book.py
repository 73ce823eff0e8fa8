"""Where the contracts of one deployment are: a JSON file per chain id."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from millpond.chain import artefacts
from millpond.chain.deploy import proxy
from millpond.chain.errors import AddressBookError, CodeMismatchError, WrongChainError
from millpond.chain.eth import Eth
from millpond.chain.transactions import create2_address
from millpond.protocol.errors import InputError
from millpond.protocol.hashing import keccak256
from millpond.protocol.ids import Address, Bytes32, address, bytes32

CREATE2_DEPLOYER = proxy.CREATE2_DEPLOYER
BURN_SINK = Address("0x000000000000000000000000000000000000dEaD")
CORE = ("Tokens", "Escrow", "Staking", "Devices", "Attestations", "Controller", "PoolFactory")
DEFAULT_SALT = bytes32(keccak256(b"millpond 1"))
# What fills a constructor's argument, by the name that the contract gives it: a setting, or a contract's address.
_SETTINGS = {"owner": "owner", "burnSink": "burn_sink", "challengeWindow": "challenge_window"}
_CONTRACTS = {
    "tokens": "Tokens",
    "escrow": "Escrow",
    "staking": "Staking",
    "devices": "Devices",
    "attestations": "Attestations",
    "implementation": "Controller",
    "controller": "Controller",
    "factory": "PoolFactory",
}


@dataclass(frozen=True, slots=True)
class DeploymentSettings:
    """What fixes a deployment's addresses. `owner` lists tokens; `challenge_window` is in seconds."""

    owner: Address
    burn_sink: Address = BURN_SINK
    challenge_window: int = 7 * 86_400
    salt: Bytes32 = DEFAULT_SALT

    def init_code(self, name: str) -> bytes:
        """A core contract's bytecode with its constructor arguments, which follow from the names it gives them."""
        artefact = artefacts.load(name)
        return artefact.init_code(*(self._argument(param.name.strip("_")) for param in artefact.abi.constructor.inputs))

    def address_of(self, name: str) -> Address:
        """Where the core contract `name` lies on every chain, by CREATE2 (EIP-1014)."""
        return create2_address(CREATE2_DEPLOYER, bytes.fromhex(self.salt[2:]), self.init_code(name))

    def _argument(self, name: str) -> Any:
        if name in _SETTINGS:
            return getattr(self, _SETTINGS[name])
        if name not in _CONTRACTS:
            raise AddressBookError(
                f"nothing says what to pass for the constructor's {name!r}", remedy="Install a released package."
            )
        return self.address_of(_CONTRACTS[name])


@dataclass(frozen=True, slots=True)
class AddressBook:
    """Contracts by name on one chain. `block` is the first block with anything of the deployment; `genesis` tells chains of one id apart."""

    chain_id: int
    genesis: Bytes32
    block: int
    settings: DeploymentSettings
    contracts: dict[str, Address]
    code_hashes: dict[str, str] = field(default_factory=dict)

    def address(self, name: str) -> Address:
        """Raises `AddressBookError` for a contract the deployment lacks."""
        if name not in self.contracts:
            raise AddressBookError(f"the address book of chain {self.chain_id} has no {name}", contract=name)
        return self.contracts[name]

    def with_contract(self, name: str, where: Address) -> AddressBook:
        hashes = {**self.code_hashes, name: artefacts.load(name).code_hash}
        return dataclasses.replace(self, contracts={**self.contracts, name: where}, code_hashes=hashes)

    def save(self, path: Path) -> None:
        """Writes the file whole or not at all, and durably; raises `AddressBookError`."""
        temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("w") as file:
                file.write(json.dumps(dataclasses.asdict(self), indent=2, sort_keys=True) + "\n")
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError as error:
            raise AddressBookError(
                f"{path} cannot be written: {error.strerror}",
                remedy="Free or repair the disk, then repeat the command.",
            ) from error

    @staticmethod
    def load(path: Path, chain_id: int | None = None) -> AddressBook:
        """Raises `AddressBookError` when the file is missing, malformed, or of another chain than `chain_id`."""
        try:
            book = AddressBook.parse(json.loads(path.read_text()))
        except OSError as error:
            raise AddressBookError(f"{path} cannot be read: {error.strerror}", path=str(path)) from error
        except ValueError as error:
            raise AddressBookError(f"{path} is no JSON: {error}", path=str(path)) from error
        if chain_id is not None and book.chain_id != chain_id:
            raise AddressBookError(
                f"{path} is of chain {book.chain_id}, not of {chain_id}", expected=chain_id, actual=book.chain_id
            )
        return book

    @staticmethod
    def parse(data: Any) -> AddressBook:
        """From the JSON form; raises `AddressBookError`."""
        try:
            given = data["settings"]
            settings = DeploymentSettings(
                address(given["owner"]),
                address(given["burn_sink"]),
                int(given["challenge_window"]),
                bytes32(given["salt"]),
            )
            return AddressBook(
                chain_id=int(data["chain_id"]),
                genesis=bytes32(data["genesis"]),
                block=int(data["block"]),
                settings=settings,
                contracts={str(name): address(where) for name, where in data["contracts"].items()},
                code_hashes={str(name): str(text) for name, text in data["code_hashes"].items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError, InputError) as error:
            raise AddressBookError(f"the address book is malformed: {error}") from error


async def verify_book(eth: Eth, book: AddressBook) -> None:
    """Checks chain, addresses and code against this release.

    Raises `WrongChainError`, `AddressBookError` (another chain of the same id), `CodeMismatchError`.
    """
    actual = await eth.chain_id()
    if actual != book.chain_id:
        raise WrongChainError(book.chain_id, actual, eth.rpc.url)
    genesis = await eth.header(0)
    if genesis is None or genesis.hash != book.genesis:
        raise AddressBookError(
            "the address book is of another chain with the same id",
            remedy="The development chain was started afresh: deploy again.",
            expected=book.genesis,
        )
    for name, where in book.contracts.items():
        if name in CORE and where != book.settings.address_of(name):
            expected = book.settings.address_of(name)
            raise CodeMismatchError(
                f"{name} is at {where}, this release puts it at {expected}", contract=name, expected=expected
            )
        artefacts.load(name).check(await eth.code(where), where)
