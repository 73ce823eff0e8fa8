"""Who is who on the development chain: indices of the public accounts that Anvil funds. Chain 31337 only."""

from __future__ import annotations

from enum import IntEnum

from millpond.chain.keys import Wallet, development_wallet
from millpond.settings import DEV_CHAIN_ID


class Account(IntEnum):
    OPERATOR = 0
    NODE = 1
    TREASURY = 2
    RENTER = 3
    SLASHER = 4
    PROVIDER = 10
    """Provider number i (from 0) has owner 10 + 3i, worker key 11 + 3i and payout 12 + 3i."""


def wallet(index: int) -> Wallet:
    return development_wallet(index, DEV_CHAIN_ID)


def provider_accounts(number: int) -> tuple[int, int, int]:
    """Indices of owner, worker (operator key) and payout of provider `number`, from 0."""
    first = Account.PROVIDER + 3 * number
    return first, first + 1, first + 2
