"""Errors of devices and slices.

ConfigError
├── DeviceDriverError        the driver is missing or answers with an error
└── DeviceUnknownError       no device with this uuid on this machine
InputError
├── SliceShapeError          a slice's share, memory or mode makes no sense
└── SliceOverflowError       the device has not that much share or memory left
"""

from __future__ import annotations

from millpond.protocol.errors import ConfigError, InputError


class DeviceDriverError(ConfigError):
    """Fields: `driver`, `reason`."""

    remedy_text = "Install or repair the device's driver, or run the worker with `--device cpu`."


class DeviceUnknownError(ConfigError):
    """Fields: `uuid`."""

    remedy_text = "List this machine's devices with `millpond-worker doctor`."


class SliceShapeError(InputError):
    """Fields: `name`, `actual`, `bound`."""

    remedy_text = "Ask for a share of 1 to 1000 per mille and at least 16 MiB of memory."


class SliceOverflowError(InputError):
    """Fields: `device`, `resource` (share or memory), `wanted`, `free`."""

    remedy_text = "Ask for a smaller slice, or close a lease on this device first."
