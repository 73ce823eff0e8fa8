"""One page per packaged contract: from its interface's NatSpec and declarations, with selectors and topics from its ABI."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from millpond.chain import artefacts
from millpond.chain.abi import ContractAbi, Signature
from millpond.chain.remedies import REMEDIES

KINDS = ("function", "event", "error", "struct", "enum")
START = re.compile(rf"^({'|'.join(KINDS)}) (\w+)")
INTERFACE = re.compile(r"^interface (\w+)(?: is ([\w, ]+))? \{")
SIGNED = "types/Signed.sol"


@dataclass(frozen=True, slots=True)
class Declaration:
    """A declaration of an interface with the documentation above it."""

    kind: str
    name: str
    text: str
    doc: str


@dataclass(frozen=True, slots=True)
class Interface:
    name: str
    parents: tuple[str, ...]
    doc: str
    declarations: tuple[Declaration, ...]


def pages(folder: Path) -> dict[str, str]:
    """Pages by path below docs/reference; `folder` holds the Solidity sources."""
    known = {path.stem: parse(path.read_text()) for path in sorted((folder / "interfaces").glob("*.sol"))}
    names = [name for name in artefacts.names() if f"I{name}" in known]
    made = {f"contracts/{name}.md": _page(name, known) for name in names}
    structs = tuple(item for item in _declarations((folder / SIGNED).read_text()) if item.kind == "struct")
    return made | {"contracts/README.md": _index(names, known, structs)}


def parse(source: str) -> Interface:
    """Reads an interface as `forge fmt` lays it out."""
    head, _, body = source.partition("\ninterface ")
    found = INTERFACE.match(f"interface {body}")
    assert found is not None, source[:200]
    parents = tuple(part.strip() for part in (found[2] or "").split(",") if part.strip())
    return Interface(found[1], parents, _doc(_comment_above(head)), tuple(_declarations(body)))


def _comment_above(head: str) -> list[str]:
    lines: list[str] = []
    for line in reversed(head.splitlines()):
        if not line.startswith("///"):
            break
        lines.insert(0, line)
    return lines


def _declarations(body: str) -> Iterator[Declaration]:
    comment: list[str] = []
    lines = iter(body.splitlines())
    for raw in lines:
        line = raw.strip()
        if line.startswith("///"):
            comment.append(line)
        elif found := START.match(line):
            yield Declaration(found[1], found[2], _whole(found[1], raw, lines), _doc(comment))
            comment = []
        else:
            comment = []


def _whole(kind: str, first: str, lines: Iterator[str]) -> str:
    """A declaration that may run over several lines, without the indentation of its first."""
    end = "}" if kind in ("struct", "enum") else ";"
    taken = [first]
    while not taken[-1].rstrip().endswith(end):
        taken.append(next(lines))
    indent = len(first) - len(first.lstrip())
    return "\n".join(line[indent:] if line[:indent].isspace() else line for line in taken)


def _doc(comment: list[str]) -> str:
    parts = [line.removeprefix("///").strip() for line in comment]
    text = " ".join(re.sub(r"^@(title|notice|dev|return|param)\s*", "\n", part) for part in parts)
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n") if part.strip())


def _inherited(interface: Interface, known: dict[str, Interface]) -> list[Declaration]:
    above = [item for parent in interface.parents for item in _inherited(known[parent], known)]
    return [*interface.declarations, *above]


def _page(name: str, known: dict[str, Interface]) -> str:
    interface = known[f"I{name}"]
    abi = artefacts.load(name).abi
    items = _inherited(interface, known)
    views = {item.name for item in abi.functions.values() if item.is_view}
    calls = [item for item in items if item.kind == "function"]
    parts = [
        f"# {name}\n\n{interface.doc}\n\nWritten by `scripts/generate_reference.py` from `contracts/interfaces/I{name}.sol`.\n",
        _part("Actions", [_function(item, abi) for item in calls if item.name not in views]),
        _part("Views", [_function(item, abi) for item in calls if item.name in views]),
        _part("Further functions", [_plain(abi, {item.name for item in calls})]),
        _part("Events", [_event(item, abi) for item in items if item.kind == "event"]),
        _part("Errors", [_errors(items, abi)]),
        _part("Types", [_entry(item, "") for item in items if item.kind in ("struct", "enum")]),
    ]
    return "\n".join(part for part in parts if part)


def _part(title: str, entries: list[str]) -> str:
    text = "\n".join(entry for entry in entries if entry)
    return f"## {title}\n\n{text}" if text else ""


def _entry(item: Declaration, note: str) -> str:
    parts = [f"### {item.name}", f"```solidity\n{item.text}\n```", note, item.doc]
    return "\n\n".join(part for part in parts if part) + "\n"


def _function(item: Declaration, abi: ContractAbi) -> str:
    signature = abi.functions.get(item.name)
    return _entry(item, f"Selector `0x{signature.selector.hex()}`." if signature else "")


def _event(item: Declaration, abi: ContractAbi) -> str:
    return _entry(item, f"Topic `0x{abi.event(item.name).topic.hex()}`.")


def _plain(abi: ContractAbi, documented: set[str]) -> str:
    """Functions of the deployed code that the interface does not declare: constants, ownership, token domains."""
    rows = [
        _row(item) for item in sorted(abi.functions.values(), key=lambda item: item.name) if item.name not in documented
    ]
    return "| Selector | Function | Returns |\n|---|---|---|\n" + "\n".join(rows) + "\n" if rows else ""


def _row(item: Signature) -> str:
    returned = ", ".join(param.type for param in item.outputs)
    return f"| `0x{item.selector.hex()}` | `{item.text}` {'view' if item.is_view else ''} | `{returned}` |".replace(
        "``", ""
    )


def _errors(items: list[Declaration], abi: ContractAbi) -> str:
    """Every error of the contract's ABI: its own, and those of what it is built from."""
    own = {item.name: item.text.removeprefix("error ").rstrip(";") for item in items if item.kind == "error"}
    found = sorted(abi.errors.values(), key=lambda item: (item.name not in own, item.name))
    rows = [
        f"| `0x{item.selector.hex()}` | `{' '.join(own.get(item.name, item.text).split())}` | {REMEDIES.get(item.name, '')} |"
        for item in found
    ]
    return "| Selector | Error | What to do |\n|---|---|---|\n" + "\n".join(rows) + "\n" if rows else ""


def _index(names: list[str], known: dict[str, Interface], structs: tuple[Declaration, ...]) -> str:
    rows = "\n".join(f"| [{name}]({name}.md) | {known[f'I{name}'].doc.splitlines()[0]} |" for name in names)
    signed = "\n".join(_entry(item, "") for item in structs)
    return (
        "# Contracts\n\nWritten by `scripts/generate_reference.py` from `contracts/interfaces` and the packaged ABIs. "
        "`millpond deploy status` shows where they are on a chain.\n\n"
        f"| Contract | What it is |\n|---|---|\n{rows}\n\n## Signed messages\n\n{signed}"
    )
