"""Takes up a changed worker.toml in a running worker: offers and policy at once; the rest is named, and waits for the next `up`."""

from __future__ import annotations

from dataclasses import fields, replace

from millpond_worker.agent.core import Agent
from millpond_worker.assemble import Assembled, policy_of, templates_of
from millpond_worker.config import LIVE_KEYS, WorkerConfig, load_config
from millpond_worker.home import Home


def take_up(home: Home, assembled: Assembled, agent: Agent) -> tuple[str, ...]:
    """Settings that changed and need a restart. Raises `WorkerConfigError`, `SetupError`, `UnitError`; then nothing changed."""
    parts, config = assembled.parts, load_config(home)
    templates = templates_of(config, parts.devices, parts.pool.max_duration, assembled.token_decimals)
    policy = policy_of(config, assembled.token_decimals)
    parts.offers.change(templates, policy)
    terms = replace(agent.state.terms, policy=policy)
    is_by_name = parts.launcher.kind == "process"
    agent.state.terms = terms if is_by_name else replace(terms, allow_renters=config.allow_renters or None)
    live = set(LIVE_KEYS) - ({"allow_renters"} if is_by_name else set())
    return tuple(name for name in changed(assembled.config, config) if name not in live)


def changed(old: WorkerConfig, new: WorkerConfig) -> tuple[str, ...]:
    """Names of settings that differ."""
    names = (field.name for field in fields(WorkerConfig))
    return tuple(name for name in names if getattr(old, name) != getattr(new, name))
