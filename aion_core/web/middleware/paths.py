"""Request paths below the server's root path."""

from collections.abc import Container

from starlette.types import ASGIApp, Receive, Scope, Send


def agent_at(path: str, agent_ids: Container[str], at_root: str) -> str:
    """Return the agent id in a request path. For any other path return `at_root`, the id of the agent at the root."""
    _, _, rest = path.partition("/agents/")
    agent_id = rest.partition("/")[0] if path.startswith("/agents/") else ""
    return agent_id if agent_id in agent_ids else at_root


def route_path(scope: Scope) -> str:
    """Return the request path without the server's root path, to compare it with route paths."""
    path: str = scope["path"]
    root = root_path(scope)
    return path.removeprefix(root) if path.startswith(f"{root}/") else path


def root_path(scope: Scope) -> str:
    """Return the server's root path with a slash at its beginning and none at its end; "" without a root path."""
    root = scope.get("root_path", "").strip("/")
    return f"/{root}" if root else ""


class PathMiddleware:
    """ASGI middleware. Adapts paths to the routes: Starlette needs a root path such as `/api`, not `api` or `/api/`.

    It also removes one slash from the end of a request path, because no HTTP+JSON route ends with a slash; but not an
    encoded one (%2F), which ends the id of a push config. It runs after authentication, so a public path with such a
    slash requires credentials.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request under the adapted paths."""
        if scope.get("root_path"):
            scope = {**scope, "root_path": root_path(scope)}
        if scope["type"] == "http" and (scope.get("raw_path") or b"/").endswith(b"/"):
            path = route_path(scope)
            if len(path) > 1 and path.endswith("/") and path[-2] != "/":
                scope = {**scope, "path": scope["path"].removesuffix("/")}
        await self._app(scope, receive, send)
