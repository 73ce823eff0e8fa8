"""The endpoint that takes a ladder."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import Response

from millpond.protocol import wire
from millpond.protocol.ladders import Ladder
from millpond.protocol.messages import Amount, Message
from millpond_node.agent import Agent
from millpond_node.api.edge import Call, reply
from millpond_node.errors import RequestRefusedError


@dataclass(frozen=True, slots=True)
class LadderKept(Message):
    """`rungs` of the ladder sent, and what it may still release."""

    rungs: int
    left: Amount


async def keep_ladder(agent: Agent, call: Call) -> Response:
    ladder = wire.read(Ladder, call.body)
    if ladder.lease != call.id("lease"):
        raise RequestRefusedError(
            "the body names another lease than the path", remedy="Send the lease's own id in both."
        )
    await agent.ladders.keep(call.caller, ladder, call.body)
    await agent.core.durable.settled()
    return reply(LadderKept(len(ladder.rungs), agent.ladders.left(ladder.lease)))
