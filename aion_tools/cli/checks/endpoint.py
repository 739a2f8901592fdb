"""Checks of a deployment's URL: response, authentication, agent cards, token issuers' keys, and clock skew."""

from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import httpx
from a2a.client.errors import A2AClientError

from aion_core.agent_client.documents import document_of, http_client
from aion_core.agent_client.limits import OF_COMMANDS
from aion_core.errors import ConfigurationError
from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.auth_policies import read_auth_policies
from aion_tools.cli.chat.credentials import ClientCredentials, NoCredentials
from aion_tools.cli.chat.endpoint import Endpoint
from aion_tools.cli.checks import CheckResult, failed, ok, warning
from aion_tools.cli.checks.messages import check_messages

TIMEOUT_SECONDS = 20.0
"""Timeout of an HTTP request, longer than a cold start of the function."""

LATE_SECONDS = 60
TOO_LATE_SECONDS = 300
"""Largest difference in seconds between the caller's clock and AWS's clock with which AWS accepts a signature."""

CARD_PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json")
LOG = "See its log: `aws logs tail /aws/lambda/STACK-api --since 1h`."
SHOWN = 200
"""Number of characters of a response's header that a result shows."""
LOCAL = ("127.0.0.1", "localhost", "::1")


async def check_endpoint(url: str, text: str) -> AsyncIterator[CheckResult]:
    """Check the server at the URL and yield a result for each: reachability, clock, agent cards and authentication.

    With a `text`, send it to the agent if there is a card.
    """
    url = url.rstrip("/")
    async with http_client(url, None, httpx.Timeout(TIMEOUT_SECONDS), OF_COMMANDS) as client:
        try:
            first = await document_of(client.get(url + CARD_PATHS[0]))
        except A2AClientError as error:
            yield failed("reachability", f"{url} doesn't respond with an agent card. {error}", "Check the URL.")
            return
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            next_step = "Check the URL (output ApiUrl or FunctionUrl) and the network connection."
            yield failed("reachability", f"{url} does not respond: {_reason(error)}.", next_step)
            return
        yield ok("reachability", f"{url} responds.")
        yield _clock_check(first, datetime.now(UTC))
        needs_signature = first.status_code == 403
        sign = "on" if needs_signature else "off"
        answers = {path: await _got(client, url + path, sign) for path in CARD_PATHS}
        for path, answer in answers.items():
            for check in _card_checks(url, path, answer, signed=needs_signature):
                yield check
        yield await _authentication_check(client, url, needs_signature=needs_signature)
    card = answers[CARD_PATHS[0]]
    if text and isinstance(card, httpx.Response) and card.is_success:
        async for check in check_messages(Endpoint(url, sign), text):
            yield check


async def _got(client: httpx.AsyncClient, url: str, sign: str) -> httpx.Response | Exception:
    """Send a GET request, with an AWS signature unless `sign` is off. Return the response, or the reason of a failure."""
    try:
        return await document_of(client.get(url, auth=ClientCredentials.from_environ({}, url, sign)))
    except (NoCredentials, A2AClientError, httpx.HTTPError) as error:
        return error


def _clock_check(answer: httpx.Response, now: datetime) -> CheckResult:
    try:
        # The time of a Date header is in GMT, even if the server has left out the zone.
        there = parsedate_to_datetime(answer.headers["date"])
        there = there if there.tzinfo else there.replace(tzinfo=UTC)
    except (ArithmeticError, LookupError, TypeError, ValueError):  # a hostile date may raise OverflowError
        return warning(
            "clock", "The response has no valid Date header.", "If signatures fail, compare the clocks by hand."
        )
    skew = abs((now - there).total_seconds())
    message = f"This machine's clock differs from the server's by {skew:.0f} s."
    next_step = "Set this machine's clock (NTP): signatures and tokens depend on it."
    if skew > TOO_LATE_SECONDS:
        return failed("clock", message, next_step)
    return warning("clock", message, next_step) if skew > LATE_SECONDS else ok("clock", message)


