"""Messages for the operator about AWS's errors."""

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError
from starlette.responses import Response

from aion_core.errors import OtherLayout, StoreError
from aion_tools.cli.error_text import error_text
from aion_tools.deploy.errors import AwsRefused
from aion_tools.stack.stack import SETTINGS
from tests.support import operating
from tests.support.listening import listening


@pytest.mark.parametrize(
    ("message", "action"),
    [
        (
            "User: arn:aws:iam::1:user/op is not authorized to perform: kms:Decrypt on resource: arn:aws:kms:x",
            "kms:Decrypt",
        ),
        ("Access Denied", "Scan"),
        (None, "Scan"),  # botocore's value for an empty element of XML
    ],
)
def test_text_of_forbidden_call_names_iam_action(message: str | None, action: str) -> None:
    error = StoreError("Scan: AccessDeniedException")
    error.__cause__ = ClientError({"Error": {"Code": "AccessDeniedException", "Message": message}}, "Scan")  # type: ignore[typeddict-item]
    assert error_text(error) == f"Your AWS credentials lack a permission ({action})."


def test_text_of_other_layout_is_its_own_sentence() -> None:
    text = "The table T has items of layout 2, and this version of aion reads only layout 3: delete the stack."
    assert error_text(OtherLayout(text)) == text


def test_text_of_timed_out_call_names_network() -> None:
    error = StoreError("Scan: ReadTimeoutError")
    error.__cause__ = ReadTimeoutError(endpoint_url="https://aws")
    assert error_text(error).startswith("AWS doesn't respond. Check the network")


def test_text_of_html_response_names_proxy() -> None:
    """A proxy answers each request with a page for people."""
    with listening(Response("<!doctype html><html lang=en><p>Bad gateway</html>", 502)) as url:
        failed = operating.runs({**SETTINGS, "AWS_ENDPOINT_URL": url})("destroy", "--stack", "aion-prod")
    assert operating.refusal(failed).startswith("The response isn't from AWS; it may be from a proxy.")


def test_text_of_deleted_change_set_names_other_deployment() -> None:
    error = AwsRefused("DescribeChangeSet", "ChangeSetNotFound", "ChangeSet [arn:…] does not exist")
    assert error_text(error) == "Another deployment changed the stack meanwhile. Run `aion deploy` again."


@pytest.mark.parametrize("code", ["DisabledException", "KMSInvalidStateException", "KMS.DisabledException"])
def test_text_of_disabled_key_names_commands(code: str) -> None:
    assert "aws kms enable-key --key-id KEY" in error_text(StoreError(f"GetObject: {code}"))
