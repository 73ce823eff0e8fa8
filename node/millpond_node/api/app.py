"""The table of routes."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from millpond_node.agent import Agent
from millpond_node.api import metrics, openapi, routes, streams
from millpond_node.api.edge import MAX_BLOCK_BODY_BYTES, Handler, OpenHandler, answer_error, open_to_all, signed
from millpond_node.api.ladder import keep_ladder
from millpond_node.api.socket import serve_worker
from millpond_node.errors import NotFoundError

OPEN: tuple[tuple[str, OpenHandler], ...] = (
    ("/v1/health", routes.health),
    ("/v1/pool", routes.pool),
    ("/v1/openapi.json", openapi.document_route),
    ("/metrics", metrics.metrics),
)
SIGNED: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/v1/offers", routes.offers),
    ("POST", "/v1/requests", routes.submit_request),
    ("GET", "/v1/requests/{hash}", routes.get_request),
    ("GET", "/v1/why/{hash}", routes.why),
    ("GET", "/v1/leases", routes.leases),
    ("GET", "/v1/leases/{lease}", routes.lease),
    ("POST", "/v1/leases/{lease}/vouchers", routes.voucher),
    ("POST", "/v1/leases/{lease}/ladder", keep_ladder),
    ("POST", "/v1/jobs/{job}/tasks", routes.submit_tasks),
    ("GET", "/v1/jobs/{job}", routes.job),
    ("GET", "/v1/jobs/{job}/results", streams.results),
    ("POST", "/v1/jobs/{job}/cancel", routes.cancel),
    ("GET", "/v1/jobs/{job}/logs", streams.logs),
    ("GET", "/v1/receipts/{task}/{attempt}", routes.receipt),
    ("GET", "/v1/blocks/{cid}", routes.get_block),
    ("PUT", "/v1/blocks/{cid}", routes.put_block),
)


def build_app(agent: Agent) -> Starlette:
    """The ASGI application over a started agent."""

    async def worker(socket: WebSocket) -> None:
        await serve_worker(agent, socket)

    async def unknown(request: Request, error: Exception) -> Response:
        return answer_error(agent, NotFoundError("there is no such path or method", remedy="See GET /v1/openapi.json."))

    table: list[Route | WebSocketRoute] = [Route(path, open_to_all(agent, handler)) for path, handler in OPEN]
    for method, path, handler in SIGNED:
        limit = {"limit": MAX_BLOCK_BODY_BYTES} if method == "PUT" else {}
        table.append(Route(path, signed(agent, handler, **limit), methods=[method]))
    table.append(WebSocketRoute("/v1/worker", worker))
    return Starlette(routes=table, exception_handlers={404: unknown, 405: unknown})
