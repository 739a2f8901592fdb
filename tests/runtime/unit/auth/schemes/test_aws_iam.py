"""AWS IAM: the signer in the Lambda event."""

from typing import Any

import pytest

from aion_core.auth.schemes.aws_iam import AwsIamScheme, IamOwner
from tests.support.auth_app import AuthApp
from tests.support.clock import ManualClock
from tests.support.recorded import recorded_event
from tests.support.rows import each_row

ROLE = "arn:aws:sts::123456789012:assumed-role/Caller"


def rest_api(**identity: Any) -> dict[str, Any]:
    event = recorded_event("rest_api_v1")
    event["requestContext"]["identity"] |= identity
    return event


def function_url(**iam: Any) -> dict[str, Any]:
    event = recorded_event("function_url_v2")
    event["requestContext"]["authorizer"] = {"iam": iam}
    return event


@pytest.mark.parametrize("event", [rest_api, function_url])
async def test_iam_user_or_role_identifies_the_caller(clock: ManualClock, event: Any) -> None:
    """Read the signer from the events of both HTTP entry points."""
    app = AuthApp(clock, iam=AwsIamScheme())
    user = "arn:aws:iam::123456789012:user/alice"
    assert (await app.get(event=event(userArn=user))).json()["subject"] == user
    # Two sessions of a role share an owner.
    found = [(await app.get(event=event(userArn=f"{ROLE}/{session}"))).json() for session in ("a", "b@x.com")]
    assert found[0] == found[1]
    assert found[0]["subject"] == ROLE
    other = (await app.get(event=event(userArn=f"{ROLE}Two/a"))).json()
    assert other["owner"] != found[0]["owner"]
    by_session = AuthApp(clock, iam=AwsIamScheme(owner=IamOwner.SESSION))
    found = [(await by_session.get(event=event(userArn=f"{ROLE}/{session}"))).json()["owner"] for session in "ab"]
    assert found[0] != found[1]


async def test_cognito_users_of_one_role_have_separate_owners(clock: ManualClock) -> None:
    app = AuthApp(clock, iam=AwsIamScheme())
    owners = {
        (await app.get(event=event)).json()["owner"]
        for event in (
            rest_api(userArn=f"{ROLE}/s", cognitoIdentityId="eu-west-1:1"),
            rest_api(userArn=f"{ROLE}/s", cognitoIdentityId="eu-west-1:2"),
            rest_api(userArn=f"{ROLE}/s"),
        )
    }
    assert len(owners) == 3
    same = function_url(userArn=f"{ROLE}/t", cognitoIdentity={"identityId": "eu-west-1:1", "identityPoolId": "p"})
    assert (await app.get(event=same)).json()["owner"] in owners


@each_row(
    "event",
    [
        None,
        {},
        rest_api(),
        rest_api(userArn=None, caller="AIDA", user="AIDA"),
        rest_api(userArn=""),
        rest_api(userArn={"arn": ROLE}),
        function_url(),
        function_url(userArn=None),
        {"version": "2.0", "requestContext": {"identity": {"userArn": ROLE}}},
        {"version": "1.0", "requestContext": {"authorizer": {"iam": {"userArn": ROLE}}}},
        {"requestContext": {"authorizer": {"iam": {"userArn": ROLE}}}},
        {"version": "2.0", "requestContext": {"authorizer": "iam"}},
        {"version": "2.0", "requestContext": {"authorizer": {"lambda": {"userArn": ROLE}}}},
        {"requestContext": None},
        {"headers": {"userArn": ROLE}, "body": '{"requestContext": {"identity": {"userArn": "x"}}}'},
    ],
)
async def test_iam_caller_is_read_from_event_not_headers(clock: ManualClock, event: Any) -> None:
    app = AuthApp(clock, iam=AwsIamScheme())
    signature = ("Authorization", "AWS4-HMAC-SHA256 Credential=AKIA/20260327/eu-west-1/execute-api/aws4_request")
    spoofed = [("X-Amzn-Iam-User-Arn", ROLE), ("x-amzn-request-context", '{"identity": {"userArn": "x"}}'), signature]
    for headers in ([], spoofed):
        answer = await app.get(*headers, event=event)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == 'AWS4-HMAC-SHA256 realm="aion"'
