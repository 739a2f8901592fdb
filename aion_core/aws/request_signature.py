"""Signature of requests to another deployment, with the credentials of this function's role (AWS Signature Version 4)."""

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Generator
from functools import cache

import httpx
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.session import Session

from aion_core.errors import ConfigurationError

_FUNCTION_URL = re.compile(r"\.lambda-url\.([a-z0-9-]+)\.on\.aws$")
_API = re.compile(r"\.execute-api\.([a-z0-9-]+)\.amazonaws\.com(\.cn)?$")


class AwsSignature(httpx.Auth):
    """Authentication that signs the method, address and body of each request for API Gateway or a Function URL."""

    requires_request_body = True

    def __init__(self, remote: str, region: str = "") -> None:
        """`region` is that of the remote API; by default it is read from the URL, or is the region of this process."""
        self._remote, self._region = remote, region

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Sign the request in a thread, because the credentials may have to be read again."""
        await request.aread()
        await asyncio.to_thread(self._sign, request)
        yield request

    def sync_auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response]:
        """Sign the request."""
        request.read()
        self._sign(request)
        yield request

    def _sign(self, request: httpx.Request) -> None:
        service, region = _place(request.url.host, self._region)
        credentials = _session().get_credentials()
        if credentials is None or not region:
            missing = "no AWS credentials" if credentials is None else "no region"
            raise ConfigurationError(f"A request to the remote {self._remote!r} cannot be signed: there is {missing}.")
        signed = AWSRequest(request.method, str(request.url), headers={"host": request.url.netloc.decode()})
        signed.data = request.content
        SigV4Auth(credentials, service, region).add_auth(signed)
        request.headers.update(dict(signed.headers))


def _place(host: str, region: str) -> tuple[str, str]:
    """Return the service that checks the signature, and the region."""
    if found := _FUNCTION_URL.search(host):
        return "lambda", region or found[1]
    found = _API.search(host)
    return "execute-api", region or (found[1] if found else os.environ.get("AWS_REGION", ""))


@cache
def _session() -> Session:
    return Session()
