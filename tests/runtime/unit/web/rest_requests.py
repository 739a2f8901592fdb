"""Request bodies and refusal checks for the tests of the HTTP+JSON bindings."""

from typing import Any

import httpx

from tests.support.service import send

A2A_JSON, JSON = "application/a2a+json", "application/json"


def body(text: str = "hi", *, message_id: str = "m-1", **message: Any) -> dict[str, Any]:
    """Return the body of POST /message:send."""
    params: dict[str, Any] = send(text, message_id=message_id, **message)["params"]
    return params


def old_body(text: str = "hi", *, message_id: str = "m-1", **message: Any) -> dict[str, Any]:
    """Return the body of POST /v1/message:send, in the form of v0.3's proto file."""
    return {"message": {"messageId": message_id, "role": "ROLE_USER", "content": [{"text": text}], **message}}


def refused(answer: httpx.Response, http: int, reason: str, *words: str) -> dict[str, Any]:
    """Check that a v1.0 response is a refusal, and return its error."""
    assert answer.status_code == http, answer.text
    assert answer.headers["content-type"] in (A2A_JSON, JSON)
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
    """Return the invalid fields in the error."""
    return [violation["field"] for detail in error["details"] for violation in detail.get("fieldViolations", [])]
