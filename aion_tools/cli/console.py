"""`aion console` opens the browser console on any A2A server."""

import asyncio
import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from aion_core.errors import ConfigurationError
from aion_core.log import one_line
from aion_tools.cli import aws_options, options
from aion_tools.cli.chat.target import EPILOG

if TYPE_CHECKING:
    from a2a.types import AgentCard

    from aion_tools.inspector.remote import RemoteAgent

LOOPBACK, PORT = "127.0.0.1", 8400


class _Header(click.ParamType[tuple[str, str]]):
    """Header of a request, as `Name: value`."""

    name = "header"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Return the name and the value. Fail for anything that is no header."""
        from aion_tools.cli.chat.credentials import is_header_name

        name, colon, content = str(value).partition(":")
        if not colon or not is_header_name(name) or not content.strip().isprintable() or not content.isascii():
            self.fail(f"{value!r} has to be a header, such as 'X-API-Key: …'.", param, ctx)
        return name, content.strip()


@click.command(
    cls=options.StoppedByInterrupt,
    short_help="Open the browser console on any A2A server.",
    epilog=f"""{EPILOG}

\b
Examples:
  aion console http://127.0.0.1:9999
  aion console https://agents.example.com --header 'X-API-Key: …'
  aion console https://agents.example.com/.well-known/agent-card.json --no-open""",
)
@click.argument("url", callback=options.web_address)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help=f"Port of the console on {LOOPBACK}; 0 for a free one.  [default: {PORT}, or a free one]",
)
@click.option("--open/--no-open", "opens_browser", default=True, help="Open the console in a browser.  [default: open]")
@click.option("--header", "headers", type=_Header(), multiple=True, help="'Name: value' for each request; repeatable.")
@click.option("--sign", default="auto", show_default=True, help="auto, on, off, or the region of the AWS signature.")
@aws_options.aws
def console(
    url: str, port: int | None, headers: tuple[tuple[str, str], ...], sign: str, *, opens_browser: bool
) -> None:
    """Open the console of `aion dev` on the A2A server at URL, which may be its card's. Ctrl-C stops the console.

    It checks the card, talks to the agent, shows the JSON of each message in both directions, and receives webhooks from
    servers on this machine. It listens on 127.0.0.1, and calls only the server at URL.
    """
    with _listen(port) as listener:
        asyncio.run(_serve(url, listener, headers, sign, opens_browser=opens_browser))


async def _serve(
    url: str,
    listener: socket.socket,
    headers: tuple[tuple[str, str], ...],
    sign: str,
    *,
    opens_browser: bool,
) -> None:
    import httpx
    import uvicorn

    from aion_core.agent_client.documents import http_client
    from aion_core.agent_client.limits import OF_COMMANDS
    from aion_tools.cli.chat.credentials import ClientCredentials, NoCredentials
    from aion_tools.cli.chat.session import IDLE_SECONDS
    from aion_tools.inspector.remote import CardUnusable, RemoteAgent
    from aion_tools.inspector.server import build_inspector

    port = listener.getsockname()[1]
    try:
        credentials = ClientCredentials.from_environ(os.environ, url, sign)
        async with http_client(url, credentials, httpx.Timeout(30, read=IDLE_SECONDS), OF_COMMANDS) as http:
            http.headers.update(headers)

            def read_card(card: "AgentCard") -> None:
                try:
                    credentials.read_card(card)
                except NoCredentials as error:
                    raise CardUnusable(f"Your credentials do not fit it: {error}.") from error

            remote = RemoteAgent(url, http, read_card)
            click.echo(await _described(remote))
            config = uvicorn.Config(
                build_inspector(remote, port), ws="none", log_config=None, access_log=False, timeout_graceful_shutdown=1
            )
            place = f"http://{LOOPBACK}:{port}/"
            click.echo(f"The console is available at {place}\nPress Ctrl-C to stop.")
            if opens_browser:
                click.launch(place)
            with suppress(KeyboardInterrupt):
                await uvicorn.Server(config).serve([listener])
    except NoCredentials as error:
        raise click.UsageError(f"{error}.") from error


async def _described(remote: "RemoteAgent") -> str:
    """Return a line about the server. Raises ClickException if it cannot be reached.

    A server without a usable card is shown all the same: the console says what is wrong with it.
    """
    import httpx

    from aion_tools.inspector.remote import CardUnusable

    try:
        card = await remote.card()
    except CardUnusable as error:
        return one_line(f"{remote.url} has no usable card: {error}")
    except httpx.HTTPError as error:
        reason = error or type(error).__name__
        raise click.ClickException(
            f"The agent at {remote.url} doesn't answer: {reason}. Check the URL, and that its server is running."
        ) from error
    return one_line(f"{card.get('name', 'The agent')} at {remote.url}")


def _listen(port: int | None) -> socket.socket:
    """Return a socket that listens on the loopback interface. Raises ConfigurationError if the port is in use."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, PORT if port is None else port))
    except OSError as error:
        if port is not None:
            listener.close()
            raise ConfigurationError(
                f"Port {port} cannot be used ({error.strerror}). Choose another with --port."
            ) from error
        listener.bind((LOOPBACK, 0))
    # From now on, a browser waits for the server instead of finding nothing.
    listener.listen()
    return listener
