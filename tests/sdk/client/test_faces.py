"""The blocking classes offer what the asynchronous ones do, with the same parameters; what differs is named here."""

from __future__ import annotations

import inspect

import pytest

from millpond import AsyncClient, AsyncHandle, AsyncLease, AsyncLeases, Client, Handle, Lease, LeaseSet

PAIRS = [(AsyncClient, Client), (AsyncHandle, Handle), (AsyncLease, Lease), (AsyncLeases, LeaseSet)]
ONLY_ASYNC = {
    AsyncClient: {"connect", "aclose", "place", "attached", "keep"},
    AsyncHandle: set(),
    AsyncLease: {"wait_ready"},
    AsyncLeases: {"batcher", "job", "spec"},
}
ONLY_BLOCKING = {
    Client: {"close"},
    Handle: set(),
    Lease: set(),
    LeaseSet: {"start", "raise_for", "last_job"},
}
UNLIKE = {
    ("Client", "quote"): "takes the vGPUs one by one, and adds up",
    ("Client", "rent"): "takes the vGPUs one by one",
    ("Client", "attach"): "takes the leases one by one",
    ("Client", "withdraw"): "takes the address as text",
    ("LeaseSet", "map"): "shows a bar",
    ("LeaseSet", "command"): "keeps the job itself",
}


@pytest.mark.parametrize(("asynchronous", "blocking"), PAIRS, ids=lambda cls: cls.__name__)
def test_methods_of_both_faces_are_the_same(asynchronous: type, blocking: type) -> None:
    assert names(asynchronous) - ONLY_ASYNC[asynchronous] == names(blocking) - ONLY_BLOCKING[blocking]


@pytest.mark.parametrize(("asynchronous", "blocking"), PAIRS, ids=lambda cls: cls.__name__)
def test_parameters_of_both_faces_are_the_same(asynchronous: type, blocking: type) -> None:
    for name in names(asynchronous) & names(blocking):
        if (blocking.__name__, name) not in UNLIKE:
            assert parameters(asynchronous, name) == parameters(blocking, name), name


@pytest.mark.parametrize(("asynchronous", "blocking"), PAIRS[:1] + PAIRS[2:], ids=lambda cls: cls.__name__)
def test_both_faces_are_context_managers(asynchronous: type, blocking: type) -> None:
    assert hasattr(asynchronous, "__aenter__")
    assert hasattr(blocking, "__enter__")


def names(cls: type) -> set[str]:
    """Public methods; attributes are properties on one face and plain on the other."""
    return {name for name, _ in inspect.getmembers(cls, inspect.isfunction) if not name.startswith("_")}


def parameters(cls: type, name: str) -> list[tuple[str, object, object]]:
    found = inspect.signature(getattr(cls, name)).parameters.values()
    return [(item.name, item.kind, item.default) for item in found]
