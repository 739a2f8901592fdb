"""AWS Signature Version 4 for requests to an aion deployment."""

from urllib.parse import urlsplit

import boto3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import BotoCoreError

from aion_core.errors import StoreUnavailable


def signed_headers(method: str, url: str, body: bytes = b"", headers: dict[str, str] | None = None) -> dict[str, str]:
    """Sign a request to API Gateway or a Function URL with the environment's credentials, and return its headers.

    Raises StoreUnavailable if the environment has no credentials.
    """
    host = urlsplit(url).hostname or ""
    try:
        session = boto3.session.Session()
        credentials = session.get_credentials()
        if credentials is None:
            raise StoreUnavailable("NoCredentialsError")
        # Read the region from the URL's host if AWS has named it. A custom domain does not contain a region, so use the
        # region of the session.
        words = host.split(".")
        region = words[2] if host.endswith("amazonaws.com") or ".lambda-url." in host else session.region_name or ""
        request = AWSRequest(method=method, url=url, data=body, headers=headers or {})
        service = "lambda" if ".lambda-url." in host else "execute-api"
        SigV4Auth(credentials.get_frozen_credentials(), service, region).add_auth(request)
    except BotoCoreError as error:
        raise StoreUnavailable(type(error).__name__) from error
    return dict(request.headers.items())
