"""AWS calls with retries, for deployments. Unlike in `aion_core.aws`, errors contain AWS's own message."""

import os
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, UnknownRegionError
from botocore.loaders import Loader
from botocore.parsers import ResponseParserError
from botocore.regions import EndpointResolver

from aion_core.errors import StoreUnavailable
from aion_tools.deploy.errors import AwsRefused

COMMERCIAL = "aws"
"""Partition of AWS's commercial Regions."""
_CONFIG = Config(connect_timeout=5, read_timeout=60, retries={"mode": "standard", "total_max_attempts": 6})
# Put the bucket's name into the URL's path, because an emulator has no host name for each bucket.
_CONFIG_OF_AN_EMULATOR = _CONFIG.merge(Config(s3={"addressing_style": "path"}))


def client_of(service: str) -> Any:
    """Return a boto3 client of the service, configured by the environment.

    Raises StoreUnavailable without a region, or for an unknown profile.
    """
    environ = {name: value for name, value in os.environ.items() if name.startswith("AWS_") or name == "HOME"}
    return _with_own_errors(lambda: _client(service, tuple(sorted(environ.items()))))


@lru_cache(maxsize=32)
def _client(service: str, environ: tuple[tuple[str, str], ...]) -> Any:
    """Create a boto3 client. Creating one takes a third of a second, so it is cached for this `environ`."""
    config = _CONFIG_OF_AN_EMULATOR if "AWS_ENDPOINT_URL" in dict(environ) else _CONFIG
    return boto3.session.Session().client(service, config=config)  # type: ignore[call-overload]


def call(operation: Callable[..., Any], **parameters: Any) -> dict[str, Any]:
    """Call an operation of a boto3 client and return its response. Raises AwsRefused or StoreUnavailable."""
    answer: dict[str, Any] = _with_own_errors(lambda: operation(**parameters))
    return answer


def listed(client: Any, operation: str, field: str, **parameters: Any) -> Iterator[dict[str, Any]]:
    """Yield the elements of the list `field` in all pages of an operation. Raises AwsRefused or StoreUnavailable."""
    pages = iter(client.get_paginator(operation).paginate(**parameters))
    while (page := _with_own_errors(lambda: next(pages, None))) is not None:
        yield from page.get(field) or []


def region() -> str:
    """Return the AWS region of the environment or the profile, or "" if none is configured."""
    return str(_with_own_errors(lambda: boto3.session.Session().region_name) or "")


def partition_of(region: str) -> str:
    """Return the AWS partition of a region: "aws" for a commercial or an unknown one, else for example "aws-us-gov"."""
    try:
        # Read the list in botocore, not by a session, which would fail for an unknown profile.
        return str(EndpointResolver(Loader().load_data("endpoints")).get_partition_for_region(region))
    except UnknownRegionError:
        return COMMERCIAL


def account() -> str:
    """Return the id of the AWS account of the configured credentials. Raises AwsRefused or StoreUnavailable."""
    return str(call(client_of("sts").get_caller_identity)["Account"])


def _with_own_errors(request: Callable[[], Any]) -> Any:
    try:
        return request()
    except ClientError as error:
        details = error.response.get("Error", {})
        raise AwsRefused(error.operation_name, details.get("Code", ""), details.get("Message", "")) from error
    except (BotoCoreError, ResponseParserError) as error:
        raise StoreUnavailable(type(error).__name__) from error
