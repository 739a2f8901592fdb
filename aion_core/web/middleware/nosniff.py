"""Header with which a browser believes the media type of each response."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

NO_SNIFF = (b"x-content-type-options", b"nosniff")


class NoSniffMiddleware:
    """ASGI middleware. Adds `X-Content-Type-Options: nosniff`: an agent's text must not become a page or a script."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, and add the header to its response."""

        async def send_with_header(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), NO_SNIFF]}
            await send(message)

        await self._app(scope, receive, send_with_header)
