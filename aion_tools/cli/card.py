"""`aion card` prints, signs and verifies agent cards and generates signing keys."""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from aion_core.errors import ConfigurationError
from aion_tools.cli import options
from aion_tools.cli.hints import HintingGroup
from aion_tools.terminal import json_text

_TIMEOUT_SECONDS = 10

_CARD_PATHS = (".json", "/extendedAgentCard", "/v1/card", "/authenticatedExtendedCard")
"""Endings of URLs of agent cards. A URL with another ending is the URL of an agent."""


@click.group(cls=HintingGroup, short_help="Print, sign and verify agent cards.")
def card() -> None:
    """Print, sign and verify agent cards, and generate signing keys."""


@card.command(
    short_help="Print an agent's card.",
    epilog="""\b
Examples:
  aion card show
  aion card show helper --base-url https://agents.example.com
  aion card show --extended | aion card sign - --key private.pem""",
)
@click.argument("agent", required=False, shell_complete=options.agent_ids)
@options.config
@options.base_url
@click.option("--extended", is_flag=True, help="Print the extended card, for authenticated callers.")
def show(agent: str | None, config: Path, base_url: str, *, extended: bool) -> None:
    """Print the card of AGENT in aion.yaml, by default the one at the root.

    The command loads the agent's code, which may supply what aion.yaml leaves out.
    """
    from aion_core.loading.agent_cards import extended_card, public_card
    from aion_core.loading.aion_yaml.agent import default_agent
    from aion_core.loading.auth_policies import read_auth_policies
    from aion_core.protocol.card import with_skill_modes
    from aion_tools.cli.code_profile import code_profile

    agents = options.declared_agents(config, [agent] if agent else [])
    at_root = default_agent(agents)
    agent = agent or at_root
    policy = read_auth_policies(agents).get(agent)
    # Show the card of a deployment: it supports push notifications, because the template creates a push queue.
    found = public_card(
        agent,
        agents[agent],
        code_profile(options.found_config(config), agent),
        url=f"{base_url.rstrip('/')}{'' if agent == at_root else f'/agents/{agent}'}/",
        delivers=True,
        policy=policy,
    )
    if extended:
        more = extended_card(found, agents[agent], policy)
        if more is None:
            raise ConfigurationError(
                f"{agent} has no extended card. Set `capabilities.extended_agent_card: true` and `extended_card` for it "
                f"in aion.yaml."
            )
        found = more
    _print(with_skill_modes(found))


@card.command(
    short_help="Sign a card.",
    epilog="""\b
Examples:
  aion card sign card.json --key private.pem > signed.json
  aion card show | aion card sign - --key private.pem --key-id 2026""",
)
@click.argument("file", type=click.File(encoding="utf-8"))
@click.option("--key", "key_file", type=click.Path(path_type=Path), required=True, help="The private key, PEM or JWK.")
@click.option("--key-id", default="", help="Key id in the signatures.  [default: the key's thumbprint]")
@click.option(
    "--key-url",
    default="",
    callback=options.web_address,
    help="URL of a JWK set with the public key (`jku`).",
)
def sign(file: Any, key_file: Path, key_id: str, key_url: str) -> None:
    """Print the card in FILE (- for standard input) with an additional signature.

    An A2A v0.3 card also gets the v1.0 fields. Fields unknown to both versions are removed.
    """
    from a2a.client.card_resolver import parse_agent_card
    from google.protobuf.json_format import ParseError

    from aion_core.protocol.keys import signing_key
    from aion_core.protocol.signing import sign_card

    key = signing_key(_text(key_file), str(key_file), key_id=key_id, url=key_url)
    try:
        read = parse_agent_card(_json(file.read(), file.name))
        if not read.supported_interfaces:
            raise ConfigurationError(f"{file.name} is not an agent card: it has no URL of the agent.")
        signed = sign_card(read, key)
    except (ParseError, ValueError) as error:
        raise ConfigurationError(f"{file.name} is not an agent card: {error}") from error
    _print(signed)


@card.command(
    short_help="Check a card's signatures.",
    epilog="""\b
Examples:
  aion card verify https://agents.example.com --jwks https://agents.example.com/.well-known/jwks.json
  aion card verify signed.json --key public.jwk
  aion card show | aion card sign - --key private.pem | aion card verify - --key public.jwk""",
)
@click.argument("source", metavar="URL|FILE")
@click.option("--key", "key_file", metavar="FILE", help="Trusted public key, PEM or JWK.")
@click.option("--jwks", metavar="URL|FILE", help="Trusted JWK set with the keys of the signatures.")
def verify(source: str, key_file: str | None, jwks: str | None) -> None:
    """Check the signatures of the card at URL (of an agent, or of its card) or in FILE (- for standard input).

    The exit code is 1 if no signature is valid.

    Choose the trusted keys yourself: a key that the card points to proves nothing.
    """
    from aion_tools.cli.card_verification import NotVerified, verify_card

    trusted = _trusted(key_file, jwks)
    text = _fetched(_card_url(source)) if _is_url(source) else _text(Path(source))
    read = _json(text, source)
    if not isinstance(read, dict):
        raise ConfigurationError(f"{source} is not an agent card.")
    try:
        verified = verify_card(read, trusted)
    except NotVerified as error:
        raise ConfigurationError(f"{source} does not verify. {error}") from error
    for version, key_id in verified.items():
        result = f"signed by {key_id}." if key_id else "not signed; clients of this version cannot verify it."
        click.echo(f"As {version}: {result}")


