"""Writes worker.toml."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from millpond.protocol.messages import TICK_SECONDS
from millpond_worker.config import OfferConfig, WorkerConfig
from millpond_worker.machine.policy import shown_hours

_HEAD = (
    "# Settings of a Millpond worker, written by `millpond-worker init`. Check them with `millpond-worker doctor`.\n\n"
)


def toml_of(config: WorkerConfig) -> str:
    """What `parse_config` reads back as the same settings."""
    plain: dict[str, Any] = {
        "rpc_url": config.rpc_url,
        "chain_id": config.chain_id,
        "controller": config.controller,
        "addresses": config.addresses,
        "provider": config.provider,
        "key": config.key.keystore,
        "key_password_file": config.key.password_file,
        "dev_key": config.key.dev_key,
        "node_url": config.node_url,
        "finality": config.finality,
        "launcher": config.launcher,
        "allow_renters": sorted(config.allow_renters),
        "task_image": config.task_image,
        "device": config.device,
        "device_label": config.device_label,
        "cores": config.cores or None,
        "memory_mib": config.memory_mib or None,
        "uuids": list(config.uuids),
        "allow_old_runtime": config.allow_old_runtime,
        "hours": [shown_hours(item) for item in config.hours],
        "time_zone": config.time_zone if config.hours else "",
        "price_floor": config.price_floor,
        "allow_images": list(config.allow_images),
        "refuse_images": list(config.refuse_images),
        "refuse_renters": sorted(config.refuse_renters),
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in plain.items() if value not in (None, "", [])]
    return _HEAD + "\n".join(lines) + "\n" + "".join(_offer(offer) for offer in config.offers)


def save_config(config: WorkerConfig, path: Path) -> bool:
    """Writes the file; whether it changed. What was there before is kept beside it."""
    text = toml_of(config)
    if path.exists():
        old = path.read_text()
        if old == text:
            return False
        path.with_suffix(".toml.old").write_text(old)
    draft = path.with_suffix(".toml.new")
    draft.write_text(text)
    draft.chmod(0o600)
    draft.replace(path)
    return True


def _offer(offer: OfferConfig) -> str:
    plain: dict[str, Any] = {
        "share": offer.share,
        "memory": f"{offer.memory_mib}MiB",
        "price": offer.price,
        "disk": f"{offer.disk_mib}MiB",
        "max_duration": f"{offer.max_duration}s" if offer.max_duration else None,
        "notice": f"{offer.notice}s",
        "cap_per_renter": offer.cap_per_renter or None,
        "tick": f"{offer.tick}s" if offer.tick != TICK_SECONDS else None,
    }
    return "\n[[offers]]\n" + "".join(
        f"{name} = {json.dumps(value)}\n" for name, value in plain.items() if value is not None
    )
