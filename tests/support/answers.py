"""Responses of AWS that emulators never send, such as rare errors."""

from typing import Any, cast

from botocore.awsrequest import AWSResponse


def answers(client: Any, status: int, body: bytes) -> None:
    """Replace the service: give these responses to all requests of the boto3 client, which does not retry."""

    def answer(request: Any, **_: Any) -> AWSResponse:
        headers: Any = {"content-type": "text/plain"}
        response: Any = AWSResponse(request.url, status, headers, None)
        response._content = body
        return cast("AWSResponse", response)

    client.meta.events.register("before-send", answer)
    service = client.meta.service_model.service_name
    client.meta.events.unregister(f"needs-retry.{service}", unique_id=f"retry-config-{service}")
