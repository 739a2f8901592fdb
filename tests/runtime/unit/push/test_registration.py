"""Credentials of a webhook config: names of headers."""

import pytest
from a2a.types.a2a_pb2 import TaskPushNotificationConfig

from aion_core.errors import InvalidMessage
from aion_core.push.registration import check_config
from aion_core.push.ssrf import WebhookPolicy
from tests.support.rows import each_row

POLICY = WebhookPolicy.for_service("https://agents.example.com")


def config(header: str) -> TaskPushNotificationConfig:
    found = TaskPushNotificationConfig(url="https://hooks.example.org/")
    found.authentication.scheme, found.authentication.credentials = "ApiKey", f"{header}: the-key"
    return found


@each_row(
    "header",
    [
        "Metadata-Flavor",
        "Metadata",
        "X-Google-Metadata-Request",
        "X-aws-ec2-metadata-token",
        "X-aws-ec2-metadata-token-ttl-seconds",
        "X_AWS_EC2_METADATA_TOKEN",
        "X-aliyun-ecs-metadata-token",
        "X-IDENTITY-HEADER",
        "Content-Length",
        "Content_Length",
        "Transfer_Encoding",
        "Set-Cookie",
        "Cookie",
        "Host",
        "HOST",
    ],
)
def test_webhook_credential_in_reserved_header_is_refused(header: str) -> None:
    with pytest.raises(InvalidMessage, match="API key") as refused:
        check_config(config(header), POLICY)
    assert refused.value.field == "authentication.credentials"


@each_row("header", ["X-Api-Key", "X_Api_Key", "Ocp-Apim-Subscription-Key", "Authorization", "X-Hub-Token"])
def test_webhook_credential_in_usual_header_is_accepted(header: str) -> None:
    check_config(config(header), POLICY)
