"""Takes the provider's earnings out of Escrow, into its payout account."""

from __future__ import annotations

from millpond.chain.bindings import Escrow, MockToken
from millpond.chain.eth import Eth
from millpond.chain.outbox import MemoryOutbox
from millpond.chain.rpc import Rpc
from millpond.chain.transactor import Transactor
from millpond.dev.accounts import provider_accounts, wallet
from millpond.protocol.views import PoolView


async def withdraw_earnings(rpc_url: str, pool: PoolView, providers: int) -> int:
    """Withdraws everything owed to the payout accounts of the first `providers`; what they got together, in base units."""
    async with Rpc(rpc_url, chain_id=pool.chain_id) as rpc:
        return sum([await _withdraw(Eth(rpc), pool, provider) for provider in range(providers)])


async def _withdraw(eth: Eth, pool: PoolView, provider: int) -> int:
    """By the growth of the payout account's token balance."""
    escrow, token = Escrow(eth, pool.escrow), MockToken(eth, pool.token)
    account = wallet(provider_accounts(provider)[2])
    before = await token.balance_of(account.address)
    if await escrow.owed(pool.token, account.address):
        async with Transactor(eth, account, MemoryOutbox()) as transactor:
            call = escrow.withdraw_owed_to(pool.token, account.address)
            await (await transactor.send_call("earnings", call)).mined()
    return await token.balance_of(account.address) - before
