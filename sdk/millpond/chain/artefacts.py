"""Contract artefacts that the package ships: interface, bytecode, and where immutables lie in deployed code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from millpond.chain.abi import ContractAbi
from millpond.chain.errors import ArtefactMissingError, CodeMismatchError
from millpond.protocol.hashing import keccak256

FOLDER = "artefacts"


@dataclass(frozen=True, slots=True)
class Artefact:
    """A compiled contract. `immutables` are (start, length) spans of deployed code that the constructor filled."""

    name: str
    abi: ContractAbi
    bytecode: bytes
    deployed_bytecode: bytes
    immutables: tuple[tuple[int, int], ...]
    compiler: str

    def init_code(self, *args: Any) -> bytes:
        """What a deployment sends: bytecode and constructor arguments. Raises `AbiError`."""
        return self.bytecode + self.abi.encode_constructor(*args)

    def masked(self, code: bytes) -> bytes:
        """`code` with its immutables zeroed."""
        result = bytearray(code)
        for start, length in self.immutables:
            result[start : start + length] = bytes(length)
        return bytes(result)

    def matches(self, code: bytes) -> bool:
        """Whether `code`, read from a chain, is this contract, whatever its immutables hold."""
        return (
            bool(code)
            and len(code) == len(self.deployed_bytecode)
            and self.masked(code) == self.masked(self.deployed_bytecode)
        )

    def check(self, code: bytes, address: str) -> None:
        """Raises `CodeMismatchError` unless `code` is this contract."""
        if not self.matches(code):
            what = "no code" if not code else "other code"
            raise CodeMismatchError(
                f"{address} holds {what} than {self.name}'s", address=address, contract=self.name, size=len(code)
            )

    @property
    def code_hash(self) -> str:
        """keccak256 of the masked deployed code."""
        return "0x" + keccak256(self.masked(self.deployed_bytecode)).hex()


@cache
def names() -> tuple[str, ...]:
    """Names of all packaged contracts, sorted."""
    folder = resources.files(__package__ or "millpond.chain") / FOLDER
    if not folder.is_dir():
        return ()
    found = (entry.name for entry in folder.iterdir())
    return tuple(sorted(name.removesuffix(".json") for name in found if name.endswith(".json")))


@cache
def load(name: str) -> Artefact:
    """The packaged artefact `name`; raises `ArtefactMissingError`."""
    if name not in names():
        raise ArtefactMissingError(f"there is no packaged contract {name}", contract=name, known=list(names()))
    text = (resources.files(__package__ or "millpond.chain") / FOLDER / f"{name}.json").read_text()
    return _parse(name, json.loads(text))


def _parse(name: str, data: Mapping[str, Any]) -> Artefact:
    spans = sorted(
        (int(span["start"]), int(span["length"]))
        for group in data.get("immutableReferences", {}).values()
        for span in group
    )
    compiler = data.get("compiler", "")
    return Artefact(
        name=name,
        abi=ContractAbi(name, data["abi"]),
        bytecode=_code(data.get("bytecode", "")),
        deployed_bytecode=_code(data.get("deployedBytecode", "")),
        immutables=tuple(spans),
        compiler=compiler if isinstance(compiler, str) else json.dumps(compiler, sort_keys=True),
    )


def _code(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))
