"""The A2A server at a URL: its card, and its answers to the page's requests."""

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import Any

import httpx
from a2a.client.card_resolver import parse_agent_card
from a2a.client.errors import A2AClientError
from a2a.types import AgentCard, AgentInterface
from a2a.utils.constants import TransportProtocol
from a2a.utils.errors import JSON_RPC_ERROR_CODE_MAP, A2AError, InternalError
from starlette.responses import JSONResponse, Response, StreamingResponse

from aion_core.agent_client.bounded import UnusableAnswer
from aion_core.agent_client.checked import usable
from aion_core.agent_client.documents import document_of
from aion_core.agent_client.origin import origin_of
from aion_tools.inspector.translation import STREAMS, Translation

CARD_PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json")
"""Paths of a card since A2A 0.3, and before."""

PASSED_ON = ("a2a-version", "a2a-extensions", "authorization", "last-event-id", "x-api-key")
"""Headers of the page's requests that the server gets, beside those that its card names for API keys. A browser adds
others, such as the cookies of all servers on this machine."""

BROWSERS_OWN = re.compile(
    r"accept.*|connection|content-.*|cookie2?|date|dnt|expect|host|keep-alive|origin|priority|proxy-.*|referer|sec-.*"
    r"|te|trailer|transfer-encoding|upgrade.*|user-agent|via"
)
"""Headers that a browser adds by itself (those that no page can set, fetch.spec.whatwg.org 2.2.2, and some more). A card
that names one for its API key would get the cookies of other servers."""

EVENTS = "text/event-stream"


class CardUnusable(Exception):
    """The server's card cannot be used. The message is a sentence about it, and `received` what the server has sent."""

    def __init__(self, message: str, received: str = "") -> None:
        super().__init__(message)
        self.received = received


class OtherServer(A2AClientError):
    """Error of a request that would have gone to another server than the one at the URL."""


