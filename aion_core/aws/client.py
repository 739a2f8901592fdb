"""boto3's clients, called off the event loop, and the one place where boto's errors get aion's names."""

import asyncio
import os
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError

from aion_core.errors import StoreCorrupt, StoreError, StoreUnavailable

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


# Why a transaction is canceled; of one with another reason (an item is too large, say) no condition has failed.
_PASSING_REASONS = frozenset({"ProvisionedThroughputExceeded", "ThrottlingError"})
_REFUSALS = frozenset({"ConditionalCheckFailed", "TransactionConflict"})


class Refused(Exception):
    """A write's condition did not hold; `reasons` has a code for each item of the transaction, "None" for the fine."""

    def __init__(self, reasons: tuple[str, ...]) -> None:
        super().__init__(", ".join(reasons))
        self.reasons = reasons

    def failed(self, place: int) -> bool:
        """Tell whether the condition of the transaction's write at this place did not hold."""
        return self.reasons[place : place + 1] == ("ConditionalCheckFailed",)

    @property
    def conflict(self) -> bool:
        """Whether another write was under way on an item, and no condition failed: the same may be tried again."""
        return "TransactionConflict" in self.reasons and "ConditionalCheckFailed" not in self.reasons


class Missing(Exception):
    """Nothing has this name."""


TRIES = 8
"""How often a write is tried against others that are under way on the same item."""

TRIES_UNHEARD = 3
"""How often a write is tried whose answer does not come; boto3 tries each of them twice."""


async def let_others_write(attempt: int) -> None:
    """Wait before a write is tried again that met another on the same item: full jitter, growing."""
    await asyncio.sleep(random.uniform(0, 0.02 * 2**attempt))  # noqa: S311  # no secret


async def try_unheard_again(attempt: int, unheard: StoreUnavailable) -> None:
    """Wait before a write is tried again whose answer did not come; raises `unheard` where that was often enough."""
    if attempt + 1 == TRIES_UNHEARD:
        raise unheard
    await let_others_write(attempt)


class Calls:
    """A boto3 client whose calls can be awaited; made at the first call, from the environment, unless it is given."""

    def __init__(
        self, service: str, executor: ThreadPoolExecutor, *, client: Any = None, timeout: float = TIMEOUT
    ) -> None:
        """`executor` makes the calls: an own one, since abandoned synchronous nodes starve the default one."""
        self._service, self._executor, self._client, self._timeout = service, executor, client, timeout

    async def __call__(self, operation: str, **parameters: Any) -> dict[str, Any]:
        """Call the operation, such as `get_item`, in the executor.

        Raises Refused where a condition did not hold, StoreUnavailable or StoreError.
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

        answer = await asyncio.get_running_loop().run_in_executor(self._executor, partial(_named, read))
        content: bytes = answer[field]
        return content

    def blocking(self, operation: str, **parameters: Any) -> dict[str, Any]:
        """Call the operation in this thread."""
        # The client is made in there too: a profile, or a region, that is not there is an answer like others.
        return _named(lambda: self._operation(operation)(**parameters))

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


def _named(call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return call()
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        if code == "TransactionCanceledException":
            reasons = error.response.get("CancellationReasons", [])
            codes = tuple(str(reason.get("Code", "None")) for reason in reasons)
            if _PASSING_REASONS & set(codes):
                raise StoreUnavailable(f"{code}: {', '.join(codes)}") from error
            if not _REFUSALS & set(codes):
                raise StoreError(f"{code}: {', '.join(codes)}") from error
            raise Refused(codes) from error
        if code == "ConditionalCheckFailedException":
            raise Refused(("ConditionalCheckFailed",)) from error
        if code == "TransactionConflictException":
            raise Refused(("TransactionConflict",)) from error
        if code == "PreconditionFailed":
            # S3's word for a condition that does not hold.
            raise Refused(("ConditionalCheckFailed",)) from error
        if code == "ConditionalRequestConflict":
            raise Refused(("TransactionConflict",)) from error
        if code in ("InvalidCiphertextException", "IncorrectKeyException"):
            raise StoreCorrupt("What was sealed was not sealed with this deployment's key.") from error
        if code in ("NoSuchKey", "404"):
            raise Missing(error.operation_name) from error
        if code in _PASSING or error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) >= 500:
            raise StoreUnavailable(code) from error
        raise StoreError(f"{error.operation_name}: {code}") from error
    except ParamValidationError as error:
        raise StoreError(type(error).__name__) from error
    except BotoCoreError as error:
        raise StoreUnavailable(type(error).__name__) from error
