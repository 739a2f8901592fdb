"""Checks ClientRequestTokens as AWS documents them, for an engine that ignores them."""

from datetime import datetime
from typing import Any

from botocore.exceptions import ReadTimeoutError

from aion_core.ports import Clock
from aion_core.ports.table_semantics import TOKEN_LIFE

_TRANSACT = "dynamodb.TransactWriteItems"


class _Response:
    def __init__(self, status_code: int) -> None:
        self.status_code = status_code


class StrictTokens:
    """The tokens of one client's transactions: a known one with the same parameters succeeds, with others it is refused.

    https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html
    """

    def __init__(self, client: Any, clock: Clock) -> None:
        self._clock = clock
        self._made: dict[str, tuple[dict[str, Any], datetime]] = {}
        client.meta.events.register(f"provide-client-params.{_TRANSACT}", self._note)
        client.meta.events.register(f"before-call.{_TRANSACT}", self._answer_known)
        client.meta.events.register_first(f"after-call.{_TRANSACT}", self._keep)

    def _note(self, params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        context["noted"] = params.get("ClientRequestToken", ""), params

    def _answer_known(self, context: dict[str, Any], **_: Any) -> Any:
        token, params = context["noted"]
        if token not in self._made or self._clock.now() - self._made[token][1] >= TOKEN_LIFE:
            return None
        context["noted"] = "", params
        if self._made[token][0] == params:
            return _Response(200), {"ResponseMetadata": {"HTTPStatusCode": 200}}
        error = {"Code": "IdempotentParameterMismatchException", "Message": "as AWS documents it"}
        return _Response(400), {"ResponseMetadata": {"HTTPStatusCode": 400}, "Error": error}

    def _keep(self, http_response: Any, context: dict[str, Any], **_: Any) -> None:
        token, params = context["noted"]
        if token and http_response.status_code == 200:
            self._made[token] = params, self._clock.now()


def lose_first_answer(client: Any) -> None:
    """Let the client's first transaction be made, and its answer be lost."""
    answers = iter([True])

    def lose(**_: Any) -> None:
        if next(answers, False):
            raise ReadTimeoutError(endpoint_url="http://127.0.0.1")

    client.meta.events.register_last(f"after-call.{_TRANSACT}", lose)
