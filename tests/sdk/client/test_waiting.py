"""How a renter waits for its request to become a lease: patient with the node, and told why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from millpond import _asyncclient
from millpond._asyncclient import AsyncClient
from millpond._sessions import Session
from millpond.errors import LeaseWaitError, NodeUnreachableError, RequestRefusedError
from millpond.protocol.ids import address, bytes32
from millpond.protocol.views import RequestState, RequestView, Why

REQUEST, LEASE = bytes32(b"\x01" * 32), bytes32(b"\x02" * 32)
QUEUED = RequestView(REQUEST, RequestState.QUEUED, None, "")
OPEN = RequestView(REQUEST, RequestState.OPEN, LEASE, "")


class WaitNode:
    """Gives its answers in turn, the last one for ever; None is a node that is away."""

    def __init__(self, *answers: RequestView | None, reasons: tuple[str, ...] = ("full",)) -> None:
        self.answers, self.reasons = list(answers), list(reasons)

    def sign_as(self, identity: Any) -> None:
        pass

    async def request(self, request: Any, wait_s: int = 0) -> RequestView:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None:
            raise NodeUnreachableError("away")
        return answer

    async def why(self, request: Any) -> Why:
        reason = self.reasons.pop(0) if len(self.reasons) > 1 else self.reasons[0]
        return Why(REQUEST, RequestState.QUEUED, 1, 2, 0, (), reason)

    async def lease(self, lease: Any) -> Any:
        return SimpleNamespace(lease=lease)


@pytest.fixture
def waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[WaitNode], AsyncClient]:
    monkeypatch.setattr(_asyncclient, "AWAY_PAUSE_S", 0.01)
    monkeypatch.setattr(_asyncclient, "OPEN_TIMEOUT_S", 0.3)
    where = address("0x" + "55" * 20)
    pool = SimpleNamespace(chain_id=31337, controller=where, node=where)

    def make(node: WaitNode) -> AsyncClient:
        return AsyncClient(b"\x03" * 32, pool, node, None, tmp_path)  # type: ignore[arg-type]

    return make


def session() -> Session:
    return Session(REQUEST, b"\x04" * 32)


async def test_wait_over_a_node_that_is_away_goes_on(waiting: Any) -> None:
    client = waiting(WaitNode(None, QUEUED, None, None, OPEN))

    assert (await client._wait_open(None, session())).id == LEASE


async def test_wait_for_a_node_that_stays_away_ends_at_the_deadline(waiting: Any) -> None:
    with pytest.raises(NodeUnreachableError):
        await waiting(WaitNode(None))._wait_open(None, session())


async def test_wait_for_room_that_never_comes_says_why(waiting: Any) -> None:
    with pytest.raises(LeaseWaitError, match="still waits: full"):
        await waiting(WaitNode(QUEUED))._wait_open(None, session())


async def test_wait_tells_each_reason_once(waiting: Any) -> None:
    heard: list[str] = []
    node = WaitNode(QUEUED, QUEUED, QUEUED, QUEUED, OPEN, reasons=("full", "full", "third in line", "first in line"))
    await waiting(node)._wait_open(None, session(), lambda why: heard.append(why.message))

    assert heard == ["full", "third in line", "first in line"]


async def test_wait_for_a_refused_request_ends_at_once(waiting: Any) -> None:
    refused = RequestView(REQUEST, RequestState.REFUSED, None, "no")
    with pytest.raises(RequestRefusedError, match="no"):
        await waiting(WaitNode(QUEUED, refused))._wait_open(None, session())
