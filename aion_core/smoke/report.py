"""The checks of `aion smoke`, one after the other: a line for each, and what is mostly behind a failure."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

import httpx
from a2a.client.errors import A2AClientError
from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH

from aion_core.smoke import checks, push
from aion_core.smoke.agent import AgentUnderTest, CheckFailed, CheckSkipped, agent_under_test, read_card
from aion_core.smoke.credentials import NoCredentials, SmokeCredentials

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
    401: "TOKEN=…, API_KEY=… or BASIC=… has to be what the agent's card asks for",
    403: "whoever asks may not: is it signed, and may the signer call it?",
    404: "nothing is there: does the URL hold the stage (/dev), and is AGENT in aion.yaml?",
    429: "more was asked for than aion.limits of aion.yaml allows",
    502: "the function has failed; see the log group of ApiFunction",
    503: "see the log group of ApiFunction",
}


class Report:
    """Prints what each check came to, and counts."""

    def __init__(self) -> None:
        self.counts = {"ok": 0, "FAILED": 0, "skipped": 0}

    async def on(self, name: str, check: Awaitable[str], patience: float) -> None:
        """Wait for the check, and say what it came to."""
        try:
            async with asyncio.timeout(patience):
                self.say("ok", name, await check)
        except CheckSkipped as reason:
            self.say("skipped", name, str(reason))
        except CheckFailed as reason:
            self.say("FAILED", name, str(reason))
        except TimeoutError:
            self.say("FAILED", name, f"it was not over within {patience:g} s; PATIENCE=… gives it longer")
        # Whatever a deployment may answer, the other checks are made too.
        except Exception as error:
            self.say("FAILED", name, error_reason(error))

    def say(self, verdict: str, name: str, why: str) -> None:
        """Print a line."""
        self.counts[verdict] += 1
        print(f"{verdict:8} {name:10} {' '.join(why.split())}", flush=True)


@dataclass(frozen=True)
class SmokeOptions:
    """Options of the checks: agent, message, webhook."""

    url: str
    """URL of the deployment."""
    agent: str = ""
    """The id of an agent; "" is the one at the deployment's root."""
    text: str = TEXT
    webhook: str = ""
    webhook_port: int = 8765
    only: Sequence[str] = ()
    """Names of checks; all where none is named."""
    patience: float = 300.0
    """Time limit of each check, in seconds."""


async def check(asked: SmokeOptions, credentials: SmokeCredentials) -> int:
    """Make the checks and print a line for each; return the exit code: 1 if one failed, 2 if nothing could be checked."""
    deployment = asked.url.rstrip("/")
    url = f"{deployment}/agents/{asked.agent}" if asked.agent else deployment
    report = Report()
    print(f"{url}, with {credentials}", flush=True)
    async with httpx.AsyncClient(auth=credentials, timeout=asked.patience) as http:
        try:
            card = await read_card(url, http, credentials)
            if not card.supported_interfaces:
                raise ValueError("it offers no interface")
        except (A2AClientError, NoCredentials, ValueError) as error:
            report.say("FAILED", "card", f"{missing_card_reason(error, url)}. Nothing else was checked")
            return 2
        agent = agent_under_test(url, deployment, card, http, text=asked.text, patience=asked.patience)
        for name in asked.only or CHECKS:
            await report.on(name, _made(name, agent, asked), asked.patience)
    print(", ".join(f"{number} {verdict}" for verdict, number in report.counts.items() if number))
    return 1 if report.counts["FAILED"] else 0


def _made(name: str, agent: AgentUnderTest, asked: SmokeOptions) -> Awaitable[str]:
    made = CHECKS[name]
    if name == "push":
        made = partial(made, url=asked.webhook, port=asked.webhook_port)
    return made(agent)


def missing_card_reason(error: BaseException, url: str) -> str:
    """Return why there is no card of an agent there."""
    cause, card = error.__cause__, f"{url}{AGENT_CARD_WELL_KNOWN_PATH}"
    if isinstance(error, NoCredentials):
        return str(error)
    if isinstance(cause, httpx.TransportError):
        return f"nothing answers at {card}: {cause}"
    if not isinstance(cause, httpx.HTTPStatusError):
        return f"there is no agent card at {card}: {cause or error}"
    return error_reason(error)


def error_reason(error: BaseException) -> str:
    """Return what went wrong, with what the server answered and what is mostly behind it."""
    cause = error.__cause__
    if not isinstance(cause, httpx.HTTPStatusError):
        return f"{type(error).__name__}: {error}"
    status, body = cause.response.status_code, _body(cause.response)
    said = f"{cause.request.method} {cause.request.url} was answered with {status}{body and f': {body}'}"
    return f"{said} ({HINTS[status]})" if status in HINTS else said


def _body(response: httpx.Response) -> str:
    """Return what the answer says: the message of an error of ours, nothing of a page for people."""
    try:
        text = response.text
    except httpx.ResponseNotRead:
        return ""
    try:
        return str(json.loads(text)["error"]["message"])
    except (ValueError, LookupError, TypeError):
        return "" if text.lstrip().startswith("<") else text[:200]
