"""What `make smoke` is told: by make's variables, the environment, or options."""

import argparse
from collections.abc import Mapping, Sequence

import httpx

TEXT = "Say hello, and count from one to twenty in words, slowly, one to a line."
CREDENTIALS = """\
credentials, by the environment or make's variables:
  TOKEN             sent as Authorization: Bearer
  API_KEY           sent in the header that the card names
  BASIC             name:password, for HTTP Basic
  none of them      a REST API or Function URL of AWS's is asked with an AWS signature, by the credentials
                    that boto3 finds (AWS_PROFILE, ...); who signs needs execute-api:Invoke, or
                    lambda:InvokeFunctionUrl and lambda:InvokeFunction

The exit code is 1 if a check failed, 2 if nothing could be checked (make's own is 2 for both). What is skipped was not checked: its line says why.
"""


def read(
    arguments: Sequence[str] | None, environ: Mapping[str, str], about: str, checks: Sequence[str]
) -> argparse.Namespace:
    """Return what is asked for; leaves the program with exit code 2 where it cannot be."""
    parser = argparse.ArgumentParser(
        prog="make smoke", description=about, epilog=CREDENTIALS, formatter_class=argparse.RawDescriptionHelpFormatter
    )

    def option(name: str, default: str, tells: str, kind: type = str) -> None:
        variable = name.removeprefix("--").replace("-", "_").upper()
        value = environ.get(variable) or default
        parser.add_argument(name, default=value, metavar=variable, type=kind, help=tells)

    parser.add_argument(
        "url", nargs="?", default=environ.get("URL", ""), help="where it is: the output ApiUrl or FunctionUrl"
    )
    option("--agent", "", "the id of an agent of aion.yaml; the one at the root where nothing is said")
    option("--text", TEXT, "what is said to it; best is what it takes some seconds over")
    option("--webhook", "", "a public https address that leads to a port of this machine, through a tunnel, say")
    option("--webhook-port", "8765", "that port; 8765 where nothing is said", int)
    option("--sign", "auto", "auto, off, or the region that an AWS signature is for: a custom domain does not tell it")
    option("--only", "", f"only these checks, by commas: {', '.join(checks)}")
    option("--patience", "300", "how many seconds a check may take; 300 where nothing is said", float)
    given = parser.parse_args(arguments)
    if not _is_url(given.url):
        parser.error("URL=… has to say where the deployment is, as https://…")
    given.only = [name for name in given.only.split(",") if name] or list(checks)
    if unknown := sorted(set(given.only) - set(checks)):
        parser.error(f"there is no check {', '.join(unknown)}; there are {', '.join(checks)}")
    return given


def _is_url(text: str) -> bool:
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL:
        return False
    return url.scheme in ("https", "http") and bool(url.host)
