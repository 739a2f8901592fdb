"""`make smoke URL=…`: whether a deployed agent does what the official client asks; a line for each check."""

import argparse
import asyncio
import os
import sys
from collections.abc import Awaitable
from functools import partial

import httpx
from a2a.client.errors import A2AClientError

from infra.smoke import checks, push
from infra.smoke.credentials import Credentials, NoCredentials
from infra.smoke.deployment import Failed, Skipped, reached, read_card

TEXT = "Say hello, and count from one to twenty in words, slowly, one to a line."
CREDENTIALS = """\
credentials, of the environment, so that no list of processes shows them:
  TOKEN             sent as Authorization: Bearer
  API_KEY           sent in the header that the card names
  BASIC             name:password, for HTTP Basic
  none of them      a REST API or Function URL of AWS's is asked with an AWS signature, by the credentials
                    that boto3 finds (AWS_PROFILE, ...); who signs needs execute-api:Invoke, or
                    lambda:InvokeFunctionUrl and lambda:InvokeFunction

The exit code is 1 if a check failed, 2 if nothing could be checked. What is skipped was not checked: the line says why.
"""


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
            self.say("FAILED", name, f"it was not over within {patience:g} s (PATIENCE=… gives it longer)")
        # Whatever a deployment may answer, the other checks are made too.
        except Exception as error:
            self.say("FAILED", name, explained(error))

    def say(self, verdict: str, name: str, why: str) -> None:
        """Print a line."""
        self.counts[verdict] += 1
        print(f"{verdict:8} {name:10} {' '.join(why.split())}", flush=True)


async def check(given: argparse.Namespace, credentials: Credentials) -> int:
    """Check what is asked for; return the exit code."""
    url = given.url.rstrip("/") + (f"/agents/{given.agent}" if given.agent else "")
    report = Report()
    print(f"{url}, with {credentials}", flush=True)
    async with httpx.AsyncClient(auth=credentials, timeout=given.patience) as http:
        try:
            card = await read_card(url, http, credentials)
        except (A2AClientError, NoCredentials, ValueError) as error:
            report.say("FAILED", "card", f"{explained(error)}. Nothing else was checked")
            return 2
        async with reached(url, card, http, text=given.text, patience=given.patience) as agent:
            for name, made in _checks(given).items():
                await report.on(name, made(agent), given.patience)
    print(", ".join(f"{number} {verdict}" for verdict, number in report.counts.items() if number))
    return 1 if report.counts["FAILED"] else 0


def _checks(given: argparse.Namespace) -> dict[str, checks.Check]:
    return {
        "card": checks.card,
        "send": checks.send,
        "stream": checks.stream,
        "cancel": checks.cancel,
        "subscribe": checks.subscribe,
        "webhooks": push.configs,
        "push": partial(push.delivery, url=given.webhook, port=given.webhook_port),
    }


def explained(error: BaseException) -> str:
    """Return what went wrong, with what the server answered and what is mostly behind it."""
    cause = error.__cause__
    if not isinstance(cause, httpx.HTTPStatusError):
        return f"{type(error).__name__}: {error}"
    status, body = cause.response.status_code, _body(cause.response)
    said = f"{cause.request.method} {cause.request.url} was answered with {status}{body and f': {body}'}"
    hint = {
        401: "the credentials are not taken; see docs/security.md",
        403: "whoever asks may not: is it signed, and may the signer call it?",
        404: "nothing is there: does the URL hold the stage (/dev), and is AGENT in aion.yaml?",
        429: "more was asked for than aion.limits of aion.yaml allows",
        502: "the function has failed: see the log group of ApiFunction",
        503: "see the log group of ApiFunction",
    }.get(status, "")
    return f"{said} ({hint})" if hint else said


def _body(response: httpx.Response) -> str:
    try:
        return response.text[:200]
    except httpx.ResponseNotRead:
        return ""


def main(arguments: list[str] | None = None) -> int:
    """Check the deployment that the command line and the environment name."""
    say = os.environ.get
    parser = argparse.ArgumentParser(
        prog="make smoke", description=__doc__, epilog=CREDENTIALS, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "url", nargs="?", default=say("URL"), help="where the deployment is: its output ApiUrl or FunctionUrl (URL)"
    )
    parser.add_argument(
        "--agent",
        default=say("AGENT"),
        help="the id of an agent of aion.yaml; the one at the root where nothing is said (AGENT)",
    )
    parser.add_argument(
        "--text", default=say("TEXT") or TEXT, help="what is said to it; best is what it takes some seconds over (TEXT)"
    )
    parser.add_argument(
        "--webhook",
        default=say("WEBHOOK", ""),
        help="a public https address that leads to WEBHOOK_PORT of this machine, through a tunnel, say (WEBHOOK)",
    )
    parser.add_argument(
        "--webhook-port",
        type=int,
        default=say("WEBHOOK_PORT") or 8765,
        help="the port it leads to, 8765 where nothing is said (WEBHOOK_PORT)",
    )
    parser.add_argument(
        "--sign",
        default=say("SIGN") or "auto",
        metavar="auto|off|REGION",
        help="whether requests get an AWS signature; a custom domain needs its region (SIGN)",
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=say("PATIENCE") or 300,
        metavar="SECONDS",
        help="how long a check may take, 300 where nothing is said (PATIENCE)",
    )
    given = parser.parse_args(arguments)
    if not given.url or not given.url.startswith(("https://", "http://")):
        parser.error("URL=… has to say where the deployment is, as https://…")
    try:
        credentials = Credentials.from_environ(os.environ, given.url, given.sign)
    except NoCredentials as error:
        print(f"smoke: {error}", file=sys.stderr)
        return 2
    return asyncio.run(check(given, credentials))


if __name__ == "__main__":
    sys.exit(main())
