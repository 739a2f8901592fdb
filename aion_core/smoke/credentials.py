"""Who the requests are from: a token, an API key, a password, or whoever AWS's credentials belong to."""

import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Self

import botocore.session
import httpx
from a2a.types import AgentCard
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as AwsCredentials
from botocore.exceptions import BotoCoreError

_ENTRYPOINT = re.compile(r"\.(execute-api|lambda-url)\.([a-z0-9-]+)\.(amazonaws\.com|amazonaws\.com\.cn|on\.aws)$")
_SERVICES = {"execute-api": "execute-api", "lambda-url": "lambda"}


class NoCredentials(Exception):
    """Requests cannot be sent as asked; the message says what is missing."""


@dataclass(frozen=True)
class Signer:
    """Signs requests for one of AWS's fronts."""

    credentials: AwsCredentials
    service: str
    region: str

    @classmethod
    def for_entrypoint(cls, url: str, region: str = "") -> Self:
        """Sign for the front of this URL, in the region if its host does not say one.

        The credentials are those that boto3 would find. Raises NoCredentials.
        """
        entrypoint = _ENTRYPOINT.search(httpx.URL(url).host)
        session = botocore.session.Session()
        try:
            credentials = session.get_credentials()
        except BotoCoreError as error:
            raise NoCredentials(f"the AWS credentials cannot be read: {error}") from error
        if credentials is None:
            raise NoCredentials("there are no AWS credentials here; `aws sts get-caller-identity` has to answer")
        service, region = (_SERVICES[entrypoint[1]], entrypoint[2]) if entrypoint else ("execute-api", region)
        return cls(credentials, service, region)

    def headers(self, request: httpx.Request) -> dict[str, str]:
        """Return the headers that sign the request: its method, URL, host, media type and body."""
        said = {name: request.headers[name] for name in ("host", "content-type") if name in request.headers}
        signed = AWSRequest(request.method, str(request.url), headers=said, data=request.content)
        # Frozen for each request: those of a role end, and are got anew.
        SigV4Auth(self.credentials.get_frozen_credentials(), self.service, self.region).add_auth(signed)
        return {name: value for name, value in signed.headers.items() if name.lower() not in said}


class SmokeCredentials(httpx.Auth):
    """What every request carries. `card_read` says which header an API key goes in."""

    requires_request_body = True

    def __init__(self, *, token: str = "", api_key: str = "", basic: str = "", signer: Signer | None = None) -> None:
        self._token, self._api_key, self._signer = token, api_key, signer
        self._basic = httpx.BasicAuth(*basic.split(":", 1)) if basic else None
        self._key_header = ""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str], url: str, sign: str) -> Self:
        """Read TOKEN, API_KEY and BASIC; `sign` is `auto`, `off`, or the region to sign for.

        `auto` signs for a host of AWS's when there is none of them. Raises NoCredentials.
        """
        token, api_key, basic = (environ.get(name, "") for name in ("TOKEN", "API_KEY", "BASIC"))
        if basic and ":" not in basic:
            raise NoCredentials("BASIC has to be name:password")
        signs = sign != "off" if sign != "auto" else is_of_aws(url) and not (token or api_key or basic)
        if sum(map(bool, (token, basic, signs))) > 1:
            raise NoCredentials("a token, a password and a signature all go in Authorization: give one of them")
        region = "" if sign == "auto" else sign
        return cls(
            token=token, api_key=api_key, basic=basic, signer=Signer.for_entrypoint(url, region) if signs else None
        )

    def __str__(self) -> str:
        signature = self._signer and f"an AWS signature for {self._signer.service} in {self._signer.region}"
        said = [
            "a token" if self._token else "",
            "a password" if self._basic else "",
            signature or "",
            "an API key" if self._api_key else "",
        ]
        return " and ".join(filter(None, said)) or "no credentials"

    def card_read(self, card: AgentCard) -> None:
        """Take the name of the API key's header from the card that declares it."""
        schemes = [scheme.api_key_security_scheme for scheme in card.security_schemes.values()]
        headers = [scheme.name for scheme in schemes if scheme.location.lower() == "header"]
        self._key_header = headers[0] if headers else ""
        if self._api_key and not headers:
            raise NoCredentials("API_KEY is given, and the card declares no API key in a header")

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response]:
        """Put them on the request, the signature last."""
        if self._api_key and self._key_header:
            request.headers[self._key_header] = self._api_key
        if self._token:
            request.headers["Authorization"] = f"Bearer {self._token}"
        if self._signer:
            request.headers.update(self._signer.headers(request))
        if self._basic:
            yield from self._basic.auth_flow(request)
        else:
            yield request


def is_of_aws(url: str) -> bool:
    """Say whether the host is one that AWS gives to a REST API or a Function URL, which asks for signatures by default."""
    return _ENTRYPOINT.search(httpx.URL(url).host) is not None
