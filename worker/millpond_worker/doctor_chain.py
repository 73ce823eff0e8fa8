"""The doctor's questions to the chain and the node."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import closing

from millpond.chain.address_book import AddressBook, verify_book
from millpond.chain.agreement import agreed_header
from millpond.chain.eth import Eth
from millpond.chain.keys import DEVELOPMENT_CHAIN_ID
from millpond.chain.rpc import Rpc
from millpond.protocol.errors import MillpondError
from millpond.protocol.ids import ZERO_ADDRESS, Address
from millpond.protocol.units import format_amount
from millpond_worker.config import WorkerConfig
from millpond_worker.doctor import FAIL, LEAST_GAS_WEI, OK, TIMEOUT_S, WARN, Check, skew_check
from millpond_worker.doctor_entry import entry_checks
from millpond_worker.home import Home
from millpond_worker.plan import Plan
from millpond_worker.standing import Contracts, Standing, largest_exposure, open_contracts, read_standing, stake_for

BLOCK_TIME_S = 15
INIT = "Run `millpond-worker init`."


async def chain_checks(config: WorkerConfig, home: Home) -> AsyncIterator[Check]:
    rpc = Rpc(config.rpc_url, timeout_s=TIMEOUT_S, chain_id=config.chain_id)
    try:
        async for check in _checks(config, home, Eth(rpc)):
            yield check
    finally:
        await rpc.close()


async def _checks(config: WorkerConfig, home: Home, eth: Eth) -> AsyncIterator[Check]:
    needed = f"chain {config.chain_id}"
    try:
        header = await eth.header()
        chain_id = await eth.chain_id()
    except MillpondError as error:
        yield Check.of(error, "rpc", needed)
        return
    yield Check("rpc", OK, f"{config.rpc_url}, chain {chain_id}, block {header.number if header else 0}", needed)
    yield await rpc_servers_check(eth, chain_id)
    yield skew_check(header.timestamp if header else 0, BLOCK_TIME_S)
    yield await _book(config, home, eth)
    try:
        found = await open_contracts(eth, config.controller)
    except MillpondError as error:
        yield Check("pool", FAIL, error.message, "a pool's controller", "Check `controller` in worker.toml.")
        return
    yield Check("pool", OK, f"{config.controller}, pays in {found.symbol}", "a pool's controller")
    async for check in _standing(config, home, found):
        yield check
    yield await _node(config, found)


async def rpc_servers_check(eth: Eth, chain_id: int) -> Check:
    """Whether a majority of the RPC servers agrees on a block; one server alone is believed, which is said."""
    needed = "a majority of 3 or more RPC servers that agree"
    count = len(eth.rpc.urls)
    if chain_id == DEVELOPMENT_CHAIN_ID and count == 1:
        return Check("rpc_servers", OK, "1, of a development chain", needed)
    if count < 3:
        remedy = 'Write `rpc_url = ["...", "...", "..."]` in worker.toml with servers of different operators.'
        return Check(
            "rpc_servers", WARN, f"{count}: what a lying server says is not noticed or stops work", needed, remedy
        )
    try:
        header = await agreed_header(eth)
    except MillpondError as error:
        return Check.of(error, "rpc_servers", needed)
    return Check("rpc_servers", OK, f"{count}, block {header.number} by majority", needed)


async def _book(config: WorkerConfig, home: Home, eth: Eth) -> Check:
    needed = "this release's contracts"
    try:
        book = AddressBook.load(home.path(config.addresses))
        await verify_book(eth, book)
    except MillpondError as error:
        return Check.of(error, "contracts", needed)
    return Check("contracts", OK, f"{len(book.contracts)} contracts of {config.addresses}", needed)


async def _standing(config: WorkerConfig, home: Home, found: Contracts) -> AsyncIterator[Check]:
    from millpond_worker.assemble import chosen_devices, device_ids, open_gpu, templates_of
    from millpond_worker.keys import open_key

    try:
        operator = open_key(config.key, home, config.chain_id).address
        with closing(open_gpu(config)) as gpu:
            devices = device_ids(config, chosen_devices(config, gpu))
        templates = templates_of(config, devices, found.params.maxDuration, found.decimals)
        standing = await read_standing(found, config.provider, operator, list(devices))
    except MillpondError as error:
        yield Check.of(error, "standing", "a provider of this pool")
        return
    yield gas_check(standing, operator)
    yield provider_check(standing, operator, config.provider)
    for device, info in devices.items():
        yield pool_check(standing, device, info.name, found.controller.address)
    yield stake_check(found, standing, largest_exposure(templates, found.params))
    plan = Plan(
        config.provider,
        operator,
        None,
        devices,
        found.params.minProvision if standing.active else stake_for(templates, found.params),
    )
    try:
        for check in await entry_checks(found, standing, plan):
            yield check
    except MillpondError as error:
        yield Check.of(error, "entry", "the pool's entry rules")


def gas_check(standing: Standing, operator: Address) -> Check:
    needed = f">= {format_amount(LEAST_GAS_WEI, 18)} of the chain's coin"
    held = f"{operator} holds {format_amount(standing.operator_gas, 18)}"
    if standing.operator_gas < LEAST_GAS_WEI:
        return Check(
            "gas",
            FAIL,
            held,
            needed,
            f"{INIT} It sends some of the owner's; or send the chain's coin to the worker's key, which pays for collecting and closing.",
        )
    return Check("gas", OK, held, needed)


def provider_check(standing: Standing, operator: Address, provider: Address) -> Check:
    if standing.provider is None:
        return Check("provider", FAIL, f"{provider} is not registered", "a registered provider", INIT)
    if standing.provider.operator != operator:
        return Check(
            "provider",
            FAIL,
            f"the registered operator is {standing.provider.operator}",
            f"the operator {operator}",
            INIT,
        )
    return Check("provider", OK, f"{provider}, payout {standing.provider.payout}", "a registered provider")


def pool_check(standing: Standing, device: str, name: str, pool: Address) -> Check:
    known = next((item for key, item in standing.registered.items() if key == device), None)
    if known is None:
        return Check("device", FAIL, f"{name} is not registered", "a registered device", INIT)
    if known.pool != pool:
        where = "in no pool" if known.pool == ZERO_ADDRESS else f"in the pool {known.pool}"
        return Check("device", FAIL, f"{name} is {where}", f"in the pool {pool}", INIT)
    if known.isDraining:
        return Check(
            "device", WARN, f"{name} is draining", "open for leases", "Call `Devices.setDraining(device, false)`."
        )
    return Check("device", OK, f"{name} is in the pool, {known.usedShare} per mille used", f"in the pool {pool}")


def stake_check(found: Contracts, standing: Standing, exposure: int) -> Check:
    def amount(value: int) -> str:
        return f"{format_amount(value, found.decimals)} {found.symbol}"

    needed = f"{amount(found.params.minProvision)} provisioned, {amount(exposure)} unreserved for the dearest lease"
    measured = f"{amount(standing.active)} provisioned, {amount(standing.unreserved)} unreserved"
    if exposure:
        measured += f", enough for {standing.unreserved // exposure} more of the dearest lease"
    if standing.is_retired or standing.active < found.params.minProvision or not standing.active:
        return Check("stake", FAIL, measured, needed, f"{INIT} It stakes more with --stake.")
    if standing.unreserved < exposure:
        return Check(
            "stake",
            WARN,
            measured,
            needed,
            "Stake more with `millpond-worker init --stake`, or offer shorter leases (max_duration in worker.toml). What ended leases "
            "reserve is free again after the pool's claim and dispute windows.",
        )
    return Check("stake", OK, measured, needed)


async def _node(config: WorkerConfig, found: Contracts) -> Check:
    import httpx

    from millpond_worker.edge.chain import NODE_KIND

    needed = "a node that answers"
    url = config.node_url
    try:
        if not url:
            node = await found.controller.node()
            url = (await found.controller.service_of(node, NODE_KIND)).uri
        if not url:
            return Check(
                "node", FAIL, "the node has announced no URL", needed, "Wait for the operator's node, or set node_url."
            )
        async with httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False) as client:
            answer = await client.get(f"{url.rstrip('/')}/v1/health")
            said = answer.json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        return Check(
            "node",
            FAIL,
            f"{url}: {str(error) or type(error).__name__}",
            needed,
            "Check that the node runs; the worker waits for it.",
        )
    except MillpondError as error:
        return Check.of(error, "node", needed)
    seen = said if isinstance(said, dict) else {}
    if answer.status_code != 200 or seen.get("chain_id") != config.chain_id:
        return Check(
            "node",
            FAIL,
            f"{url} answered {answer.status_code} for chain {seen.get('chain_id')}",
            needed,
            "Check node_url.",
        )
    return Check("node", OK, f"{url}, version {seen.get('version')}", needed)
