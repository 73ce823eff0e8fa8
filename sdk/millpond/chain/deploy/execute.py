"""Carries a deployment out: looks, plans, sends what is ready, looks again, until nothing is left and all of it is final.

Whatever it is killed at, the next run finds what is on the chain by its predicted address, and what was signed in the outbox.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from millpond.chain import artefacts
from millpond.chain.address_book import AddressBook, verify_book
from millpond.chain.deploy import proxy
from millpond.chain.deploy.errors import DeploymentConflictError, DeploymentStuckError
from millpond.chain.deploy.journal import DeployJournal, MemoryDeployJournal, Progress, check_same, progress
from millpond.chain.deploy.keys import intent_key
from millpond.chain.deploy.look import estimate, first_block_with_code, genesis_of, look
from millpond.chain.deploy.planner import Goal, Step, StepKind, plan, ready
from millpond.chain.errors import DeployerMissingError, OutOfFundsError, RpcResponseError
from millpond.chain.eth import Eth, TxReceipt
from millpond.chain.fees import FeePolicy
from millpond.chain.keys import DEVELOPMENT_CHAIN_ID
from millpond.chain.outbox import OutboxRow, TxState
from millpond.chain.reverts import ContractRevertError
from millpond.chain.transactor import DEFAULT_WAIT_S, Transactor, TxHandle
from millpond.protocol.ids import Address, Bytes32
from millpond.protocol.units import format_amount

POLL_S = 0.5
_MOST_ROUNDS = 20
_KNOWN = ("already known", "already imported", "nonce too low", "already exists")
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ApplyOptions:
    """`wait_s` bounds each wait for a block; `is_final_awaited` makes the end wait for finality; `is_replacing` forgets an earlier
    deployment with other settings."""

    wait_s: float = DEFAULT_WAIT_S
    is_final_awaited: bool = False
    is_replacing: bool = False


class Deployer:
    """One run of `apply`. The transactor must be started; `known` is the address book of an earlier run on this chain, if any."""

    def __init__(
        self,
        transactor: Transactor,
        journal: DeployJournal | None = None,
        options: ApplyOptions | None = None,
        say: Say = lambda line: None,
    ) -> None:
        self._transactor = transactor
        self._eth = transactor.eth
        self._journal = journal or MemoryDeployJournal()
        self._options = options or ApplyOptions()
        self._say = say
        self._genesis = Bytes32("")
        self._reverted: set[str] = set()

    async def apply(self, goal: Goal, known: AddressBook | None = None, path: Path | None = None) -> AddressBook:
        """Does what is left, verifies, writes the address book to `path` and returns it; called again, it goes on where it stopped.

        Raises `DeploymentConflictError`, `OutOfFundsError` (nothing was sent), `TransactionTimeoutError`, and what `plan`,
        `Transactor.send` and `verify_book` raise.
        """
        self._genesis = await genesis_of(self._eth)
        self._begin(goal, known)
        steps = await self._do_all(goal)
        book = await self._book(goal, steps, known)
        await verify_book(self._eth, book)
        if path is not None:
            book.save(path)
        self._write("finished")
        return book

    async def receipts(self) -> dict[str, TxReceipt]:
        """Of the transactions that this sender made for deployments on this chain, by label, in order."""
        rows = [row for row in self._transactor.rows() if row.key.startswith("deploy:") and row.mined_hash]
        found = await self._eth.receipts([row.mined_hash for row in rows if row.mined_hash])
        return {
            f"{row.label} {row.key.rpartition(':')[2]}": item for row, item in zip(rows, found, strict=True) if item
        }

    # JOURNAL

    def _begin(self, goal: Goal, known: AddressBook | None) -> None:
        if self._options.is_replacing:
            self._write("replaced")
        else:
            check_same(self._progress().addresses, goal)
            self._check_known(known, goal)
        self._write("plan", addresses=dict(goal.addresses()), sender=self._transactor.address, tokens=goal.listed())

    def _check_known(self, known: AddressBook | None, goal: Goal) -> None:
        """Development chains start afresh all the time; a chain of another id that does so is not what it seems."""
        if known is None or (known.genesis != self._genesis and known.chain_id == DEVELOPMENT_CHAIN_ID):
            return
        if known.genesis != self._genesis:
            raise DeploymentConflictError(
                f"the address book is of another chain with the id {known.chain_id}: its first block differs",
                remedy="Check the RPC; if the chain was started afresh, forget the old deployment with --replace.",
                expected=known.genesis,
                actual=self._genesis,
            )
        check_same(known.contracts, goal)

    def _progress(self) -> Progress:
        return progress(self._journal.records(), self._genesis)

    def _write(self, kind: str, **fields: object) -> None:
        self._journal.append({"kind": kind, "genesis": self._genesis, **fields})

    # STEPS

    async def _do_all(self, goal: Goal) -> list[Step]:
        is_funded = False
        for _ in range(_MOST_ROUNDS):
            steps = plan(goal, await look(self._eth, goal), self._transactor.address)
            self._note_done(steps)
            batch = ready(steps)
            if not batch:
                if await self._is_settled(steps):
                    return steps
                continue
            if not is_funded:
                await self._check_funds(steps)
                is_funded = True
            await self._do(batch)
        left = ", ".join(step.name for step in steps if not step.is_done) or "finality"
        raise DeploymentStuckError(f"after {_MOST_ROUNDS} rounds this is left to do: {left}")

    def _note_done(self, steps: list[Step]) -> None:
        noted = self._progress().blocks
        for step in steps:
            if not step.is_done or step.name in noted:
                continue
            row = self._row(step)
            block = row.block_number if row else 0
            self._say(f"{step.name:<13} {step.address}  " + (f"block {block}" if block else "was there"))
            self._write("done", step=step.name, block=block, address=step.address)

    def _key(self, step: Step) -> str:
        return intent_key(self._transactor, step.key, step.call) if step.call else step.key

    def _row(self, step: Step) -> OutboxRow | None:
        """The transaction that did the step, or may yet."""
        handle = self._transactor.handle(self._key(step))
        return handle.row if handle else None

    async def _check_funds(self, steps: list[Step]) -> None:
        """Before anything is sent: half a deployment helps nobody. What is signed already needs no second check."""
        unsent = [step for step in steps if step.is_done or self._is_unsent(step)]
        cost = await estimate(self._eth, unsent, self._transactor.address, self._transactor.config.fees)
        if cost.missing:
            raise OutOfFundsError(
                f"{self._transactor.address} has {format_amount(cost.balance, 18)} of the chain's coin, the deployment needs "
                f"up to {format_amount(cost.at_most, 18)}: {format_amount(cost.missing + 10**12 - 1, 18)} is missing",
                remedy="Send the chain's own coin to the address, then run the same command again.",
                address=self._transactor.address,
                balance=cost.balance,
                needed=cost.at_most,
                missing=cost.missing,
            )

    def _is_unsent(self, step: Step) -> bool:
        row = self._row(step)
        return row is None or row.state in (TxState.INTENT, TxState.REFUSED)

    async def _do(self, batch: list[Step]) -> None:
        """All are sent before the first is waited for: addresses do not depend on order."""
        waiting: list[tuple[Step, TxHandle]] = []
        for step in batch:
            self._write("begin", step=step.name, address=step.address, key=step.key)
            if step.kind is StepKind.PROXY:
                await self._send_proxy()
            elif step.call is not None:
                with self._taking_over(step):
                    waiting.append((step, await self._transactor.send_call(self._key(step), step.call)))
        for step, handle in waiting:
            with self._taking_over(step):
                await handle.mined(self._options.wait_s)

    @contextmanager
    def _taking_over(self, step: Step) -> Iterator[None]:
        """A step that reverts may have been done by somebody else meanwhile, to the same effect: once, the next look tells."""
        try:
            yield
        except ContractRevertError:
            if step.name in self._reverted:
                raise
            self._reverted.add(step.name)

    async def _send_proxy(self) -> None:
        """The signature does not name a chain (before EIP-155): some servers refuse that."""
        try:
            await self._eth.send_raw(proxy.TRANSACTION)
        except RpcResponseError as error:
            if not any(text in error.message.lower() for text in _KNOWN):
                raise DeployerMissingError(
                    f"the chain has no deterministic deployer, and the RPC refuses its published transaction: {error.message}",
                    address=proxy.CREATE2_DEPLOYER,
                ) from error
        deadline = time.monotonic() + self._options.wait_s
        while not await self._eth.code(proxy.CREATE2_DEPLOYER):
            if time.monotonic() > deadline:
                raise DeploymentStuckError(
                    f"the deterministic deployer is not there after {self._options.wait_s:.0f} s",
                    address=proxy.CREATE2_DEPLOYER,
                )
            await asyncio.sleep(POLL_S)

    async def _is_settled(self, steps: list[Step]) -> bool:
        """Whether nothing of ours can still change; after a wait the caller looks again."""
        ours = [handle for step in steps if (handle := self._transactor.handle(self._key(step)))]
        pending = [handle for handle in ours if handle.row.state is not TxState.FINAL]
        if not self._options.is_final_awaited or not pending:
            return True
        self._say("waiting until all of it is final; interrupted, the same command goes on")
        for handle in pending:
            await handle.final(self._options.wait_s)
        return False

    # ADDRESS BOOK

    async def _book(self, goal: Goal, steps: list[Step], known: AddressBook | None) -> AddressBook:
        earlier = known.contracts if known and known.settings == goal.settings else {}
        contracts = {**earlier, **goal.addresses()}
        return AddressBook(
            chain_id=await self._eth.chain_id(),
            genesis=self._genesis,
            block=await self._first_block(goal, steps, known),
            settings=goal.settings,
            contracts=contracts,
            code_hashes={name: artefacts.load(name).code_hash for name in contracts},
        )

    async def _first_block(self, goal: Goal, steps: list[Step], known: AddressBook | None) -> int:
        """The first block with one of the contracts: what follows events starts there."""
        if known and known.genesis == self._genesis and known.settings == goal.settings and known.block:
            return known.block
        contracts = [step for step in steps if step.kind is StepKind.CONTRACT]
        rows = [self._row(step) for step in contracts]
        blocks = [row.block_number for row in rows if row]
        noted = self._progress().blocks
        blocks += [noted[step.name] for step, row in zip(contracts, rows, strict=True) if row is None]
        if all(blocks):
            return min(blocks)
        return min([await first_block_with_code(self._eth, step.address) for step in contracts])


async def fee_policy(eth: Eth, goal: Goal, journal: DeployJournal, sender: Address) -> FeePolicy:
    """The fees of a run for which nobody set a cap.

    The proxy's published transaction offers 100 gwei; where it is the newest, servers suggest a tip of that size to everybody. So a
    deployment that brings the proxy keeps to what was asked before, also when it is resumed.
    """
    genesis = await genesis_of(eth)
    cap = progress(journal.records(), genesis).fee_cap
    if not cap and any(step.kind is StepKind.PROXY for step in plan(goal, await look(eth, goal), sender)):
        cap = (await estimate(eth, [], sender, FeePolicy())).max_fee
        journal.append({"kind": "fees", "genesis": genesis, "cap": cap})
    return FeePolicy(cap=cap, urgent_cap=cap) if cap else FeePolicy()
