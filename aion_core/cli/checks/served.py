"""A deployment by its URL: whether it answers, as whom it wants one, what its card says, and how late it is there."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import httpx

from aion_core.agents.config import AgentConfig
from aion_core.agents.security import declared_securities
from aion_core.cli.checks.check import Check, failed, ok, warning
from aion_core.errors import ConfigurationError, StoreError

TIMEOUT_SECONDS = 20.0
"""A cold start, and then some."""

LATE_SECONDS = 60
TOO_LATE_SECONDS = 300
"""AWS takes no signature that is older, or younger."""

CARD_PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json")
LOCAL = ("127.0.0.1", "localhost", "::1")


async def served(url: str) -> AsyncIterator[Check]:
    """Look at what answers at the URL."""
    url = url.rstrip("/")
    async with httpx.AsyncClient(timeout=TIMEOUT_SECONDS, follow_redirects=False) as client:
        try:
            first = await client.get(url + CARD_PATHS[0])
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            do = "Is the URL right (output ApiUrl or FunctionUrl), and does this network reach it?"
            yield failed("reachability", f"{url} does not answer: {str(error) or type(error).__name__}.", do)
            return
        yield ok("reachability", f"{url} answers.")
        yield _clock(first, datetime.now(UTC))
        signs = first.status_code == 403
        for path in CARD_PATHS:
            for check in _card(url, path, await _got(client, url + path, signed=signs), signed=signs):
                yield check
        yield await _asked(client, url, signs=signs)


async def _got(client: httpx.AsyncClient, url: str, *, signed: bool) -> httpx.Response | str:
    """Return the answer, or why there is none."""
    headers: Mapping[str, str] = {}
    try:
        if signed:
            from aion_core.aws.sigv4 import signed_headers

            headers = signed_headers("GET", url)
        return await client.get(url, headers=headers)
    except StoreError:
        return "it has to be asked by a request signed for AWS IAM, and there are no AWS credentials here"
    except httpx.HTTPError as error:
        return str(error) or type(error).__name__


def _clock(answer: httpx.Response, now: datetime) -> Check:
    try:
        there = parsedate_to_datetime(answer.headers["date"])
    except (KeyError, ValueError):
        return warning(
            "clock", "The answer has no Date to compare with.", "Compare the clocks yourself, if signatures fail."
        )
    skew = abs((now - there).total_seconds())
    said = f"This machine's clock and the server's are {skew:.0f} s apart."
    do = "Set this machine's clock (NTP): signatures and tokens depend on it."
    if skew > TOO_LATE_SECONDS:
        return failed("clock", said, do)
    return warning("clock", said, do) if skew > LATE_SECONDS else ok("clock", said)


def _card(url: str, path: str, answer: httpx.Response | str, *, signed: bool) -> Iterator[Check]:
    name = f"card at {path}"
    if isinstance(answer, str):
        yield warning(name, f"It was not read: {answer}.", "Set AWS_PROFILE, or say --profile.")
        return
    if answer.status_code != 200:
        do = "See the function's log, by the answer's correlation id."
        if answer.status_code == 403 and signed:
            do = "May your credentials execute-api:Invoke this API (or lambda:InvokeFunctionUrl this function)?"
        elif answer.status_code in (502, 503, 500):
            do = "The function does not start, or fails: `sam logs --name ApiFunction --tail` says why."
        yield failed(name, f"The answer is {answer.status_code}.", do)
        return
    try:
        card = answer.json()
        said = _urls(card)
    except (ValueError, TypeError, KeyError):
        yield failed(name, "The answer is no agent card.", "Is this URL an agent's?")
        return
    if not said:
        yield failed(name, "The card names no URL at which the agent answers.", "Is this URL an agent's?")
    elif wrong := sorted(address for address in said if not _is_at(address, url)):
        do = f"Deploy again with BaseUrl={url}: clients go where the card says."
        yield failed(name, f"It names {wrong[0]}, and this is {url}.", do)
    else:
        yield ok(name, f"It is {card.get('name', '')!r} at {sorted(said)[0]}.")


def _urls(card: Mapping[str, Any]) -> set[str]:
    named = {each["url"] for each in card.get("supportedInterfaces", [])} | {card.get("url", "")}
    return {str(each) for each in named if each}


def _is_at(address: str, url: str) -> bool:
    """Tell whether the card's address is the URL's, or below it."""
    return f"{address.rstrip('/')}/".startswith(f"{url}/")


async def _asked(client: httpx.AsyncClient, url: str, *, signs: bool) -> Check:
    """Ask for a task that is not there, as nobody: whoever is let in so far is asked for nothing."""
    if signs:
        return ok("callers", "Every request has to be signed for AWS IAM: API Gateway or the Function URL asks.")
    body = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "aion-doctor-asks"}}
    try:
        answer = await client.post(f"{url}/", json=body, headers={"A2A-Version": "1.0"})
    except httpx.HTTPError as error:
        return failed("callers", f"It could not be asked: {error}.", "Try again.")
    if answer.status_code in (401, 403):
        asked = answer.headers.get("www-authenticate") or answer.headers.get("x-amzn-remapped-www-authenticate")
        return ok("callers", f"Callers are asked for {asked or 'AWS signatures'}.")
    if answer.status_code == 200 and _is_unknown(answer):
        if urlsplit(url).hostname in LOCAL:
            return ok("callers", "Nobody is asked who they are, on this machine.")
        return failed(
            "callers", "Nobody is asked who they are.", "Declare who may call, at once: `security` in aion.yaml."
        )
    return warning("callers", f"The answer is {answer.status_code}.", "See the function's log.")


def _is_unknown(answer: httpx.Response) -> bool:
    try:
        return "error" in answer.json()
    except json.JSONDecodeError:
        return False


async def issuers(agents: Mapping[str, AgentConfig]) -> AsyncIterator[Check]:
    """Read the keys of each issuer that aion.yaml declares, as the function would."""
    from aion_core.auth.declaration import Jwt
    from aion_core.auth.fetch import fetch
    from aion_core.auth.jwks import Keys, KeysUnavailable, Unreadable
    from aion_core.clock import SystemClock

    try:
        securities = declared_securities(agents)
    except ConfigurationError:
        return
    schemes = {
        each.issuer: each for found in securities.values() for each in found.needed.values() if isinstance(each, Jwt)
    }
    for issuer, scheme in schemes.items():
        why: list[str] = []

        async def noted(url: str, why: list[str] = why) -> Any:
            try:
                return await fetch(url)
            except Unreadable as error:
                why.append(f"{url}: {error}")
                raise

        name = f"keys of {issuer}"
        try:
            await Keys(scheme, noted, SystemClock()).key("")
        except KeysUnavailable:
            said = (
                why[-1]
                if why
                else "what is there is no JWK set, or its discovery document is another issuer's or names no keys"
            )
            do = "Is the issuer's URL right in aion.yaml, and does it answer? Without its keys nobody is let in."
            yield failed(name, f"They cannot be read: {said}.", do)
        else:
            yield ok(name, "They can be read.")
