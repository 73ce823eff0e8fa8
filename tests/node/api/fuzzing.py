"""Cases of schemathesis, signed like a client's, sent to a real server, and their answers checked against the document."""

from __future__ import annotations

import random
import re
import secrets
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from millpond.protocol.envelope import HEADER_AUDIENCE, HEADER_EXPIRY, HEADER_NONCE, HEADER_SIGNATURE, seal
from millpond.protocol.signing import Domain
from millpond_node.api.openapi import document

ENVELOPE = (HEADER_AUDIENCE, HEADER_EXPIRY, HEADER_NONCE, HEADER_SIGNATURE)
CHECKS = [
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
SIGNING = ("renter",) * 16 + ("stranger",) + ("unsigned",) + ("garbled",) * 2
TOLD_EVERY = 1000
SECONDS = 20.0


schemathesis.serializer.alias("application/vnd.ipld.raw", "application/octet-stream")


@dataclass
class Target:
    """A node with a lease and a job. `known` are ids that exist, by name of the path's part."""

    url: str
    domain: Domain
    audience: str
    keys: dict[str, bytes]
    known: dict[str, str]
    session: requests.Session = field(default_factory=requests.Session)


@dataclass
class Count:
    """What was sent and what came back."""

    cases: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)

    def table(self) -> str:
        ways = ", ".join(f"{name} {count}" for name, count in sorted(self.cases.items()))
        lines = [f"{self.cases.total()} cases: {ways}"]
        lines += [f"  {status}: {count}" for status, count in sorted(self.statuses.items())]
        lines += [f"  {code}: {count}" for code, count in sorted(self.codes.items())]
        return "\n".join(lines)


def run_cases(target: Target, cases: int, start: int) -> Count:
    """At least `cases` cases, over all operations in both modes. Raises what a check finds."""
    schema = schemathesis.openapi.from_dict(_without_envelope(document()))
    operations = [found.ok() for found in schema.get_all_operations()]
    count, dice = Count(), random.Random(start)
    modes = [(one, mode) for one in operations for mode in GenerationMode if _has_parts(one) or mode.is_positive]
    while (left := cases - count.cases.total()) > 0:  # what has few cases leaves the rest to the others
        for operation, mode in modes:
            _run(operation, mode, -(-left // len(modes)), dice.getrandbits(32), target, count, dice)
    return count


def _without_envelope(said: dict[str, Any]) -> dict[str, Any]:
    """The envelope's headers are signed for each case, or garbled, and need not be drawn before."""
    for path in said["paths"].values():
        for operation in path.values():
            operation["parameters"] = [one for one in operation["parameters"] if "$ref" not in one]
    return said


def _has_parts(operation: Any) -> bool:
    return bool(list(operation.iter_parameters())) or bool(operation.body)


def _run(operation: Any, mode: Any, each: int, start: int, target: Target, count: Count, dice: random.Random) -> None:
    @seed(start)
    @settings(
        max_examples=each,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=mode))
    def one(case: Any) -> None:
        _one(case, target, count, dice)

    one()


def _one(case: Any, target: Target, count: Count, dice: random.Random) -> None:
    _make_reachable(case, target.known, dice)
    way = dice.choice(SIGNING)
    request = _prepared(case, target)
    if request is None:
        return
    _sign(request, way, target, dice)
    answer = target.session.send(request, timeout=SECONDS, allow_redirects=False)
    count.cases[way] += 1
    count.statuses[answer.status_code] += 1
    if count.cases.total() % TOLD_EVERY == 0:
        print(f"{count.cases.total()} cases, by status {dict(sorted(count.statuses.items()))}", flush=True)
    assert answer.status_code < 500, (request.method, request.url, answer.text)
    if answer.status_code >= 400 and request.method != "HEAD":
        said = answer.json()
        assert set(said) == {"error", "message", "remedy", "fields"}
        assert said["message"]
        assert said["remedy"]
        count.codes[said["error"]] += 1
    if _is_of(case.operation.path, request) and answer.headers.get("content-type") != "application/x-ndjson":
        case.validate_response(answer, checks=CHECKS)


def _make_reachable(case: Any, known: dict[str, str], dice: random.Random) -> None:
    """Most cases name things that exist, so that they get beyond the 404; nobody waits for what will not happen."""
    for name in case.path_parameters or {}:
        if name in known and dice.random() < 0.7:
            case.path_parameters[name] = known[name]
    query = case.query if isinstance(case.query, dict) else {}
    if str(query.get("wait", "")).isdigit() and 0 < int(query["wait"]) <= 30:
        query["wait"] = 0
    if "task" in query and dice.random() < 0.7:
        query["task"] = known["task"]
    if isinstance(case.body, dict) and dice.random() < 0.7:
        for name in ("job", "lease"):
            if name in case.body:
                case.body[name] = known[name]
        if "leases" in case.body:
            case.body["leases"] = [known["lease"]]


def _prepared(case: Any, target: Target) -> requests.PreparedRequest | None:
    """The bytes as they will go out; None for what no HTTP client can send."""
    parts = case.as_transport_kwargs(base_url=target.url)
    parts.pop("allow_redirects", None)
    try:
        return requests.Request(**{key: parts[key] for key in parts if key in REQUEST_PARTS}).prepare()
    except (requests.RequestException, ValueError, UnicodeError):
        return None


REQUEST_PARTS = {"method", "url", "headers", "files", "data", "params", "auth", "cookies", "hooks", "json"}


def _sign(request: requests.PreparedRequest, way: str, target: Target, dice: random.Random) -> None:
    for name in ENVELOPE:
        request.headers.pop(name, None)
    if way == "unsigned":
        return
    body = request.body or b""
    sent = body.encode() if isinstance(body, str) else bytes(body)
    key = target.keys["stranger" if way == "stranger" else "renter"]
    sealed = seal(
        key,
        target.domain,
        target.audience,
        request.method,
        request.path_url,
        sent,
        secrets.randbits(256),
        int(time.time()),
    )
    if way == "garbled":
        name = dice.choice(ENVELOPE)
        sealed[name] = dice.choice(["", "x", "0x", "-1", "9" * 90, "0x" + "ff" * 65, sealed[name][:-1], "\u00e9"])
    request.headers.update({name: value.encode("latin-1") for name, value in sealed.items()})


def _is_of(path: str, request: requests.PreparedRequest) -> bool:
    """Whether what went out still is the operation's path: a part with a slash or with dots is another one."""
    sent = request.path_url.split("?")[0]
    return re.fullmatch(re.sub(r"{\w+}", "[^/]+", path), sent) is not None
