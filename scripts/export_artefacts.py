"""Writes the slim contract artefacts that the package ships, so that its users need no compiler.

python scripts/export_artefacts.py             compile and write them
python scripts/export_artefacts.py --check     exit 1 when a packaged artefact is stale or a contract too large
python scripts/export_artefacts.py --compare   exit 1 when Brownie or forge would deploy other bytecode
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ARTEFACTS = "sdk/millpond/chain/artefacts"
SHIPPED_MOCKS = ("MockToken",)
LIBRARY_PREFIX = "73" + "00" * 20
MAX_DEPLOYED_BYTES = 24_576  # EIP-170
MAX_INIT_BYTES = 49_152  # EIP-3860
COMPILE_TIMEOUT_S = 300


class ExportError(Exception):
    """The artefacts cannot be written, or are not what they should be."""


def run(root: Path, tool: str, *arguments: str, stdin: str = "") -> str:
    """Standard output of one tool of `scripts/toolchain`; raises `ExportError` with what it said."""
    command = [str(root / "scripts/toolchain" / tool), *arguments]
    result = subprocess.run(
        command, cwd=root, input=stdin, capture_output=True, text=True, check=False, timeout=COMPILE_TIMEOUT_S
    )
    if result.returncode != 0:
        raise ExportError(f"{tool} failed:\n{result.stdout}{result.stderr}")
    return result.stdout


def compiler_input(root: Path) -> dict[str, Any]:
    """Standard JSON of `contracts/` with the settings of foundry.toml: a broken test must not stop an export."""
    profile = tomllib.loads((root / "foundry.toml").read_text())["profile"]["default"]
    sources = sorted(file.relative_to(root).as_posix() for file in (root / "contracts").rglob("*.sol"))
    return {
        "language": "Solidity",
        "sources": {path: {"content": (root / path).read_text()} for path in sources},
        "settings": {
            "evmVersion": profile["evm_version"],
            "metadata": {"bytecodeHash": profile["bytecode_hash"]},
            "optimizer": {"enabled": profile["optimizer"], "runs": profile["optimizer_runs"]},
            "outputSelection": {"*": {"*": ["abi", "evm.bytecode", "evm.deployedBytecode", "metadata"]}},
            "remappings": profile["remappings"],
        },
    }


def compile_contracts(root: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yields (name, source path, compiler's output) of every contract below `contracts/` that has code."""
    output = json.loads(run(root, "solc", "--standard-json", stdin=json.dumps(compiler_input(root))))
    errors = [error["formattedMessage"] for error in output.get("errors", []) if error["severity"] == "error"]
    if errors:
        raise ExportError("the contracts do not compile:\n" + "\n".join(errors))
    for path, contracts in sorted(output["contracts"].items()):
        for name, contract in sorted(contracts.items()):
            if path.startswith("contracts/") and contract["evm"]["bytecode"]["object"]:
                yield name, path, contract


def is_shipped(name: str, path: str, contract: dict[str, Any]) -> bool:
    """Mocks stay out but for the development token, and libraries that are only ever inlined."""
    if path.startswith("contracts/mocks/"):
        return name in SHIPPED_MOCKS
    is_library = contract["evm"]["deployedBytecode"]["object"].startswith(LIBRARY_PREFIX)
    return not is_library or any(entry["type"] == "function" for entry in contract["abi"])


def slim(name: str, path: str, contract: dict[str, Any]) -> dict[str, Any]:
    """What the package needs of the compiler's output: a tenth of it."""
    metadata = json.loads(contract["metadata"])
    creation, deployed = contract["evm"]["bytecode"], contract["evm"]["deployedBytecode"]
    hashes = {file: source["keccak256"] for file, source in sorted(metadata["sources"].items())}
    artefact = {
        "abi": contract["abi"],
        "bytecode": "0x" + creation["object"],
        "compiler": {
            "evmVersion": metadata["settings"]["evmVersion"],
            "optimizer": metadata["settings"]["optimizer"],
            "version": metadata["compiler"]["version"],
        },
        "contractName": name,
        "deployedBytecode": "0x" + deployed["object"],
        "immutableReferences": renumbered(deployed.get("immutableReferences", {})),
        "sourceHash": hashlib.sha256(json.dumps(hashes).encode()).hexdigest(),
        "sourcePath": path,
    }
    if creation.get("linkReferences"):
        artefact["linkReferences"] = creation["linkReferences"]
    return artefact


