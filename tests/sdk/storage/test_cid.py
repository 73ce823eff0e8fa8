from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.storage import CidError, Codec, cid_from_bytes, cid_of, cid_to_bytes, codec_of, parse_cid

EMPTY = "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku"
EMPTY_DIRECTORY_V0 = "QmUNLLsPACCz1vLxQVkXqqLX5R1X345qqfHbsf67hvA3Nn"
EMPTY_DIRECTORY_V1 = "bafybeiczsscdsbs7ffqz55asqdf3smv6klcw3gofszvwlyarci47bgf354"


def test_cid_of_nothing_is_the_known_one() -> None:
    assert cid_of(b"") == EMPTY


def test_parse_cid_v0_gives_its_v1() -> None:
    assert parse_cid(EMPTY_DIRECTORY_V0) == EMPTY_DIRECTORY_V1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "b",
        "bafy",
        EMPTY.upper(),
        EMPTY[:-1],
        EMPTY + "a",
        "z" + EMPTY[1:],
        EMPTY[:-1] + "v",
        EMPTY[:20] + "1" + EMPTY[21:],
        EMPTY[:20] + "é" + EMPTY[21:],
        " " + EMPTY,
        EMPTY + "\n",
        EMPTY_DIRECTORY_V0[:-1] + "0",
        "Qm" + "z" * 44,
        "bafyreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku",
        "../" + EMPTY[3:],
    ],
)
def test_parse_cid_malformed_text_is_refused(text: str) -> None:
    with pytest.raises(CidError):
        parse_cid(text)


def test_parse_cid_of_no_text_is_refused() -> None:
    with pytest.raises(CidError):
        parse_cid(b"bafk")  # type: ignore[arg-type]


@pytest.mark.parametrize("head", ["00551220", "02551220", "01711220", "01551320", "01551214", "01550020"])
def test_cid_from_bytes_other_version_codec_or_hash_is_refused(head: str) -> None:
    with pytest.raises(CidError):
        cid_from_bytes(bytes.fromhex(head) + bytes(32))


@given(st.binary(max_size=200), st.sampled_from(Codec))
def test_cid_any_block_round_trips(block: bytes, codec: Codec) -> None:
    cid = cid_of(block, codec)
    assert parse_cid(cid) == cid == cid_from_bytes(cid_to_bytes(cid))
    assert codec_of(cid) is codec
    assert cid_to_bytes(cid)[4:] == hashlib.sha256(block).digest()


@st.composite
def nearly_cids(draw: st.DrawFn) -> str:
    """A CID with one character replaced, dropped, added or raised."""
    cid = cid_of(draw(st.binary(max_size=8)), draw(st.sampled_from(Codec)))
    at = draw(st.integers(0, len(cid) - 1))
    char = draw(st.sampled_from("abcdefghijklmnopqrstuvwxyz234567") | st.characters())
    return draw(
        st.sampled_from(
            [cid, cid[:at] + char + cid[at + 1 :], cid[:at] + cid[at + 1 :], cid[:at] + char + cid[at:], cid.upper()]
        )
    )


@given(nearly_cids() | st.text(max_size=64))
def test_parse_cid_any_text_is_canonical_or_refused(text: str) -> None:
    """One content has one spelling: what is accepted is what its own bytes give."""
    try:
        cid = parse_cid(text)
    except CidError as error:
        assert error.remedy
    else:
        assert text == cid == cid_from_bytes(cid_to_bytes(cid))


def test_parse_cid_with_bits_beyond_its_last_byte_is_refused() -> None:
    cid = cid_of(b"hello")
    others = [char for char in "abcdefghijklmnopqrstuvwxyz234567" if char != cid[-1]]
    accepted = [parse_cid(cid[:-1] + char) for char in others if _is_cid(cid[:-1] + char)]

    assert len(accepted) == len(set(accepted)) < len(others)
    assert cid not in accepted


def _is_cid(text: str) -> bool:
    try:
        parse_cid(text)
    except CidError:
        return False
    return True


@given(st.binary(max_size=40))
def test_cid_from_bytes_any_bytes_is_typed(data: bytes) -> None:
    try:
        cid = cid_from_bytes(data)
    except CidError as error:
        assert error.message
    else:
        assert cid_to_bytes(cid)[-32:] == data[-32:]
