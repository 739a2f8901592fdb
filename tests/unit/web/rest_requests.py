"""What the tests of the REST bindings share: a request's body, and what a refusal has to look like."""

from typing import Any

import httpx

from tests.support.service import send

A2A_JSON = "application/a2a+json"


def body(text: str = "hi", *, message_id: str = "m-1", **message: Any) -> dict[str, Any]:
    """The body of POST /message:send."""
    params: dict[str, Any] = send(text, message_id=message_id, **message)["params"]
    return params


def old_body(text: str = "hi", *, message_id: str = "m-1", **message: Any) -> dict[str, Any]:
    """The same as v0.3's proto file has it."""
    return {"message": {"messageId": message_id, "role": "ROLE_USER", "content": [{"text": text}], **message}}


def refused(answer: httpx.Response, http: int, reason: str, *words: str) -> dict[str, Any]:
    """The error of a v1.0 answer, once it is seen to be one."""
    assert answer.status_code == http, answer.text
    assert answer.headers["content-type"] == A2A_JSON
    error: dict[str, Any] = answer.json()["error"]
    assert error["code"] == http
    assert error["status"].isupper()
    [info, *rest] = error["details"]
    assert info["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
    assert (info["reason"], info["domain"]) == (reason, "a2a-protocol.org")
    assert all(isinstance(value, str) for value in info["metadata"].values())
    assert [detail["@type"] for detail in rest] in ([], ["type.googleapis.com/google.rpc.BadRequest"])
    assert len(error["message"]) > 20, "a sentence, not a label"
    for word in words:
        assert word in error["message"], error["message"]
    return error


def fields(error: dict[str, Any]) -> list[str]:
    """The fields that the error blames."""
    return [violation["field"] for detail in error["details"] for violation in detail.get("fieldViolations", [])]
