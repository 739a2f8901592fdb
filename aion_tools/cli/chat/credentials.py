"""Credentials for requests to an agent: a token, an API key, a password, or an AWS signature."""

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
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_URI = re.compile(r"[!-~]{1,2048}")
_SERVICES = {"execute-api": "execute-api", "lambda-url": "lambda"}


class NoCredentials(Exception):
    """Error of credentials that are missing or contradict each other. The message names them."""


@dataclass(frozen=True)
class Signer:
    """Signer of requests to an HTTP entry point with AWS IAM (API Gateway, Function URL)."""

    credentials: AwsCredentials
    service: str
    region: str

    @classmethod
    def for_entrypoint(cls, url: str, region: str = "") -> Self:
        """Return a signer for requests to this URL, with boto3's default credentials.

        A host that names no region gets `region`, or without it the region of the AWS configuration. Raises
        NoCredentials.
        """
        entrypoint = _ENTRYPOINT.search(httpx.URL(url).host)
        session = botocore.session.Session()
        try:
            credentials = session.get_credentials()
        except BotoCoreError as error:
            raise NoCredentials(f"the AWS credentials cannot be read: {error}") from error
        if credentials is None:
            raise NoCredentials("no AWS credentials found; check with `aws sts get-caller-identity`")
        service, region = (_SERVICES[entrypoint[1]], entrypoint[2]) if entrypoint else ("execute-api", region)
        region = region or str(session.get_config_variable("region") or "")
        return cls(credentials, service, region)

    def headers(self, request: httpx.Request) -> dict[str, str]:
        """Return the headers with the signature of a request's method, URL, host, media type and body."""
        signed_names = {name: request.headers[name] for name in ("host", "content-type") if name in request.headers}
        signed = AWSRequest(request.method, str(request.url), headers=signed_names, data=request.content)
        # Read the credentials for each request, because a role's credentials expire and botocore renews them.
        SigV4Auth(self.credentials.get_frozen_credentials(), self.service, self.region).add_auth(signed)
        return {name: value for name, value in signed.headers.items() if name.lower() not in signed_names}


class ClientCredentials(httpx.Auth):
    """Credentials added to every request, and the extensions that the card requires.

    `read_card` finds the name of the header for an API key, and the extensions.
    """

    requires_request_body = True

    def __init__(self, *, token: str = "", api_key: str = "", basic: str = "", signer: Signer | None = None) -> None:
        self._token, self._api_key, self._signer = token, api_key, signer
        self._basic = httpx.BasicAuth(*basic.split(":", 1)) if basic else None
        self._key_header = self._extensions = ""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str], url: str, sign: str) -> Self:
        """Read TOKEN, API_KEY and BASIC from the environment. `sign` is `auto`, `on`, `off`, or the signature's region.

        `auto` signs requests to AWS hosts if the environment has no other credentials. Raises NoCredentials.
        """
        token, api_key, basic = (environ.get(name, "") for name in ("TOKEN", "API_KEY", "BASIC"))
        if basic and ":" not in basic:
            raise NoCredentials("BASIC must be name:password")
        signs = sign != "off" if sign != "auto" else is_aws_host(url) and not (token or api_key or basic)
        if sum(map(bool, (token, basic, signs))) > 1:
            raise NoCredentials(
                "a token, a password and a signature all use the Authorization header: give only one of them"
            )
        region = "" if sign in ("auto", "on") else sign
        return cls(
            token=token, api_key=api_key, basic=basic, signer=Signer.for_entrypoint(url, region) if signs else None
        )

    @property
    def has_any(self) -> bool:
        """True if requests get credentials."""
        return bool(self._token or self._api_key or self._basic or self._signer)

    def __str__(self) -> str:
        signature = self._signer and f"an AWS signature for {self._signer.service} in {self._signer.region}"
        parts = [
            "a token" if self._token else "",
            "a password" if self._basic else "",
            signature or "",
            "an API key" if self._api_key else "",
        ]
        return " and ".join(filter(None, parts)) or "no credentials"

    def read_card(self, card: AgentCard) -> None:
        """Read the card's required extensions, and the name of its header for API keys.

        Raises NoCredentials if an API key has no header.
        """
        required = [each.uri for each in card.capabilities.extensions if each.required]
        # A URI has visible ASCII only (RFC 3986). Anything else could not be sent, or would be read as another header.
        self._extensions = ",".join(uri for uri in required if _URI.fullmatch(uri))
        schemes = [scheme.api_key_security_scheme for scheme in card.security_schemes.values()]
        headers = [scheme.name for scheme in schemes if scheme.location.lower() == "header"]
        self._key_header = headers[0] if headers else ""
        if self._api_key and not headers:
            raise NoCredentials("API_KEY is set, but the card declares no API key in a header")
        if self._api_key and not _HEADER_NAME.fullmatch(self._key_header):
            raise NoCredentials(f"API_KEY is set, but {self._key_header[:100]!r} on the card is not a header name")

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response]:
        """Add the credentials and the required extensions to the request."""
        if self._extensions:
            request.headers["A2A-Extensions"] = self._extensions
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


def is_header_name(text: str) -> bool:
    """Return True for a name that a header may have (RFC 9110)."""
    return _HEADER_NAME.fullmatch(text) is not None


def is_aws_host(url: str) -> bool:
    """Return True for a URL of API Gateway or of a Function URL. Both require AWS signatures by default."""
    return _ENTRYPOINT.search(httpx.URL(url).host) is not None
