"""Enumerations of the contracts."""

from __future__ import annotations

from enum import IntEnum


class LeaseStatus(IntEnum):
    """`IController.LeaseStatus`."""

    NONE = 0
    OPEN = 1
    CLOSED = 2
    RELEASED = 3


class CloseReason(IntEnum):
    """`IController.CloseReason`."""

    RENTER = 0
    PROVIDER = 1
    END = 2
    UNPAID = 3