def renumbered(references: dict[str, list[dict[str, int]]]) -> dict[str, list[dict[str, int]]]:
    """Immutables in order of their place: the compiler's own numbers change with the files beside them."""
    groups = sorted(sorted((span["start"], span["length"]) for span in group) for group in references.values())
    return {str(index): [{"length": n, "start": s} for s, n in group] for index, group in enumerate(groups)}


def check_size(artefact: dict[str, Any]) -> None:
    """Raises `ExportError` for code that no chain with Ethereum's limits takes."""
    for field, bound in (("deployedBytecode", MAX_DEPLOYED_BYTES), ("bytecode", MAX_INIT_BYTES)):
        size = code_size(artefact[field])
        if size > bound:
            raise ExportError(f"{artefact['contractName']}: {field} has {size} bytes, the EVM takes {bound}")


def code_size(text: str) -> int:
    return (len(text) - 2) // 2


def packaged(root: Path) -> dict[str, str]:
    """File name -> text of all artefacts, as they should be."""
    result: dict[str, str] = {}
    for name, path, contract in compile_contracts(root):
        if not is_shipped(name, path, contract):
            continue
        if f"{name}.json" in result:
            raise ExportError(f"two contracts are named {name}; one is in {path}")
        artefact = slim(name, path, contract)
        check_size(artefact)
        result[f"{name}.json"] = json.dumps(artefact, indent=1, sort_keys=True) + "\n"
    return result


def write(root: Path, wanted: dict[str, str]) -> None:
    folder = root / ARTEFACTS
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.json"):
        if old.name not in wanted:
            old.unlink()
    for name, text in wanted.items():
        (folder / name).write_text(text)
        print(f"{name:<24}{code_size(json.loads(text)['deployedBytecode']):>8} bytes deployed")


def stale(root: Path, wanted: dict[str, str]) -> list[str]:
    """Names of artefacts that are missing, superfluous or different."""
    found = {file.name: file.read_text() for file in (root / ARTEFACTS).glob("*.json")}
    return sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))


def brownie_code(root: Path, artefact: dict[str, Any]) -> list[str]:
    build = root / "build/brownie/contracts" / f"{artefact['contractName']}.json"
    data = json.loads(build.read_text()) if build.exists() else {}
    return ["0x" + data.get(field, "") for field in ("bytecode", "deployedBytecode")]


def forge_code(root: Path, artefact: dict[str, Any]) -> list[str]:
    file = Path(artefact["sourcePath"]).name
    build = root / "build/forge/compare" / file / f"{artefact['contractName']}.json"
    data = json.loads(build.read_text()) if build.exists() else {}
    return [data.get(field, {}).get("object", "") for field in ("bytecode", "deployedBytecode")]


def differing(root: Path, wanted: dict[str, str]) -> list[str]:
    """Where Brownie or forge has other bytes than the package. Both compile everything first: Brownie
    does not recompile for a changed comment, which the metadata hash in the bytecode covers."""
    run(root, "brownie", "compile", "--all")
    run(root, "forge", "build", "contracts", "--force", "--out=build/forge/compare", "--cache-path=build/forge/compare")
    found = []
    for text in wanted.values():
        artefact = json.loads(text)
        ours = [artefact["bytecode"], artefact["deployedBytecode"]]
        if brownie_code(root, artefact) != ours:
            found.append(f"{artefact['contractName']} (Brownie)")
        if forge_code(root, artefact) != ours:
            found.append(f"{artefact['contractName']} (forge)")
    return found


def report(complaint: str, names: list[str], wanted: dict[str, str]) -> int:
    if names:
        print(f"error: {complaint}: {', '.join(names)}", file=sys.stderr)
        return 1
    print(f"{len(wanted)} artefacts are as compiled")
    return 0


def main(arguments: list[str], root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description="Slim contract artefacts for the package.")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="fail when a packaged artefact is stale")
    mode.add_argument("--compare", action="store_true", help="fail when Brownie's or forge's bytecode differs")
    options = parser.parse_args(arguments)
    try:
        wanted = packaged(root)
        if options.check:
            return report("stale, run 'make artefacts'", stale(root, wanted), wanted)
        if options.compare:
            return report("other bytecode", differing(root, wanted), wanted)
        write(root, wanted)
    except ExportError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
