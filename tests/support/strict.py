"""Botocore hooks that refuse what DynamoDB refuses by AWS's documentation, but emulators accept."""

import re
from datetime import datetime
from typing import Any

from aion_core.clock import Clock
from aion_core.table.semantics.tokens import TOKEN_LIFE

_KEYS = "KeyConditionExpression"
_TRANSACT = "dynamodb.TransactWriteItems"


class _Response:
    def __init__(self, status_code: int) -> None:
        self.status_code = status_code


def _refusal(code: str, message: str) -> tuple[_Response, dict[str, Any]]:
    error = {"Code": code, "Message": message}
    return _Response(400), {"ResponseMetadata": {"HTTPStatusCode": 400}, "Error": error}


def refuse_empty_keys(client: Any) -> None:
    """Refuse queries of the client in which a key attribute has an empty text.

    "The AttributeValue for a key attribute cannot contain an empty string value."
    """

    def note(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        values = params["ExpressionAttributeValues"]
        context["empty_key"] = any(values[name] == {"S": ""} for name in re.findall(r":\w+", params[_KEYS]))

    def refuse(context: dict[str, Any], **_: Any) -> Any:
        return _refusal("ValidationException", "an empty key") if context["empty_key"] else None

    client.meta.events.register("provide-client-params.dynamodb.Query", note)
    client.meta.events.register("before-call.dynamodb.Query", refuse)


class StrictTokens:
    """Idempotency tokens of one client: a repeated token succeeds with the same parameters, and fails with others.

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
        return _refusal("IdempotentParameterMismatchException", "other parameters")

    def _keep(self, http_response: Any, context: dict[str, Any], **_: Any) -> None:
        token, params = context["noted"]
        if token and http_response.status_code == 200:
            self._made[token] = params, self._clock.now()
