"""What can be wrong with a deployment, beside `millpond.chain.errors`."""

from __future__ import annotations

from millpond.protocol.errors import ChainError, ConfigError, InputError


class DeploymentConflictError(ConfigError):
    remedy_text = "Repeat the options of the first time; or keep the other deployment in a folder of its own (--dir)."


class DeploymentRunningError(ConfigError):
    remedy_text = "Wait until the other command has ended, or give this one a folder of its own (--dir)."


class DeploymentJournalError(ConfigError):
    remedy_text = "Free or repair the disk, then repeat the command: it goes on where it stopped."


class MintableTokenError(InputError):
    remedy_text = "Name a real token with --list; a token that anyone may mint is for test networks."


class NotTokensOwnerError(ChainError):
    remedy_text = "Let the owner of Tokens list it: the same command with the owner's wallet."


class DeploymentStuckError(ChainError):
    remedy_text = (
        "Run the same command again: it goes on where it stopped. `millpond deploy status` shows what is there."
    )


class PoolFileError(InputError):
    remedy_text = "Correct the file; docs/guides/operator.md describes every key of it."


class PoolOwnerError(InputError):
    remedy_text = "Choose the owner's wallet with --wallet, or write the wallet's address as `owner`."