@card.command(
    short_help="Generate a signing key for cards.",
    epilog="""\b
Examples:
  aion card keygen private.pem
  aion card keygen private.pem --algorithm EdDSA --public public.jwk""",
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--algorithm",
    type=click.Choice(["ES256", "RS256", "EdDSA"]),
    default="ES256",
    show_default=True,
    help="Signature algorithm: ECDSA on P-256, RSA, or Ed25519.",
)
@click.option("--key-id", default="", help="Key id in signatures.  [default: the key's thumbprint]")
@click.option("--public", "public_file", type=click.Path(path_type=Path), help="File for the public key.")
def keygen(file: Path, algorithm: str, key_id: str, public_file: Path | None) -> None:
    """Write a new private key to FILE, readable only by you, and print its public key as a JWK."""
    from aion_core.protocol.keys import CardKey

    key, pem = CardKey.generate(algorithm, key_id=key_id)
    shown = json.dumps(key.public_jwk(), indent=2)
    try:
        # Never overwrite a private key, because without it nobody can sign its agent cards again.
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as private:
            private.write(pem)
        if public_file is not None:
            public_file.write_text(shown + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{error.filename} cannot be written: {error.strerror}.") from error
    click.echo(f"Private key {key.id} written to {file}. Its public key:", err=True)
    click.echo(shown)


def _trusted(key_file: str | None, jwks: str | None) -> Callable[[str], list[Any]]:
    """Read the trusted keys from a file or JWK set. Return a function from a signature's key id to the keys to try."""
    from aion_tools.cli.card_verification import keys_in

    if (key_file is None) == (jwks is None):
        raise click.UsageError("Name the trusted key: --key FILE, or --jwks URL.")
    source = str(key_file or jwks)
    text = _fetched(source) if jwks and _is_url(source) else _text(Path(source))
    try:
        keys = keys_in(text)
    except ValueError as error:
        raise ConfigurationError(f"{source} cannot be used: {error}.") from error
    if key_file is not None:
        return lambda _: keys
    return lambda key_id: [key for key in keys if key.id == key_id]


def _is_url(source: str) -> bool:
    return source.startswith(("https://", "http://"))


def _card_url(source: str) -> str:
    return (
        source if urlsplit(source).path.endswith(_CARD_PATHS) else f"{source.rstrip('/')}/.well-known/agent-card.json"
    )


def _fetched(url: str) -> str:
    import httpx
    from a2a.client.errors import A2AClientError

    from aion_core.agent_client.documents import document_of, http_client
    from aion_core.agent_client.limits import OF_COMMANDS

    async def fetched() -> httpx.Response:
        async with http_client(url, None, httpx.Timeout(_TIMEOUT_SECONDS), OF_COMMANDS) as http:
            return await document_of(http.get(url, follow_redirects=True))

    try:
        response = asyncio.run(fetched())
        # Refuse trusted keys that anybody on the network could have replaced.
        without_tls = [each.url for each in (*response.history, response) if each.url.scheme != "https"]
        if url.startswith("https://") and without_tls:
            raise ConfigurationError(f"{url} cannot be used: it redirects to {without_tls[0]}, which is not https.")
        return response.raise_for_status().text
    except httpx.HTTPStatusError as error:
        status = f"{error.response.status_code} {error.response.reason_phrase}".strip()
        raise ConfigurationError(f"{url} cannot be read: the server returned {status}.") from error
    except A2AClientError as error:
        raise ConfigurationError(f"{url} cannot be used. {error}") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ConfigurationError(f"{url} cannot be read: {error}") from error


def _text(file: Path) -> str:
    try:
        with click.open_file(str(file.expanduser()), encoding="utf-8") as opened:  # click opens `-` as standard input
            text: str = opened.read()
            return text
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file} cannot be read: {error}.") from error


def _json(text: str, source: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{source} is not JSON: {error}.") from error


def _print(found: Any) -> None:
    from aion_core.protocol.card_v03 import document

    click.echo(json_text(document(found), indent=2))
