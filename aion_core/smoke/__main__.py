"""`make smoke URL=…`: whether a deployed agent does what the official client asks of it; a line for each check."""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from functools import partial

import httpx
from a2a.client.errors import A2AClientError
from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH

from aion_core.smoke import checks, options, push
from aion_core.smoke.credentials import Credentials, NoCredentials
from aion_core.smoke.deployment import Deployment, Failed, Skipped, reached, read_card

CHECKS: dict[str, Callable[..., Awaitable[str]]] = {
    "card": checks.card,
    "send": checks.send,
    "stream": checks.stream,
    "cancel": checks.cancel,
    "subscribe": checks.subscribe,
    "webhooks": push.configs,
    "push": push.delivery,
}
HINTS = {
    401: "TOKEN=…, API_KEY=… or BASIC=… has to be what the agent's card asks for; see docs/security.md",
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
        except Skipped as reason:
            self.say("skipped", name, str(reason))
        except Failed as reason:
            self.say("FAILED", name, str(reason))
        except TimeoutError:
            self.say("FAILED", name, f"it was not over within {patience:g} s; PATIENCE=… gives it longer")
        # Whatever a deployment may answer, the other checks are made too.
        except Exception as error:
            self.say("FAILED", name, explained(error))

    def say(self, verdict: str, name: str, why: str) -> None:
        """Print a line."""
        self.counts[verdict] += 1
        print(f"{verdict:8} {name:10} {' '.join(why.split())}", flush=True)


async def check(given: argparse.Namespace, credentials: Credentials) -> int:
    """Check what is asked for; return the exit code."""
    deployment = given.url.rstrip("/")
    url = f"{deployment}/agents/{given.agent}" if given.agent else deployment
    report = Report()
    print(f"{url}, with {credentials}", flush=True)
    async with httpx.AsyncClient(auth=credentials, timeout=given.patience) as http:
        try:
            card = await read_card(url, http, credentials)
            if not card.supported_interfaces:
                raise ValueError("it offers no interface")
        except (A2AClientError, NoCredentials, ValueError) as error:
            report.say("FAILED", "card", f"{_why_no_card(error, url)}. Nothing else was checked")
            return 2
        agent = reached(url, deployment, card, http, text=given.text, patience=given.patience)
        for name in given.only:
            await report.on(name, _made(name, agent, given), given.patience)
    print(", ".join(f"{number} {verdict}" for verdict, number in report.counts.items() if number))
    return 1 if report.counts["FAILED"] else 0


def _made(name: str, agent: Deployment, given: argparse.Namespace) -> Awaitable[str]:
    made = CHECKS[name]
    if name == "push":
        made = partial(made, url=given.webhook, port=given.webhook_port)
    return made(agent)


def _why_no_card(error: BaseException, url: str) -> str:
    """Return why there is no card of an agent there."""
    cause, card = error.__cause__, f"{url}{AGENT_CARD_WELL_KNOWN_PATH}"
    if isinstance(error, NoCredentials):
        return str(error)
    if isinstance(cause, httpx.TransportError):
        return f"nothing answers at {card}: {cause}"
    if not isinstance(cause, httpx.HTTPStatusError):
        return f"there is no agent card at {card}: {cause or error}"
    return explained(error)


def explained(error: BaseException) -> str:
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


def main(arguments: list[str] | None = None) -> int:
    """Check the deployment that the command line and the environment name."""
    given = options.read(arguments, os.environ, __doc__ or "", list(CHECKS))
    try:
        credentials = Credentials.from_environ(os.environ, given.url, given.sign)
    except NoCredentials as error:
        print(f"smoke: {error}", file=sys.stderr)
        return 2
    return asyncio.run(check(given, credentials))


if __name__ == "__main__":
    sys.exit(main())
