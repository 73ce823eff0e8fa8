"""Every error REST answers with: its code, its status, and what it means. Codes are stable: programs may compare them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """`code` is the answer's `error`."""

    code: str
    status: int
    meaning: str


PROBLEMS: tuple[Problem, ...] = (
    Problem("MalformedError", 400, "The bytes are no HTTP request."),
    Problem("QueryError", 400, "A part of the query is not what it should be."),
    Problem("WireError", 400, "The body is not JSON with exactly the fields of its message."),
    Problem("InputError", 400, "A value of the body is out of its range."),
    Problem("LadderError", 400, "The rungs do not rise as a ladder's must."),
    Problem("CidError", 400, "The path holds no CID in canonical form."),
    Problem("BlockTamperedError", 400, "The bytes are not those the CID names."),
    Problem("EnvelopeError", 401, "The request is not signed, or for another node, or its time is over."),
    Problem("SignatureError", 401, "A signature is not by the key it should be by."),
    Problem("NotAPartyError", 403, "The signer may not do this."),
    Problem("NotFoundError", 404, "There is no such thing, or it is somebody else's: the answer is the same."),
    Problem("ReceiptPendingError", 404, "The receipt is there, its batch is not on chain yet; `retry-after` says when to ask again."),
    Problem("BlockNotFoundError", 404, "There is no such block, or it is somebody else's."),
    Problem("MethodNotAllowedError", 405, "The path has other methods; `allow` names them."),
    Problem("SlowBodyError", 408, "The body did not arrive in time."),
    Problem("ReplayError", 409, "The nonce was used before: sign again with a fresh one."),
    Problem("BodyError", 413, "The body is larger than the route takes."),
    Problem("MessageTooLargeError", 413, "The message is larger than any may be."),
    Problem("BlockTooLargeError", 413, "The block is larger than 2 MiB."),
    Problem("QuotaError", 413, "The caller's quota of blocks is used up."),
    Problem("RequestRefusedError", 422, "This pool can never do what is asked."),
    Problem("RateLimitError", 429, "Too many requests of this signer, this address, or of all; `retry-after` says when there is room."),
    Problem("BacklogError", 429, "A queue is full; nothing of the request was kept."),
    Problem("HeadError", 431, "Path, query and headers together are too long."),
    Problem("MillpondError", 500, "The node failed; nothing of the request was promised."),
    Problem("StoppingError", 503, "The node is shutting down."),
    Problem("JournalFailedError", 503, "The node's disk failed: it ends rather than forget."),
    Problem("StoreFullError", 507, "The node's store of blocks is full."),
)  # fmt: skip

BY_CODE = {item.code: item for item in PROBLEMS}
AT_ANY_TIME = ("MalformedError", "HeadError", "RateLimitError", "MillpondError")
WHEN_SIGNED = (
    "EnvelopeError",
    "SignatureError",
    "ReplayError",
    "BodyError",
    "SlowBodyError",
    "StoppingError",
    "JournalFailedError",
)
WITH_MESSAGE = ("WireError", "MessageTooLargeError")


def by_status(codes: tuple[str, ...]) -> dict[int, list[Problem]]:
    """The problems of these codes, by status in rising order, each once."""
    found: dict[int, list[Problem]] = {}
    for item in PROBLEMS:
        if item.code in codes:
            found.setdefault(item.status, []).append(item)
    return found
