"""boto3's clients, called off the event loop, and the one place where boto's errors get aion's names."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError

from aion_core.errors import StoreCorrupt, StoreError, StoreUnavailable
from aion_core.ports.table import CONDITION_FAILED, CONFLICT, FINE, TokenReused, WriteRefused

WORKERS = 16
"""Calls under way at once, where settings do not say."""

TIMEOUT = 3.0
"""Seconds. A call that hangs must not hold a turn: the table answers in milliseconds or not at all."""

_CONFIG = Config(
    connect_timeout=1,
    retries={"mode": "standard", "total_max_attempts": 2},
    # The leases are renewed by threads of their own beside these.
    max_pool_connections=WORKERS + 48,
)

# An emulator answers at an address, not at a bucket's own name.
_CONFIG_OF_AN_EMULATOR = _CONFIG.merge(Config(s3={"addressing_style": "path"}))

# DynamoDB's words, S3's and SQS's, beside every status from 500 on: a gateway's answer names no error at all. A queue
# that is not there, or a key that may not be used, does not pass.
_PASSING = frozenset(
    {
        "InternalError",
        "InternalFailure",
        "InternalServerError",
        "KMS.ThrottlingException",
        "KmsThrottled",
        "LimitExceededException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "ServiceUnavailable",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TransactionInProgressException",
    }
)


# The only reasons of a canceled transaction that are a refusal; with another one (an item is too large, say) it fails.
_REFUSALS = frozenset({CONDITION_FAILED, CONFLICT, FINE})
_PASSING_REASONS = frozenset({"ProvisionedThroughputExceeded", "ThrottlingError"})

# S3's words for a condition that does not hold, and for another write of the object, beside DynamoDB's.
_REASONS = {
    "ConditionalCheckFailedException": CONDITION_FAILED,
    "PreconditionFailed": CONDITION_FAILED,
    "TransactionConflictException": CONFLICT,
    "ConditionalRequestConflict": CONFLICT,
}


class NoSuchObject(Exception):
    """Nothing has this name."""


class AwsClient:
    """A boto3 client whose calls can be awaited; made at the first call, from the environment, unless it is given."""

    def __init__(
        self, service: str, executor: ThreadPoolExecutor, *, client: Any = None, timeout: float = TIMEOUT
    ) -> None:
        """`executor` makes the calls: an own one, since abandoned synchronous nodes starve the default one."""
        self._service, self._executor, self._client, self._timeout = service, executor, client, timeout

    async def __call__(self, operation: str, **parameters: Any) -> dict[str, Any]:
        """Call the operation, such as `get_item`, in the executor.

        Raises WriteRefused if a condition did not hold, TokenReused, StoreUnavailable or StoreError.
        """
        return await asyncio.get_running_loop().run_in_executor(
            self._executor, partial(self.blocking, operation, **parameters)
        )

    async def read(self, operation: str, field: str, **parameters: Any) -> bytes:
        """Call an operation that answers with a stream, such as `get_object`, and return the whole of it.

        Raises Missing where there is no such object, StoreUnavailable or StoreError.
        """

        def read() -> dict[str, Any]:
            return {field: self._operation(operation)(**parameters)[field].read()}

        answer = await asyncio.get_running_loop().run_in_executor(self._executor, partial(_named, operation, read))
        content: bytes = answer[field]
        return content

    def blocking(self, operation: str, **parameters: Any) -> dict[str, Any]:
        """Call the operation in this thread."""
        # The client is made in there too: a profile, or a region, that is not there is an answer like others.
        return _named(operation, lambda: self._operation(operation)(**parameters))

    def _operation(self, operation: str) -> Callable[..., dict[str, Any]]:
        if self._client is None:
            # Two threads may both make one; either serves.
            self._client = client_of(self._service, timeout=self._timeout)
        method: Callable[..., dict[str, Any]] = getattr(self._client, operation)
        return method


def client_of(service: str, *, timeout: float = TIMEOUT) -> Any:
    """Return a new boto3 client of the service, with our time limits, from the environment."""
    config = _CONFIG_OF_AN_EMULATOR if "AWS_ENDPOINT_URL" in os.environ else _CONFIG
    config = config.merge(Config(read_timeout=timeout, connect_timeout=max(1.0, timeout / 3)))
    return boto3.session.Session().client(service, config=config)  # type: ignore[call-overload]


def _named(method: str, call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    operation = method.title().replace("_", "")
    try:
        return call()
    except ClientError as error:
        raise _error_of(operation, error) from error
    except ParamValidationError as error:
        raise StoreError(f"{operation}: {type(error).__name__}") from error
    except BotoCoreError as error:
        raise StoreUnavailable(f"{operation}: {type(error).__name__}") from error


def _error_of(operation: str, error: ClientError) -> Exception:
    """Return the error with its own name; the texts are the operation's name and AWS's codes, for the log."""
    code = error.response.get("Error", {}).get("Code", "")
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    text = f"{operation}: {code or status}"
    if code in _REASONS:
        return WriteRefused((_REASONS[code],))
    if code == "TransactionCanceledException":
        reasons = tuple(str(reason.get("Code", FINE)) for reason in error.response.get("CancellationReasons", ()))
        text = f"{text}: {', '.join(reasons)}"
        if _PASSING_REASONS & {*reasons}:
            return StoreUnavailable(text)
        is_refusal = {*reasons} <= _REFUSALS and {*reasons} != {FINE}
        return WriteRefused(reasons) if reasons and is_refusal else StoreError(text)
    if code == "IdempotentParameterMismatchException":
        return TokenReused(text)
    if code in ("InvalidCiphertextException", "IncorrectKeyException"):
        return StoreCorrupt("What was sealed was not sealed with this deployment's key.")
    if code in ("NoSuchKey", "404"):
        return NoSuchObject(operation)
    return StoreUnavailable(text) if code in _PASSING or status >= 500 else StoreError(text)
