"""Reads `pool.yaml`. Every scalar is taken as the text that stands there: YAML alone would read an address as a number.

Amounts of the token need its decimals, which are the chain's to tell: `PoolFile.goal` takes them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from millpond.chain.bindings.structs import PoolParams
from millpond.chain.deploy.errors import PoolFileError
from millpond.chain.deploy.pools import PoolGoal
from millpond.protocol.errors import InputError
from millpond.protocol.hashing import keccak256
from millpond.protocol.ids import Address, Bytes32, address, bytes32
from millpond.protocol.units import parse_amount, parse_duration

MAX_BYTES = 64 << 10
MAX_URI = 200
MAX_DESCRIPTION = 1 << 20
_PERCENT = re.compile(r"([0-9]{1,4})(?:\.([0-9]{1,4}))?\s*%")


def _ppm(text: str) -> int:
    """Parts per million of `2.5%`."""
    match = _PERCENT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"cannot read {text!r}; write it as 2.5%, with at most four digits after the point")
    return int(match[1]) * 10_000 + int((match[2] or "").ljust(4, "0"))


def _reading(read: Any) -> BeforeValidator:
    def validate(value: object) -> object:
        if not isinstance(value, str):
            raise ValueError("must be a single value")
        try:
            return read(value)
        except InputError as error:
            raise ValueError(error.message) from None

    return BeforeValidator(validate)


def _within(least: int, most: int) -> AfterValidator:
    def check(value: int) -> int:
        if not least <= value <= most:
            raise ValueError(f"is {value}, and must be from {least} to {most}")
        return value

    return AfterValidator(check)


DAY = 86_400
Party = Annotated[Address, _reading(address)]
Ppm = Annotated[int, _reading(_ppm)]
Seconds = Annotated[int, _reading(parse_duration)]
Label = Annotated[str, Field(min_length=1, max_length=200)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Windows(_Section):
    """Seconds. Bounds are those of `IPoolFactory.createPool`."""

    claim: Annotated[Seconds, _within(DAY, 30 * DAY)] = DAY
    dispute: Annotated[Seconds, _within(DAY, 30 * DAY)] = 2 * DAY
    longest_lease: Annotated[Seconds, _within(60, 90 * DAY)] = DAY
    thaw: Annotated[Seconds, _within(DAY, 120 * DAY)] = 15 * DAY
    grace: Annotated[Seconds, _within(60, 840)] = 120
    deposit: Annotated[Seconds, _within(60, 65_535)] = 60


class Entry(_Section):
    """What a provider must bring. `least_stake` in whole tokens; `exposure` is the stake that a lease binds, of what it can cost."""

    least_stake: str = "0"
    exposure: Annotated[Ppm, _within(0, 10_000_000)] = 1_000_000
    slash_cap: Annotated[Ppm, _within(1, 1_000_000)] = 500_000


class Metadata(_Section):
    """Where the pool's description is. Its keccak256 goes on chain: of `file`, or given as `digest`."""

    uri: Annotated[str, Field(max_length=MAX_URI)]
    digest: Annotated[Bytes32, _reading(bytes32)] | None = None
    file: str | None = None


class PoolFile(_Section):
    """The whole of `pool.yaml`. Defaults are those of the development pool."""

    owner: Party
    label: Label
    token: Party
    node: Party
    slasher: Party
    treasury: Party | None = None
    fee: Annotated[Ppm, _within(0, 250_000)] = 25_000
    burn: Annotated[Ppm, _within(0, 100_000)] = 5_000
    windows: Windows = Windows()
    entry: Entry = Entry()
    metadata: Metadata | None = None

    def goal(self, decimals: int, folder: Path) -> PoolGoal:
        """What the pool shall be; `folder` is where the description's file name starts. Raises `PoolFileError`."""
        digest = self._digest(folder)
        return PoolGoal(
            owner=self.owner,
            label=label_of(self.label),
            node=self.node,
            params=self._params(decimals),
            digest=digest,
            uri=self.metadata.uri if self.metadata else "",
        )

    def _params(self, decimals: int) -> PoolParams:
        windows, entry = self.windows, self.entry
        try:
            least_stake = parse_amount(entry.least_stake, decimals)
        except InputError as error:
            raise PoolFileError(f"entry.least_stake: {error.message}", field="entry.least_stake") from None
        if least_stake >= 1 << 96:
            raise PoolFileError("entry.least_stake: is beyond any stake", field="entry.least_stake")
        return PoolParams(
            token=self.token,
            slasher=self.slasher,
            treasury=self.treasury or self.owner,
            feePpm=self.fee,
            burnPpm=self.burn,
            exposurePpm=entry.exposure,
            slashCapPpm=entry.slash_cap,
            claimWindow=windows.claim,
            disputeWindow=windows.dispute,
            maxDuration=windows.longest_lease,
            thawPeriod=windows.thaw,
            depositSeconds=windows.deposit,
            grace=windows.grace,
            minProvision=least_stake,
        )

    def _digest(self, folder: Path) -> Bytes32 | None:
        if self.metadata is None:
            return None
        if (self.metadata.digest is None) == (self.metadata.file is None):
            raise PoolFileError("metadata: give one of `file` and `digest`", field="metadata")
        if self.metadata.file is None:
            return self.metadata.digest
        return bytes32(keccak256(_read(folder / self.metadata.file, MAX_DESCRIPTION)))


def label_of(text: str) -> Bytes32:
    """32 bytes as they stand, or the keccak256 of the text: the label is part of the pool's address."""
    return bytes32(text) if re.fullmatch("0x[0-9a-fA-F]{64}", text) else bytes32(keccak256(text.encode()))


def load_pool_file(path: Path) -> PoolFile:
    """Raises `PoolFileError`, which names the first key that is wrong."""
    data = _parse(path, _read(path, MAX_BYTES))
    try:
        return PoolFile.model_validate(data)
    except ValidationError as error:
        wrong = [f"{'.'.join(str(part) for part in item['loc'])}: {_words(item)}" for item in error.errors()]
        raise PoolFileError(f"{path}: {'; '.join(wrong)}", fields=wrong) from None


def _words(item: Any) -> str:
    match item["type"]:
        case "missing":
            return "is missing"
        case "extra_forbidden":
            return "is no key of a pool file"
    return str(item["msg"]).removeprefix("Value error, ")


def _read(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise PoolFileError(f"{path} cannot be read: {error.strerror}", path=str(path)) from error
    if len(data) > most:
        raise PoolFileError(f"{path} has more than {most} bytes", path=str(path), bound=most)
    return data


class _TextLoader(yaml.BaseLoader):
    """All scalars are text; no aliases, no key twice."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases (&name, *name) are not allowed")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        names = [key.value for key, _ in node.value]
        for i, name in enumerate(names):
            if name in names[:i]:
                raise yaml.MarkedYAMLError(problem=f"the key {name!r} stands twice", problem_mark=node.start_mark)
        return super().construct_mapping(node, deep)


def _parse(path: Path, data: bytes) -> dict[str, Any]:
    try:
        content = yaml.load(data, Loader=_TextLoader)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise PoolFileError(f"{path} is no YAML: {' '.join(str(error).split())[:300]}", path=str(path)) from error
    if not isinstance(content, dict):
        raise PoolFileError(f"{path} is no mapping of keys to values", path=str(path))
    return content