def _card_checks(url: str, path: str, answer: httpx.Response | Exception, *, signed: bool) -> Iterator[CheckResult]:
    name = f"card at {path}"
    if isinstance(answer, NoCredentials):
        yield warning(name, f"Not read: {_reason(answer)}.", "Set AWS_PROFILE or give --profile.")
        return
    if isinstance(answer, Exception):
        yield failed(name, f"Not read: {_reason(answer)}.", f"The function fails or doesn't start. {LOG}")
        return
    if answer.status_code != 200:
        next_step = "Search the function's log for the response's correlation id."
        if answer.status_code == 403 and signed:
            next_step = "Check your permission execute-api:Invoke (or lambda:InvokeFunctionUrl)."
        elif answer.status_code in (401, 404):
            # A server with authentication answers 401 at every unknown path; cards need no credentials.
            parts = urlsplit(url)
            next_step = (
                f"Check the path of the URL: the default agent is at {parts.scheme}://{parts.netloc}, and each agent is at "
                f"{parts.scheme}://{parts.netloc}/agents/ID."
            )
        elif answer.status_code in (502, 503, 500):
            next_step = f"The function fails or doesn't start. {LOG}"
        yield failed(name, f"The response is {answer.status_code}.", next_step)
        return
    try:
        card = answer.json()
        message = _urls(card)
    except (ValueError, TypeError, KeyError, AttributeError):
        yield failed(name, "The response is not an agent card.", "Check the URL.")
        return
    if not message:
        yield failed(name, "The card names no URL of the agent.", "Check the URL.")
    elif wrong := sorted(address for address in message if not _is_at(address, url)):
        next_step = f"Deploy again with BaseUrl={_root(url)}: clients use the card's URL."
        yield failed(name, f"The card names {wrong[0]} instead of {url}.", next_step)
    else:
        yield ok(name, f"The agent is {card.get('name', '')!r} at {sorted(message)[0]}.")


def _reason(error: Exception) -> str:
    """Return what was wrong, without a full stop at the end."""
    if isinstance(error, httpx.TimeoutException):
        return f"no response within {TIMEOUT_SECONDS:.0f} s"
    return str(error).removesuffix(".") or type(error).__name__


def _urls(card: Mapping[str, Any]) -> set[str]:
    named = {each["url"] for each in card.get("supportedInterfaces", [])} | {card.get("url", "")}
    return {str(each) for each in named if each}


def _is_at(address: str, url: str) -> bool:
    """Return True if the agent's `address` in its card is the checked `url` or is below it."""
    return f"{address.rstrip('/')}/".startswith(f"{url}/")


def _root(url: str) -> str:
    return url.partition("/agents/")[0]


async def _authentication_check(client: httpx.AsyncClient, url: str, *, needs_signature: bool) -> CheckResult:
    """Check that the server requires authentication.

    The check requests an unknown task without credentials. Only a server without authentication answers it.
    """
    if needs_signature:
        return ok("callers", "API Gateway or the Function URL requires requests signed for AWS IAM.")
    body = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "aion-doctor"}}
    try:
        answer = await document_of(client.post(f"{url}/", json=body, headers={"A2A-Version": "1.0"}))
    except (A2AClientError, httpx.HTTPError) as error:
        return failed("callers", f"The request failed: {_reason(error)}.", "Run the command again.")
    if answer.status_code in (401, 403):
        scheme = answer.headers.get("www-authenticate") or answer.headers.get("x-amzn-remapped-www-authenticate")
        return ok("callers", f"Callers authenticate by {(scheme or 'AWS signatures')[:SHOWN]}.")
    if answer.status_code == 200 and _is_unknown(answer):
        if urlsplit(url).hostname in LOCAL:
            return ok("callers", "Anybody on this machine may call.")
        return failed("callers", "Anybody may call.", "Declare callers now: `security` in aion.yaml.")
    return warning("callers", f"The response is {answer.status_code}.", LOG)


def _is_unknown(answer: httpx.Response) -> bool:
    try:
        return "error" in answer.json()
    except (ValueError, TypeError):
        return False


async def check_issuers(agents: Mapping[str, AgentConfig]) -> AsyncIterator[CheckResult]:
    """Read the public keys of each token issuer in aion.yaml in the same way as the API function."""
    from aion_core.auth.schemes.bearer import JwtScheme
    from aion_core.auth.schemes.jwks import DocumentUnreadable, KeysUnavailable, fetch
    from aion_core.clock import SystemClock

    try:
        policies = read_auth_policies(agents)
    except ConfigurationError:
        return
    schemes = {
        each.issuer: each
        for found in policies.values()
        for each in found.required_schemes.values()
        if isinstance(each, JwtScheme)
    }
    for issuer, scheme in schemes.items():
        reasons: list[str] = []

        async def recorded(url: str, reasons: list[str] = reasons) -> Any:
            try:
                return await fetch(url)
            except DocumentUnreadable as error:
                reasons.append(f"{url}: {error}")
                raise

        name = f"keys of {issuer}"
        try:
            await scheme.issuer_keys(recorded, SystemClock()).key("")
        except KeysUnavailable:
            message = (
                reasons[-1]
                if reasons
                else "the response is not a JWK set, or the discovery document names another issuer or no keys"
            )
            next_step = (
                "Check the issuer's URL in aion.yaml and its availability. Without its keys all callers are rejected."
            )
            yield failed(name, f"The keys cannot be read: {message}.", next_step)
        else:
            yield ok(name, "The keys can be read.")
