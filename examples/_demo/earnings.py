"""Takes the provider's earnings out of Escrow, into its payout account."""

from __future__ import annotations

from millpond.chain.bindings import Escrow, MockToken
from millpond.chain.eth import Eth
from millpond.chain.outbox import MemoryOutbox
from millpond.chain.rpc import Rpc
from millpond.chain.transactor import Transactor
from millpond.dev.accounts import provider_accounts, wallet
from millpond.protocol.views import PoolView


async def withdraw_earnings(rpc_url: str, pool: PoolView, provider: int = 0) -> int:
    """Withdraws everything owed to the payout account of `provider`; what its token balance grew by, in base units."""
    _, _, payout = provider_accounts(provider)
    async with Rpc(rpc_url, chain_id=pool.chain_id) as rpc:
        eth = Eth(rpc)
        escrow, token, account = Escrow(eth, pool.escrow), MockToken(eth, pool.token), wallet(payout)
        before = await token.balance_of(account.address)
        async with Transactor(eth, account, MemoryOutbox()) as transactor:
            call = escrow.withdraw_owed_to(pool.token, account.address)
            await (await transactor.send_call("earnings", call)).mined()
        return await token.balance_of(account.address) - before
