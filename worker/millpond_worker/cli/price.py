"""`millpond-worker price` and `reload`: change what is offered while the worker runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from millpond.protocol.errors import ConfigError
from millpond_worker import control
from millpond_worker.cli.shared import home_of, home_option, json_option, show_json
from millpond_worker.config import OfferConfig, WorkerConfig, load_config
from millpond_worker.home import Home, is_running
from millpond_worker.settings_file import save_config

RELOAD_S = 60.0
FINE_DECIMALS = 18


@click.command(
    "price",
    help="Write the price of a whole device to worker.toml, each slice at its part of it; a running worker takes it up at once. "
    "Offers signed before at a lower price are cancelled on chain. Running leases keep their price.",
)
@home_option
@json_option
@click.argument("price", metavar="PRICE")
@click.option("--share", type=int, help="Set the price of the offer with this share per mille alone.")
def price_command(folder: str | None, as_json: bool, price: str, share: int | None) -> None:
    home = home_of(folder)
    config = load_config(home)
    if share is not None and share not in {offer.share for offer in config.offers}:
        known = ", ".join(str(offer.share) for offer in config.offers)
        raise ConfigError(f"no offer has the share {share}", remedy=f"There are offers of {known} per mille.")
    offers = tuple(
        offer if share not in (None, offer.share) else _priced(offer, price, share) for offer in config.offers
    )
    wanted = replace(config, offers=offers)
    _check_floor(wanted)
    save_config(wanted, home.config)
    answer = _take_up(home) if is_running(home) else {}
    shown = [{"share": offer.share, "price": offer.price} for offer in offers]
    if as_json:
        show_json({"offers": shown, "is_running": bool(answer), **answer})
        return
    for item in shown:
        click.echo(f"{item['share']} per mille: {item['price']}")
    _tell(answer)


@click.command("reload", help="Let the running worker take up a changed worker.toml; SIGHUP does the same.")
@home_option
@json_option
def reload_command(folder: str | None, as_json: bool) -> None:
    answer = _take_up(home_of(folder))
    if as_json:
        show_json(answer)
    else:
        _tell(answer)


def _priced(offer: OfferConfig, price: str, share: int | None) -> OfferConfig:
    """`share` None: `price` is a whole device's. Raises `UnitError` for a price that is none."""
    from decimal import Decimal

    from millpond.protocol.units import parse_price

    parse_price(price, FINE_DECIMALS)
    amount, _, unit = price.partition("/")
    part = Decimal(amount) * offer.share / 1000 if share is None else Decimal(amount)
    return replace(offer, price=f"{part.normalize():f}/{unit or 'h'}")


def _check_floor(config: WorkerConfig) -> None:
    """Before anything is written. Raises `SetupError`."""
    from millpond.protocol.units import parse_price
    from millpond_worker.assemble import check_floor, policy_of

    policy = policy_of(config, FINE_DECIMALS)
    check_floor(policy, ((parse_price(offer.price, FINE_DECIMALS), offer.share) for offer in config.offers))


def _take_up(home: Home) -> dict[str, Any]:
    answer: dict[str, Any] = control.ask(home, "reload", RELOAD_S)
    if "error" in answer:
        raise ConfigError(answer["message"], remedy=answer["remedy"], **answer.get("fields", {}))
    return answer


def _tell(answer: dict[str, Any]) -> None:
    if not answer:
        click.echo("no worker runs: it is offered from the next `millpond-worker up`")
        return
    click.echo(f"{answer['offers']} offers stand")
    if answer["needs_restart"]:
        click.echo(f"taken up at the next start only: {', '.join(answer['needs_restart'])}")
