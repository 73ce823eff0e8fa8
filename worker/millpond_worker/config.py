"""The worker's settings: `worker.toml` in its home folder, read strictly."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millpond.protocol.errors import MillpondError
from millpond.protocol.ids import Address, address
from millpond.protocol.messages import TICK_SECONDS
from millpond.protocol.units import parse_duration, parse_memory
from millpond_worker.errors import WorkerConfigError
from millpond_worker.home import Home
from millpond_worker.machine.policy import Hours, parse_hours
from millpond_worker.zones import check_zone

LAUNCHERS = ("auto", "docker", "process")
DEVICES = ("auto", "cpu", "nvidia")
DEFAULT_DISK = "64MiB"
DEFAULT_NOTICE = "10m"
MOST_TICK_S = 600


@dataclass(frozen=True, slots=True)
class OfferConfig:
    """One kind of slice. Share per mille, memory and disk in MiB, durations in seconds; `price` as written, for example 0.36/h."""

    share: int
    memory_mib: int
    price: str
    disk_mib: int
    max_duration: int
    notice: int
    cap_per_renter: int
    tick: int = TICK_SECONDS


LIVE_KEYS = (
    *("offers", "allow_renters", "refuse_renters", "hours", "time_zone"),
    *("price_floor", "allow_images", "refuse_images"),
)
"""Settings that a running worker takes up when it reads its file again; the others wait for the next `up`."""


@dataclass(frozen=True, slots=True)
class KeyConfig:
    """Where a key is: a keystore and the file with its password, or the number of a public development account."""

    keystore: str = ""
    password_file: str = ""
    dev_key: int | None = None


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """All of worker.toml. Empty `node_url`: found on chain. Empty `uuids`: every device. `max_duration` 0: the pool's longest."""

    rpc_url: str
    chain_id: int
    controller: Address
    addresses: str
    provider: Address
    key: KeyConfig
    offers: tuple[OfferConfig, ...]
    node_url: str = ""
    finality: int = 2
    launcher: str = "auto"
    allow_renters: frozenset[Address] = frozenset()
    task_image: str = "millpond-task:1"
    device: str = "auto"
    device_label: str = ""
    cores: int = 0
    memory_mib: int = 0
    uuids: tuple[str, ...] = ()
    allow_old_runtime: bool = False
    hours: tuple[Hours, ...] = ()
    time_zone: str = "UTC"
    price_floor: str = ""
    allow_images: tuple[str, ...] = ()
    refuse_images: tuple[str, ...] = ()
    refuse_renters: frozenset[Address] = frozenset()


def load_config(home: Home) -> WorkerConfig:
    """Raises `WorkerConfigError` that names every problem of the file."""
    try:
        data = tomllib.loads(home.config.read_text())
    except FileNotFoundError:
        raise WorkerConfigError(
            f"there is no {home.config}", path=str(home.config), remedy="Write it with `millpond-worker init`."
        ) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise WorkerConfigError(f"{home.config} cannot be read: {error}", path=str(home.config)) from None
    return parse_config(data, home.config)


def parse_config(data: Mapping[str, Any], path: Path | str = "worker.toml") -> WorkerConfig:
    """Settings from a table. Raises `WorkerConfigError`: unknown names, missing ones, and values of a wrong kind."""
    reader = _Reader(data)
    values = {name: reader.take(name, *rule) for name, rule in _RULES.items()}
    offers = tuple(_offer(item, number, reader.problems) for number, item in enumerate(reader.tables("offers"), 1))
    key = KeyConfig(values.pop("key"), values.pop("key_password_file"), values.pop("dev_key"))
    if bool(key.keystore) == (key.dev_key is not None):
        reader.problems.append("exactly one of `key` (a keystore file) and `dev_key` (a development account) is needed")
    reader.finish(path)
    return WorkerConfig(key=key, offers=tuple(item for item in offers if item is not None), **values)


class _Reader:
    """Takes values out of a table and collects what is wrong with them."""

    def __init__(self, data: Mapping[str, Any], prefix: str = "") -> None:
        self._left = dict(data)
        self._prefix = prefix
        self.problems: list[str] = []

    def take(self, name: str, parse: Callable[[Any], Any], default: Any = None) -> Any:
        if name not in self._left:
            if default is None:
                self.problems.append(f"{self._prefix}{name} is missing")
            return None if default is _ABSENT else default
        try:
            return parse(self._left.pop(name))
        except (ValueError, TypeError, MillpondError) as error:
            self.problems.append(f"{self._prefix}{name}: {error}")
            return default

    def tables(self, name: str) -> list[Mapping[str, Any]]:
        found = self._left.pop(name, [])
        if not isinstance(found, list) or not all(isinstance(item, dict) for item in found) or not found:
            self.problems.append(f"{name}: write at least one [[{name}]] table")
            return []
        return found

    def leftovers(self) -> list[str]:
        return [f"{self._prefix}{name} is no setting" for name in sorted(self._left)]

    def finish(self, path: Path | str) -> None:
        problems = self.problems + self.leftovers()
        if problems:
            raise WorkerConfigError(f"{path}: " + "; ".join(problems), path=str(path), problems=problems)


