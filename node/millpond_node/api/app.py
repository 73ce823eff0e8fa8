"""The table of routes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from millpond.protocol.errors import MillpondError
from millpond_node.agent import Agent
from millpond_node.api import metrics, openapi, routes, streams
from millpond_node.api.edge import (
    MAX_BLOCK_BODY_BYTES,
    Handler,
    OpenHandler,
    admit,
    answer_error,
    open_to_all,
    signed,
)
from millpond_node.api.ladder import keep_ladder
from millpond_node.api.socket import serve_worker
from millpond_node.errors import MethodNotAllowedError, NotFoundError

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
    ("GET", "/v1/leases/{lease}/usage", routes.usage),
    ("POST", "/v1/leases/{lease}/vouchers", routes.voucher),
    ("POST", "/v1/leases/{lease}/ladder", keep_ladder),
    ("POST", "/v1/jobs/{job}/tasks", routes.submit_tasks),
    ("GET", "/v1/jobs/{job}", routes.job),
    ("GET", "/v1/jobs/{job}/tasks/{task}", routes.task),
    ("GET", "/v1/jobs/{job}/results", streams.results),
    ("POST", "/v1/jobs/{job}/cancel", routes.cancel),
    ("GET", "/v1/jobs/{job}/logs", streams.logs),
    ("GET", "/v1/receipts/{task}/{attempt}", routes.receipt),
    ("GET", "/v1/blocks/{cid}", routes.get_block),
    ("PUT", "/v1/blocks/{cid}", routes.put_block),
)


WORKERS = "/v1/worker"


def build_app(agent: Agent) -> Starlette:
    """The ASGI application over a started agent."""

    async def worker(socket: WebSocket) -> None:
        await serve_worker(agent, socket)

    async def unknown(request: Request, error: Exception) -> Response:
        return _unknown(agent, request, table)

    table = [_route(agent, path, "GET", open_to_all(agent, handler)) for path, handler in OPEN]
    for method, path, handler in SIGNED:
        limit = {"limit": MAX_BLOCK_BODY_BYTES} if method == "PUT" else {}
        table.append(_route(agent, path, method, signed(agent, handler, **limit)))
    routes: list[BaseRoute] = [*table, WebSocketRoute(WORKERS, worker)]
    app = Starlette(routes=routes, exception_handlers={404: unknown, 405: unknown})
    app.router.redirect_slashes = False
    return app


def _route(agent: Agent, path: str, method: str, endpoint: Callable[[Request], Awaitable[Response]]) -> Route:
    """HEAD is answered where it says something a GET does not."""

    async def counted(request: Request) -> Response:
        response = await endpoint(request)
        agent.answers[str(response.status_code)] += 1
        return response

    route = Route(path, counted, methods=[method])
    if route.methods is not None and not path.startswith("/v1/blocks"):
        route.methods.discard("HEAD")
    return route


def _unknown(agent: Agent, request: Request, table: list[Route]) -> Response:
    """Asking for what is not there costs the asker as much as anything else."""
    try:
        admit(agent, request)
    except MillpondError as error:
        return answer_error(agent, error)
    methods = {method for route in table if route.path_regex.match(request.url.path) for method in route.methods or ()}
    if not methods:
        return answer_error(agent, NotFoundError("there is no such path", remedy="See GET /v1/openapi.json."))
    allow = ", ".join(sorted(methods))
    return answer_error(agent, MethodNotAllowedError(f"the path takes {allow}", allow=allow))
