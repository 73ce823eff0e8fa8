"""Fixtures and repairs every Brownie test shares."""

from collections.abc import Iterator

import brownie.network.contract as brownie_contract
import pytest

pytest_plugins = ["system"]

PUSH1, PUSH32 = 0x60, 0x7F
_compare_unmasked = brownie_contract._verify_deployed_code


def immutable_slots(code: bytes) -> Iterator[slice]:
    """Yields the operands of `PUSH32 0`: the places where the constructor writes immutables."""
    position = 0
    while position < len(code):
        opcode = code[position]
        width = opcode - PUSH1 + 1 if PUSH1 <= opcode <= PUSH32 else 0
        operand = slice(position + 1, position + 1 + width)
        if opcode == PUSH32 and not any(code[operand]):
            yield operand
        position += 1 + width


def fill_immutables(expected: str, actual: bytes) -> str:
    """Copies the immutables of deployed code into the compiler's code, whose own are zero."""
    code = bytearray.fromhex(expected.removeprefix("0x"))
    for operand in list(immutable_slots(bytes(code))):
        code[operand] = actual[operand].ljust(32, b"\0")
    return code.hex()


def _compare_masked(address: str, expected: str, language: str) -> bool:
    if language == "Solidity" and "_" not in expected:
        actual = bytes(brownie_contract.web3.eth.get_code(address))
        if len(actual) == len(expected.removeprefix("0x")) // 2:
            expected = fill_immutables(expected, actual)
    return bool(_compare_unmasked(address, expected, language))


# Without this Brownie takes every contract with an `immutable` for foreign code, and loses its
# dev strings, tracebacks and coverage.
brownie_contract._verify_deployed_code = _compare_masked


@pytest.fixture(autouse=True)
def isolation(fn_isolation: None) -> None:
    """Every test starts from the chain its module's fixtures left."""