def _offer(data: Mapping[str, Any], number: int, problems: list[str]) -> OfferConfig | None:
    reader = _Reader(data, f"offer {number}: ")
    values = {name: reader.take(name, *rule) for name, rule in _OFFER_RULES.items()}
    found = reader.problems + reader.leftovers()
    problems += found
    return None if found else OfferConfig(**{_FIELDS.get(name, name): value for name, value in values.items()})


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a text in quotes is needed")
    return value


def _needed_text(value: Any) -> str:
    if not _text(value):
        raise ValueError("it is empty")
    return str(value)


def _urls(value: Any) -> str:
    """One URL or several with commas; the file may write them as a list."""
    return _needed_text(",".join(_text(item) for item in value) if isinstance(value, list) else value)


def _whole(low: int, high: int) -> Callable[[Any], int]:
    def parse(value: Any) -> int:
        if type(value) is not int or not low <= value <= high:
            raise ValueError(f"a whole number from {low} to {high} is needed, not {value!r}")
        return value

    return parse


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("true or false is needed")
    return value


def _one_of(names: tuple[str, ...]) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        if value not in names:
            raise ValueError(f"one of {', '.join(names)} is needed, not {value!r}")
        return str(value)

    return parse


def _list(parse: Callable[[Any], Any], make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if not isinstance(value, list):
            raise TypeError("a list is needed")
        return make(parse(item) for item in value)

    return read


def _address(value: Any) -> Address:
    return address(_text(value))


def _memory(value: Any) -> int:
    return parse_memory(str(value))


def _duration(value: Any) -> int:
    return parse_duration(str(value))


def _hours(value: Any) -> Hours:
    return parse_hours(_text(value))


def _zone(value: Any) -> str:
    return "UTC" if value == "UTC" else check_zone(_needed_text(value))


def _tick(value: Any) -> int:
    seconds = _duration(value)
    if not 1 <= seconds <= MOST_TICK_S:
        raise ValueError(f"from 1 s to {MOST_TICK_S} s, not {value!r}")
    return seconds


_ABSENT = object()
_RULES: dict[str, tuple[Any, ...]] = {
    "rpc_url": (_urls,),
    "chain_id": (_whole(1, 1 << 62),),
    "controller": (_address,),
    "addresses": (_needed_text,),
    "provider": (_address,),
    "key": (_text, ""),
    "key_password_file": (_text, ""),
    "dev_key": (_whole(0, 99), _ABSENT),
    "node_url": (_text, ""),
    "finality": (_whole(0, 10_000), 2),
    "launcher": (_one_of(LAUNCHERS), "auto"),
    "allow_renters": (_list(_address, frozenset), frozenset()),
    "task_image": (_needed_text, "millpond-task:1"),
    "device": (_one_of(DEVICES), "auto"),
    "device_label": (_text, ""),
    "cores": (_whole(1, 4096), 0),
    "memory_mib": (_memory, 0),
    "uuids": (_list(_text, tuple), ()),
    "allow_old_runtime": (_flag, False),
    "hours": (_list(_hours, tuple), ()),
    "time_zone": (_zone, "UTC"),
    "price_floor": (_text, ""),
    "allow_images": (_list(_needed_text, tuple), ()),
    "refuse_images": (_list(_needed_text, tuple), ()),
    "refuse_renters": (_list(_address, frozenset), frozenset()),
}
_OFFER_RULES: dict[str, tuple[Any, ...]] = {
    "share": (_whole(1, 1000),),
    "memory": (_memory,),
    "price": (_needed_text,),
    "disk": (_memory, parse_memory(DEFAULT_DISK)),
    "max_duration": (_duration, 0),
    "notice": (_duration, parse_duration(DEFAULT_NOTICE)),
    "cap_per_renter": (_whole(0, 65_535), 0),
    "tick": (_tick, TICK_SECONDS),
}
_FIELDS = {"memory": "memory_mib", "disk": "disk_mib"}