class RemoteAgent:
    """The A2A server at a URL, as an agent with JSON-RPC of A2A 1.0."""

    def __init__(self, url: str, http: httpx.AsyncClient, read_card: Callable[[AgentCard], None]) -> None:
        """`url` is the server's, or that of its card. `read_card` gets each card, to learn what credentials it wants.

        From now on, no request of the client leaves the origin of the URL.
        """
        self.url = url.rstrip("/")
        self._http, self._read_card = http, read_card
        self._card: AgentCard | None = None
        hooks = http.event_hooks
        http.event_hooks = {**hooks, "request": [*hooks["request"], self._stay_here]}

    async def card(self) -> dict[str, Any]:
        """Return the card as the server sends it. Raises CardUnusable, and httpx.RequestError if the server is not there."""
        paths = ("",) if httpx.URL(self.url).path.endswith(".json") else CARD_PATHS
        received = ""
        try:
            for path in paths:
                answer = await document_of(self._http.get(f"{self.url}{path}"))
                received = answer.text
                if answer.status_code != httpx.codes.NOT_FOUND:
                    break
            if answer.status_code != httpx.codes.OK:
                tried = " and ".join(f"{self.url}{each}" for each in paths[: paths.index(path) + 1])
                raise CardUnusable(f"There is no card: {tried} answered with status {answer.status_code}.", received)
            with usable():
                sent = answer.json()
                card = parse_agent_card(answer.json())
        except A2AClientError as error:
            raise CardUnusable(f"The card cannot be used. {error}", received) from error
        self._read_card(card)
        self._card = card
        card_json: dict[str, Any] = sent
        return card_json

    async def answer(self, body: bytes, headers: Mapping[str, str]) -> Response:
        """Send the page's JSON-RPC request to the server, and return the answer: JSON, or a stream of events."""
        try:
            call = json.loads(body)
            number, method, params = call.get("id"), str(call["method"]), call.get("params", {})
        except (ValueError, LookupError, AttributeError, TypeError, RecursionError):
            return Response("The request is not JSON-RPC.\n", 400, media_type="text/plain")
        try:
            if self._card is None:
                await self.card()
            assert self._card is not None  # noqa: S101  # `card` has set it
            own = self._interfaces(self._card)
            direct = (TransportProtocol.JSONRPC, "1.")
            for each in own:
                if (each.protocol_binding, each.protocol_version[:2]) == direct:
                    return await self._passed_on(each.url, body, number, self._headers(headers, self._card))
            card = AgentCard()
            card.CopyFrom(self._card)
            del card.supported_interfaces[:]
            card.supported_interfaces.extend(own)
            return await self._translated(card, method, params, number)
        except (CardUnusable, A2AError, httpx.HTTPError) as error:
            return JSONResponse(_failure(number, error))

    def _interfaces(self, card: AgentCard) -> list[AgentInterface]:
        """Return the card's interfaces at this server. Raises OtherServer if all are those of other servers."""
        origin = origin_of(self.url)
        own = [each for each in card.supported_interfaces if origin_of(each.url) == origin]
        if card.supported_interfaces and not own:
            other = card.supported_interfaces[0].url
            raise OtherServer(
                f"The card of {self.url} sends messages to {other}, and this console calls only {self.url}. "
                f"If you trust that server, call it: aion console {other}"
            )
        return own

    def _headers(self, given: Mapping[str, str], card: AgentCard) -> dict[str, str]:
        schemes = [each.api_key_security_scheme for each in card.security_schemes.values()]
        named = {each.name.lower() for each in schemes if each.location.lower() == "header"}
        named = {name for name in named if not BROWSERS_OWN.fullmatch(name)}
        passed = {name: value for name, value in given.items() if name.lower() in {*PASSED_ON, *named}}
        return {"Content-Type": "application/json", "Accept": f"application/json, {EVENTS}", **passed}

    async def _passed_on(self, url: str, body: bytes, number: Any, headers: Mapping[str, str]) -> Response:
        """Send the request as it is, and return the answer as it is."""
        answer = await self._http.send(
            self._http.build_request("POST", url, content=body, headers=headers), stream=True
        )
        if answer.headers.get("content-type", "").startswith(EVENTS):
            return StreamingResponse(_events(answer, number), answer.status_code, media_type=EVENTS)
        async with aclosing(answer):
            content = await answer.aread()
        try:
            is_answer = isinstance(json.loads(content), dict)
        except (ValueError, RecursionError):
            is_answer = False
        if is_answer:
            return Response(content, answer.status_code, media_type="application/json")
        text = f"The server answers with HTTP status {answer.status_code} {answer.reason_phrase}, and no JSON."
        return JSONResponse({"jsonrpc": "2.0", "id": number, "error": {"code": answer.status_code, "message": text}})

    async def _translated(self, card: AgentCard, method: str, params: Any, number: Any) -> Response:
        try:
            results = Translation(self._http, card).results(method, params)
        except ValueError as error:
            raise UnusableAnswer("Its card has no interface for JSON-RPC or HTTP+JSON.") from error
        if method in STREAMS:
            return StreamingResponse(_frames(results, number), media_type=EVENTS)
        async with aclosing(results):
            return JSONResponse({"jsonrpc": "2.0", "id": number, "result": await anext(results)})

    async def _stay_here(self, request: httpx.Request) -> None:
        if origin_of(request.url) != origin_of(self.url):
            raise OtherServer(f"This console calls only {self.url}, and not {request.url}.")


async def _events(answer: httpx.Response, number: Any) -> AsyncIterator[bytes]:
    """Yield the pieces of a stream. It ends as the server's does; an unusable event ends it with an error."""
    async with aclosing(answer):
        try:
            async for piece in answer.aiter_raw():
                yield piece
        except A2AClientError as error:
            yield _frame(_failure(number, error))
        except httpx.HTTPError:
            return  # the page subscribes to the task again


async def _frames(results: AsyncGenerator[dict[str, Any]], number: Any) -> AsyncIterator[bytes]:
    try:
        async for result in results:
            yield _frame({"jsonrpc": "2.0", "id": number, "result": result})
    except (A2AError, httpx.HTTPError) as error:
        yield _frame(_failure(number, error))


def _frame(content: Any) -> bytes:
    return f"data: {json.dumps(content, ensure_ascii=False)}\n\n".encode()


def _failure(number: Any, error: Exception) -> dict[str, Any]:
    """Return the error as a response of JSON-RPC. An HTTP status is its code, so that the page asks for credentials."""
    cause = error.__cause__
    code = JSON_RPC_ERROR_CODE_MAP.get(type(error)) if isinstance(error, A2AError) else None
    if code is None:
        code = (
            cause.response.status_code
            if isinstance(cause, httpx.HTTPStatusError)
            else JSON_RPC_ERROR_CODE_MAP[InternalError]
        )
    text = f"The server's answer cannot be used. {error}" if isinstance(error, UnusableAnswer) else str(error)
    if isinstance(error, httpx.HTTPError):
        text = f"The server doesn't answer: {error or type(error).__name__}"
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": text}}
