"""Report of `aion smoke`, with a line for each check and hints on common failures."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

import httpx
from a2a.client.errors import A2AClientError
from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH

from aion_core.log import one_line
from aion_tools.smoke import checks, push
from aion_tools.smoke.agent import AgentUnderTest, CheckFailed, CheckSkipped, agent_under_test, read_card
from aion_tools.smoke.credentials import NoCredentials, SmokeCredentials

CHECKS: dict[str, Callable[..., Awaitable[str]]] = {
    "card": checks.card,
    "send": checks.send,
    "stream": checks.stream,
    "cancel": checks.cancel,
    "subscribe": checks.subscribe,
    "webhooks": push.configs,
    "push": push.delivery,
}
TEXT = "Say hello, and count from one to twenty in words, slowly, one to a line."
HINTS = {
    401: "set TOKEN, API_KEY or BASIC to credentials of a scheme in the agent's card",
    403: "the caller lacks permission: is the request signed, and may the signer call it?",
    404: "not found: does the URL contain the stage (/dev), and is --agent in aion.yaml?",
    429: "aion.limits of aion.yaml allows fewer requests",
    502: "the function failed; `sam logs --cw-log-group /aws/lambda/STACK-api` prints its log",
    503: "`sam logs --cw-log-group /aws/lambda/STACK-api` prints the function's log",
}


class Report:
    """Printer and counter of the checks' results."""

    def __init__(self) -> None:
        self.counts = {"ok": 0, "FAILED": 0, "skipped": 0}

    async def run(self, name: str, check: Awaitable[str], time_limit: float) -> None:
        """Run a check with a time limit, in seconds, and print its result."""
        try:
            async with asyncio.timeout(time_limit):
                self.print("ok", name, await check)
        except CheckSkipped as reason:
            self.print("skipped", name, str(reason))
        except CheckFailed as reason:
            self.print("FAILED", name, str(reason))
        except TimeoutError:
            self.print("FAILED", name, f"no result within {time_limit:g} s; set TIMEOUT to wait longer")
        # Report an unexpected error as a failure, so that the remaining checks still run.
        except Exception as error:
            self.print("FAILED", name, error_reason(error))

    def print(self, verdict: str, name: str, why: str) -> None:
        """Print a line with a check's result, name and reason, and count the result."""
        self.counts[verdict] += 1
        print(f"{verdict:8} {name:10} {one_line(' '.join(why.split()))}", flush=True)


@dataclass(frozen=True)
class SmokeOptions:
    """Options of the checks, such as agent, message and webhook."""

    url: str
    """URL of the deployment."""
    agent: str = ""
    """Id of the agent to check; "" for the agent at the deployment's root."""
    text: str = TEXT
    webhook: str = ""
    webhook_port: int = 8765
    only: Sequence[str] = ()
    """Names of the checks to run. Empty to run all checks."""
    timeout: float = 300.0
    """Time limit of each check, in seconds."""


async def check(chosen: SmokeOptions, credentials: SmokeCredentials) -> int:
    """Run the checks and print a line for each. Return the exit code.

    The exit code is 1 if a check failed, and 2 if nothing could be checked.
    """
    deployment = chosen.url.rstrip("/")
    url = f"{deployment}/agents/{chosen.agent}" if chosen.agent else deployment
    report = Report()
    print(f"{url}, with {credentials}", flush=True)
    async with httpx.AsyncClient(auth=credentials, timeout=chosen.timeout) as http:
        try:
            card = await read_card(url, http, credentials)
            if not card.supported_interfaces:
                raise ValueError("the card offers no interface")
        except (A2AClientError, NoCredentials, ValueError) as error:
            report.print("FAILED", "card", f"{missing_card_reason(error, url)}. No other check was made")
            return 2
        agent = agent_under_test(url, deployment, card, http, text=chosen.text, timeout=chosen.timeout)
        for name in chosen.only or CHECKS:
            await report.run(name, _made(name, agent, chosen), chosen.timeout)
    print(", ".join(f"{number} {verdict}" for verdict, number in report.counts.items() if number))
    return 1 if report.counts["FAILED"] else 0


def _made(name: str, agent: AgentUnderTest, chosen: SmokeOptions) -> Awaitable[str]:
    made = CHECKS[name]
    if name == "push":
        made = partial(made, url=chosen.webhook, port=chosen.webhook_port)
    return made(agent)


def missing_card_reason(error: BaseException, url: str) -> str:
    """Return a sentence about the error that prevented reading the agent card from this URL."""
    cause, card = error.__cause__, f"{url}{AGENT_CARD_WELL_KNOWN_PATH}"
    if isinstance(error, NoCredentials):
        return str(error)
    if isinstance(cause, httpx.TransportError):
        # Name the error's class if the error has no text, as a time-out of httpx.
        return f"no response from {card}: {str(cause) or type(cause).__name__}"
    if not isinstance(cause, httpx.HTTPStatusError):
        return f"{card} is not an agent card: {cause or error}"
    return error_reason(error)


def error_reason(error: BaseException) -> str:
    """Return the error as text, with the server's response and a hint on its common cause."""
    cause = error.__cause__
    if not isinstance(cause, httpx.HTTPStatusError):
        return f"{type(error).__name__}: {error}"
    status, body = cause.response.status_code, _body(cause.response)
    text = f"{cause.request.method} {cause.request.url} returned {status}{body and f': {body}'}"
    return f"{text} ({HINTS[status]})" if status in HINTS else text


def _body(response: httpx.Response) -> str:
    """Return the error message in an HTTP response, or "" for an HTML page."""
    try:
        text = response.text
    except httpx.ResponseNotRead:
        return ""
    try:
        return str(json.loads(text)["error"]["message"])
    except (ValueError, LookupError, TypeError):
        return "" if text.lstrip().startswith("<") else text[:200]
