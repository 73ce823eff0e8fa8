"""Errors of the chain package. Errors that a contract raised are in `reverts`."""

from __future__ import annotations

from millpond.protocol.errors import ChainError, ConfigError, InputError


class RpcUnreachableError(ChainError):
    remedy_text = "Check that the RPC URL is right and its server runs, then try again; nothing was lost."


class RpcResponseError(ChainError):
    """The RPC answered with an error, or with something that is no answer. Fields: method, code, data."""

    remedy_text = "Ask another RPC server of the same chain; if it says the same, read the message."


class RpcBehindError(RpcUnreachableError):
    """No server has a block that was read before. Fields: head, seen."""

    remedy_text = "Wait until the RPC servers have caught up, or add one that is not behind."


class RpcQuorumError(RpcUnreachableError):
    """Too few servers answer for a majority. Fields: answered, needed."""

    remedy_text = "Bring the missing RPC servers back or replace their URLs; what needs a majority waits until then."


class RpcDisagreementError(ChainError):
    """RPC servers of one chain contradict each other on a read that moves money. Fields: block, answers."""

    remedy_text = (
        "One of the RPC servers is wrong or on a fork: compare them with a block explorer and remove the wrong URL. "
        "Nothing is signed on this read."
    )


class NonceGapError(ChainError):
    remedy_text = (
        "An RPC server told a wrong nonce, or the outbox belongs to another chain's state: check the RPC URLs; "
        "no transaction is sent to fill the gap."
    )


class WrongChainError(ChainError):
    remedy_text = "Use the RPC URL of the expected chain, or the settings and address book of this one."

    def __init__(self, expected: int, actual: int, url: str = "") -> None:
        super().__init__(
            f"the RPC {url or 'server'} serves chain {actual}, expected chain {expected}",
            expected=expected,
            actual=actual,
        )


class ChainRollbackError(ChainError):
    remedy_text = "Stop, and compare several RPC servers: a final block was replaced, which this chain must never do."


class CursorError(ConfigError):
    remedy_text = "The stored state is damaged: start again from the deployment's block."


class AbiError(InputError):
    remedy_text = "Pass the arguments the contract's interface lists, in its order and types."


class ArtefactMissingError(ConfigError):
    remedy_text = "Install the released package, or run scripts/export_artefacts.py in a source checkout."


class CodeMismatchError(ChainError):
    remedy_text = (
        "The address does not hold this release's contract: check the address book, or install the matching release."
    )


class DeployerMissingError(ChainError):
    remedy_text = (
        "Use a chain that has the deterministic deployer, or deploy it first with its published signed transaction."
    )


class AddressBookError(ConfigError):
    remedy_text = "Deploy the contracts, or point to the address book of this chain."


class KeystoreError(ConfigError):
    remedy_text = "Check the file and the password; a keystore is the JSON file that `millpond wallet new` wrote."


class DevelopmentKeyError(ConfigError):
    remedy_text = (
        "Development keys are public: anyone can take what they hold. Make a wallet with `millpond wallet new`."
    )


class DevnetError(ConfigError):
    remedy_text = "Read the chain's log, and install Anvil with `make setup` or set MILLPOND_ANVIL to its path."


class PortTakenError(DevnetError):
    remedy_text = "Stop the program that uses the port, or choose another port."

    def __init__(self, port: int) -> None:
        super().__init__(f"port {port} of 127.0.0.1 is taken", port=port)


class DevnetCrashedError(DevnetError):
    remedy_text = "Start the development chain again; its state file is kept. Its log says why it stopped."


class IntentConflictError(ChainError):
    remedy_text = "Use a new key for a new intent; a key stands for one transaction for ever."


class OutOfFundsError(ChainError):
    remedy_text = "Send the chain's own coin to the address, for gas; queued transactions go on by themselves."


class FeeCapError(ChainError):
    remedy_text = "Wait until the chain is cheaper, or raise the fee cap."


class TransactionTimeoutError(ChainError):
    remedy_text = (
        "The transaction is kept and will be sent again; wait longer with the same key, never send it under another."
    )
