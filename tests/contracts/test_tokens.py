"""The allow-list of tokens."""

import brownie
import pytest
from money import Money, deploy, refusal


@pytest.fixture(scope="module")
def money() -> Money:
    return deploy()


def test_list_newToken_getsNextId(money: Money) -> None:
    second = brownie.MockToken.deploy("Second", "TWO", 6, {"from": money.admin})
    tx = money.tokens.list(second, {"from": money.admin})
    assert dict(tx.events["TokenListed"]) == {"token": second, "id": 2}
    assert money.tokens.idOf(second) == 2
    assert money.tokens.tokenOf(2) == second
    assert money.tokens.isListed(second)
    assert second.decimals() == 6


def test_list_listedToken_reverts(money: Money) -> None:
    with refusal("TokensAlreadyListed", money.token, 1):
        money.tokens.list(money.token, {"from": money.admin})


def test_list_account_reverts(money: Money) -> None:
    with refusal("TokensNotAToken", money.stranger):
        money.tokens.list(money.stranger, {"from": money.admin})


def test_C39_list_byStranger_reverts(money: Money) -> None:
    with refusal("OwnableUnauthorizedAccount", money.stranger):
        money.tokens.list(money.token, {"from": money.stranger})


def test_delist_listedToken_keepsId(money: Money) -> None:
    tx = money.tokens.delist(money.token, {"from": money.admin})
    assert tx.events["TokenDelisted"]["id"] == 1
    assert not money.tokens.isListed(money.token)
    assert money.tokens.idOf(money.token) == 1
    money.tokens.list(money.token, {"from": money.admin})
    assert money.tokens.idOf(money.token) == 1


def test_delist_unlistedToken_reverts(money: Money) -> None:
    with refusal("TokensNotListed", money.stranger):
        money.tokens.delist(money.stranger, {"from": money.admin})


def test_idOf_unknownToken_reverts(money: Money) -> None:
    with refusal("TokensNotListed", money.stranger):
        money.tokens.idOf(money.stranger)


def test_C39_ownership_movesInTwoSteps(money: Money) -> None:
    money.tokens.transferOwnership(money.stranger, {"from": money.admin})
    assert money.tokens.owner() == money.admin
    money.tokens.acceptOwnership({"from": money.stranger})
    assert money.tokens.owner() == money.stranger
    with refusal("OwnableUnauthorizedAccount", money.admin):
        money.tokens.delist(money.token, {"from": money.admin})
