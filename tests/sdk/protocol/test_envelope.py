import pytest

from millpond.protocol.envelope import HEADER_EXPIRY, HEADER_SIGNATURE, EnvelopeError, open_envelope, seal
from millpond.protocol.errors import InputError
from millpond.protocol.ids import address
from millpond.protocol.signing import Domain, address_of

KEY = b"\x07" * 32
NODE = address("0x" + "44" * 20)
DOMAIN = Domain(31337, address("0x" + "33" * 20))
NOW = 1_700_000_000


def sealed(**changes: str) -> dict[str, str]:
    return seal(KEY, DOMAIN, NODE, "POST", "/v1/requests?x=1", b"body", 42, NOW) | changes


def test_open_envelope_of_a_sealed_request_names_its_signer() -> None:
    caller = open_envelope(sealed(), DOMAIN, NODE, "POST", "/v1/requests?x=1", b"body", NOW)

    assert (caller.signer, caller.nonce, caller.expiry) == (address_of(KEY), 42, NOW + 60)


@pytest.mark.parametrize(
    ("domain", "method", "path", "body"),
    [
        (Domain(1, DOMAIN.contract), "POST", "/v1/requests?x=1", b"body"),
        (Domain(31337, NODE), "POST", "/v1/requests?x=1", b"body"),
        (DOMAIN, "PUT", "/v1/requests?x=1", b"body"),
        (DOMAIN, "POST", "/v1/requests?x=2", b"body"),
        (DOMAIN, "POST", "/v1/requests", b"body"),
        (DOMAIN, "POST", "/v1/requests?x=1", b"bodY"),
    ],
)
def test_A05_open_envelope_with_any_part_swapped_does_not_name_the_signer(
    domain: Domain, method: str, path: str, body: bytes
) -> None:
    try:
        caller = open_envelope(sealed(), domain, NODE, method, path, body, NOW)
    except InputError:
        return
    assert caller.signer != address_of(KEY)


def test_A05_open_envelope_for_another_audience_refuses() -> None:
    with pytest.raises(EnvelopeError, match="signed for"):
        open_envelope(sealed(), DOMAIN, address("0x" + "45" * 20), "POST", "/v1/requests?x=1", b"body", NOW)


@pytest.mark.parametrize("now", [NOW + 61, NOW - 61])
def test_A02_open_envelope_outside_its_time_refuses(now: int) -> None:
    with pytest.raises(EnvelopeError, match="expiry"):
        open_envelope(sealed(), DOMAIN, NODE, "POST", "/v1/requests?x=1", b"body", now)


@pytest.mark.parametrize("headers", [{}, sealed(**{HEADER_EXPIRY: "soon"}), sealed(**{HEADER_SIGNATURE: "0xzz"})])
def test_A04_open_envelope_without_readable_headers_refuses(headers: dict[str, str]) -> None:
    with pytest.raises(EnvelopeError, match="not signed"):
        open_envelope(headers, DOMAIN, NODE, "POST", "/v1/requests?x=1", b"body", NOW)
