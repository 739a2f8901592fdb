"""boto3 clients for asyncio, and the conversion of boto3's errors to aion's errors."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache, partial
from threading import Lock
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError
from botocore.parsers import ResponseParserError

from aion_core.errors import StoreCorrupt, StoreError, StoreUnavailable, TableMissing
from aion_core.table.refusals import CONDITION_FAILED, CONFLICT, FINE, TokenReused, WriteRefused, canceled

WORKERS = 16
"""Default number of concurrent calls to AWS."""

TIMEOUT = 3.0
"""Time limit of a call, in seconds. DynamoDB normally answers in milliseconds, so a longer wait rarely helps a turn."""

_CONFIG = Config(
    connect_timeout=1,
    retries={"mode": "standard", "total_max_attempts": 2},
    # Add connections for the heartbeats, because their threads renew leases while all WORKERS threads may be calling
    # AWS.
    max_pool_connections=WORKERS + 48,
)

# Put the bucket's name into the URL's path, because an AWS emulator has no host name for each bucket.
_EMULATOR_CONFIG = _CONFIG.merge(Config(s3={"addressing_style": "path"}))

# Transient error codes of DynamoDB, S3, SQS and KMS. Every status from 500 on is transient too, because a gateway's
# response has no code. After a slow upload, S3 sends RequestTimeout with the status 400. Missing queues and forbidden
# keys are permanent errors.
_TRANSIENT = frozenset(
    {
        "InternalError",
        "InternalFailure",
        "InternalServerError",
        "KMS.ThrottlingException",
        "KmsThrottled",
        "LimitExceededException",
        "OperationAborted",
        "PriorRequestNotComplete",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestTimeout",
        "RequestTimeoutException",
        "ServiceUnavailable",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TransactionInProgressException",
    }
)

# Reasons of WriteRefused by the error code of DynamoDB or S3, for a failed condition or a conflict.
_REASONS = {
    "ConditionalCheckFailedException": CONDITION_FAILED,
    "PreconditionFailed": CONDITION_FAILED,
    "TransactionConflictException": CONFLICT,
    "ConditionalRequestConflict": CONFLICT,
}


# boto3 makes clients in one thread at a time only. The clients themselves may be shared by threads.
# https://docs.aws.amazon.com/boto3/latest/guide/clients.html#multithreading-or-multiprocessing-with-clients
_creation = Lock()

_Environ = tuple[tuple[str, str], ...]


class NoSuchObject(Exception):
    """The S3 object does not exist."""


class AwsClient:
    """boto3 client of one AWS service with awaitable calls, created by `open` or by the first call."""

    def __init__(
        self,
        service: str,
        executor: ThreadPoolExecutor,
        *,
        client: Any = None,
        timeout: float = TIMEOUT,
        table: str = "",
    ) -> None:
        """Make the calls in threads of `executor`, because an agent's nodes may block asyncio's default executor.

        `table` is the name in the error for a missing table, as AWS's own error does not name it.
        """
        self._service, self._executor, self._client, self._timeout = service, executor, client, timeout
        self._table = table

    def open(self) -> None:
        """Create the client now, such as in Lambda's init phase, which has more of a processor than a function's calls.

        Ignore an error: the first call raises it again, as StoreUnavailable.
        """
        with suppress(BotoCoreError):
            self._opened()

    async def __call__(self, operation: str, **parameters: Any) -> dict[str, Any]:
        """Call an operation of the AWS service, such as `get_item`, in the executor. Return AWS's response.

        Raises WriteRefused for a failed condition, TokenReused, NoSuchObject, StoreUnavailable or StoreError.
        """
        return await asyncio.get_running_loop().run_in_executor(
            self._executor, partial(self.blocking, operation, **parameters)
        )

    async def read(self, operation: str, field: str, **parameters: Any) -> bytes:
        """Call an operation whose result is a stream, such as `get_object`, and return the content.

        Raises NoSuchObject, StoreUnavailable or StoreError.
        """

        def read() -> dict[str, Any]:
            return {field: self._operation(operation)(**parameters)[field].read()}

        answer = await asyncio.get_running_loop().run_in_executor(self._executor, partial(_call, operation, read))
        content: bytes = answer[field]
        return content

    def blocking(self, operation: str, **parameters: Any) -> dict[str, Any]:
        """Call an operation of the AWS service in this thread, and return AWS's response."""
        # Create the client within `_call`, which also converts the errors of its creation, such as a missing region.
        return _call(operation, lambda: self._operation(operation)(**parameters), self._table)

    def _operation(self, operation: str) -> Callable[..., dict[str, Any]]:
        method: Callable[..., dict[str, Any]] = getattr(self._opened(), operation)
        return method

    def _opened(self) -> Any:
        if self._client is None:
            self._client = client_of(self._service, timeout=self._timeout)
        return self._client


def client_of(service: str, *, timeout: float = TIMEOUT) -> Any:
    """Return this process's boto3 client of the service, configured by the environment, with aion's time limits.

    All threads share the client: each further one would take up to 15 MB and 0.07 s of a processor.
    """
    environ = tuple(sorted((name, value) for name, value in os.environ.items() if name.startswith("AWS_")))
    with _creation:
        return _client(service, timeout, environ)


@lru_cache(maxsize=32)
def _client(service: str, timeout: float, environ: _Environ) -> Any:
    config = _EMULATOR_CONFIG if "AWS_ENDPOINT_URL" in dict(environ) else _CONFIG
    config = config.merge(Config(read_timeout=timeout, connect_timeout=max(1.0, timeout / 3)))
    return _session(environ).client(service, config=config)


@lru_cache(maxsize=4)
def _session(environ: _Environ) -> Any:  # the cache's key: boto3 reads the environment itself
    return boto3.session.Session()


def _call(method: str, call: Callable[[], dict[str, Any]], table: str = "") -> dict[str, Any]:
    operation = method.title().replace("_", "")
    try:
        return call()
    except ClientError as error:
        raise _error_of(operation, error, table) from error
    except ParamValidationError as error:
        raise StoreError(f"{operation}: {type(error).__name__}") from error
    except (BotoCoreError, ResponseParserError) as error:
        raise StoreUnavailable(f"{operation}: {type(error).__name__}") from error


def _error_of(operation: str, error: ClientError, table: str) -> Exception:
    """Convert boto3's exception to aion's error. Its text, for the log, has the operation and AWS's error codes."""
    code = error.response.get("Error", {}).get("Code", "")
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    text = f"{operation}: {code or status}"
    if code == "ResourceNotFoundException" and table:
        # End the text with the code, because the operator's commands explain errors by their code.
        return TableMissing(
            f"The table {table} does not exist. `aion doctor` prints the commands that restore it. {operation}: {code}"
        )
    if code in _REASONS:
        return WriteRefused((_REASONS[code],))
    if code == "TransactionCanceledException":
        reasons = [str(reason.get("Code", FINE)) for reason in error.response.get("CancellationReasons", ())]
        return canceled(reasons, f"{operation}: ")
    if code == "IdempotentParameterMismatchException":
        return TokenReused(text)
    if code in ("InvalidCiphertextException", "IncorrectKeyException"):
        return StoreCorrupt("Encrypted data was not encrypted with this deployment's key.")
    if code in ("NoSuchKey", "404"):
        return NoSuchObject(operation)
    return StoreUnavailable(text) if code in _TRANSIENT or status >= 500 else StoreError(text)
