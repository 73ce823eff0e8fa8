import json
import time

import httpx
import pytest

from millpond._nodeapi import Identity, NodeApi
from millpond.errors import NodeRefusedError, NodeUnreachableError
from millpond.protocol.envelope import open_envelope
from millpond.protocol.ids import address, bytes32
from millpond.protocol.messages import VoucherNote
from millpond.protocol.signing import Domain, address_of

KEY = b"\x09" * 32
NODE = address("0x" + "44" * 20)
DOMAIN = Domain(31337, address("0x" + "33" * 20))
LEASE = bytes32(b"\x01" * 32)


def api(handler) -> NodeApi:  # type: ignore[no-untyped-def]
    made = NodeApi("http://node", httpx.MockTransport(handler))
    made.sign_as(Identity(KEY, DOMAIN, NODE))
    return made


async def test_post_of_a_voucher_is_signed_over_method_path_and_body() -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={"cumulative": "5"})

    await api(answer).post_voucher(VoucherNote(LEASE, 5, b"\x01"))

    [request] = seen
    caller = open_envelope(request.headers, DOMAIN, NODE, "POST", request.url.path, request.content, int(time.time()))
    assert caller.signer == address_of(KEY)


async def test_get_with_a_query_signs_the_query_too() -> None:
    paths: list[bool] = []

    def answer(request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path.decode()
        caller = open_envelope(request.headers, DOMAIN, NODE, "GET", path, b"", int(time.time()))
        paths.append("?wait=" in path and caller.signer == address_of(KEY))
        return httpx.Response(404, json={"error": "UnknownError", "message": "none", "remedy": "", "fields": {}})

    with pytest.raises(NodeRefusedError):
        await api(answer).request(LEASE, wait_s=5)
    assert paths == [True]


async def test_answer_of_an_error_keeps_the_nodes_code_remedy_and_status() -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        body = {"error": "QueueFullError", "message": "full", "remedy": "wait", "fields": {"bound": 3}}
        return httpx.Response(400, json=body)

    with pytest.raises(NodeRefusedError) as caught:
        await api(answer).leases()

    error = caught.value
    assert (error.message, error.remedy) == ("QueueFullError: full", "wait")
    assert error.fields == {"bound": 3, "status": 400, "code": "QueueFullError"}


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"error": 5}'])
async def test_answer_that_is_no_error_document_is_still_typed(body: bytes) -> None:
    with pytest.raises(NodeRefusedError, match="HTTP 502"):
        await api(lambda _: httpx.Response(502, content=body)).leases()


async def test_send_to_a_node_that_comes_back_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millpond._nodeapi.RETRY_PAUSE_S", 0.0)
    calls = 0

    def answer(request: httpx.Request) -> httpx.Response:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise httpx.ConnectError("down", request=request)
        return httpx.Response(200, json=[])

    assert await api(answer).leases() == []
    assert calls == 3


async def test_send_to_a_node_that_stays_away_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millpond._nodeapi.RETRY_PAUSE_S", 0.0)

    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("down", request=request)

    with pytest.raises(NodeUnreachableError, match="does not answer"):
        await api(answer).leases()


async def test_send_repeats_with_a_fresh_nonce(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millpond._nodeapi.RETRY_PAUSE_S", 0.0)
    nonces: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        nonces.append(request.headers["x-millpond-nonce"])
        if len(nonces) == 1:
            return httpx.Response(429, headers={"retry-after": "0"}, content=json.dumps({}).encode())
        return httpx.Response(200, json=[])

    await api(answer).leases()
    assert len(set(nonces)) == 2


def test_repr_of_an_identity_does_not_show_its_key() -> None:
    assert KEY.hex() not in repr(Identity(KEY, DOMAIN, NODE))
