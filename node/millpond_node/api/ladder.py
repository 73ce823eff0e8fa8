"""The endpoint that takes a ladder."""

from __future__ import annotations

from starlette.responses import Response

from millpond.protocol import wire
from millpond.protocol.ladders import Ladder
from millpond_node.agent import Agent
from millpond_node.api.edge import Call, reply_json
from millpond_node.errors import RequestRefusedError


async def keep_ladder(agent: Agent, call: Call) -> Response:
    """What the lease's ladder may still release, as a decimal string."""
    ladder = wire.read(Ladder, call.body)
    if ladder.lease != call.id("lease"):
        raise RequestRefusedError(
            "the body names another lease than the path", remedy="Send the lease's own id in both."
        )
    await agent.ladders.keep(call.caller, ladder, call.body)
    await agent.core.durable.settled()
    return reply_json({"rungs": len(ladder.rungs), "left": str(agent.ladders.left(ladder.lease))})
