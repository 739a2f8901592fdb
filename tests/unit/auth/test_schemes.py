"""API keys, AWS IAM, and schemes combined: whose a request is, and what is nobody's."""

from typing import Any

import pytest

from aion_core.auth.schemes.api_key import ApiKeyScheme, make_key
from aion_core.auth.schemes.aws_iam import AwsIamScheme, IamOwner
from aion_core.auth.schemes.basic import BasicScheme
from aion_core.errors import StoreUnavailable
from tests.support.clock import ManualClock
from tests.support.issuer import Issuer
from tests.support.recorded import recorded_event
from tests.unit.auth.auth_app import AuthApp
from tests.unit.auth.passwords import USERS, basic_header
from tests.unit.auth.test_tokens import scheme

# --- API keys ---


@pytest.fixture
def app(clock: ManualClock) -> AuthApp:
    return AuthApp(clock, key=ApiKeyScheme())


async def key(app: AuthApp, clock: ManualClock, principal: str = "alice", **more: Any) -> str:
    made = make_key(principal, now=clock.now(), **more)
    await app.keys.add(made.record)
    return made.text


async def test_keys_of_one_principal_are_one_owners(app: AuthApp, clock: ManualClock) -> None:
    """R96: R6, R9: a key can be replaced, and no task is lost."""
    first, second = await key(app, clock), await key(app, clock)
    assert first != second
    answers = [(await app.get(("X-API-Key", text))).json() for text in (first, second)]
    assert answers[0] == answers[1]
    assert answers[0]["subject"] == "alice"
    assert (await app.get(("x-api-key", await key(app, clock, "bob")))).json()["owner"] != answers[0]["owner"]
    await app.keys.revoke(first.split("_")[1])
    assert (await app.get(("X-API-Key", first))).status_code == 401
    assert (await app.get(("X-API-Key", second))).json() == answers[0]


async def test_nothing_but_the_whole_key_is_it(
    app: AuthApp, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """R97: 63, 64."""
    caplog.set_level("DEBUG", "aion_core")
    text = await key(app, clock)
    record = (await app.keys.all())[0]
    wrong = [
        text[:-1],
        text[:-1] + ("a" if text[-1] != "a" else "b"),
        text.upper(),
        f"{text} ",
        f"{text},{text}",
        record.id,
        record.sha256,
        f"aion_{record.id}_{record.sha256[:43]}",
        f"aion_{'a' * 16}_{'b' * 43}",
        "aion__",
        "ключ",
        "x" * 20_000,
    ]
    missing = await app.get()
    assert missing.headers["www-authenticate"] == 'ApiKey realm="aion", header="X-API-Key"'
    for guess in wrong:
        if guess.strip() != text:
            answer = await app.get(("X-API-Key", guess.encode().decode("latin-1")))
            assert (answer.status_code, answer.content) == (401, missing.content), guess
    assert (await app.get(("X-API-Key", text), ("X-API-Key", text))).status_code == 401
    assert (await app.get(("Authorization", f"Bearer {text}"))).status_code == 401
    for query in ("x-api-key", "X-API-Key", "api_key", "key"):
        assert (await app.get(path=f"/?{query}={text}")).status_code == 401
    assert text not in caplog.text
    assert text.split("_", 2)[2] not in caplog.text


async def test_what_is_kept_of_a_key_opens_nothing(clock: ManualClock) -> None:
    made = make_key("alice", now=clock.now())
    assert made.text.split("_", 2)[2] not in repr(made.record)
    assert made.record.last4 == made.text[-4:]


async def test_a_key_of_another_agent_is_refused_as_known(app: AuthApp, clock: ManualClock) -> None:
    """R97: 65."""
    header = ("X-API-Key", await key(app, clock, agents=frozenset({"two"})))
    assert (await app.get(header, path="/agents/two/")).status_code == 200
    for path in ("/", "/agents/one/", "/agents/nobody/", "/tasks"):
        assert (await app.get(header, path=path)).status_code == 403
    closed = ("X-API-Key", await key(app, clock, agents=frozenset()))
    assert (await app.get(closed, path="/agents/two/")).status_code == 403


async def test_a_key_gives_the_scopes_that_it_was_made_with(clock: ManualClock) -> None:
    """R97: 66."""
    app = AuthApp(clock, {"key": frozenset({"read", "write"})}, key=ApiKeyScheme(header="X-Our-Key"))
    for scopes, status in (({"read", "write", "x"}, 200), ({"read"}, 403), (set(), 403)):
        text = await key(app, clock, scopes=frozenset(scopes))
        assert (await app.get(("X-Our-Key", text))).status_code == status
        assert (await app.get(("X-API-Key", text))).status_code == 401


async def test_where_the_table_does_not_answer_nobody_is_let_in(
    app: AuthApp, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = await key(app, clock)

    async def throttled(key_id: str) -> None:
        raise StoreUnavailable("ProvisionedThroughputExceededException of table aion-secret")

    monkeypatch.setattr(app.keys, "find", throttled)
    answer = await app.get(("X-API-Key", text))
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert "aion-secret" not in answer.text

    async def broken(key_id: str) -> None:
        raise LookupError("aion-secret")

    monkeypatch.setattr(app.keys, "find", broken)
    answer = await app.get(("X-API-Key", text))
    assert answer.status_code == 500
    assert "aion-secret" not in answer.text


# --- AWS IAM ---

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
async def test_the_signer_is_whom_aws_says(clock: ManualClock, event: Any) -> None:
    """R96: R7, R9: by either front the same."""
    app = AuthApp(clock, iam=AwsIamScheme())
    user = "arn:aws:iam::123456789012:user/alice"
    assert (await app.get(event=event(userArn=user))).json()["subject"] == user
    # Two sessions of a role are one caller.
    found = [(await app.get(event=event(userArn=f"{ROLE}/{session}"))).json() for session in ("a", "b@x.com")]
    assert found[0] == found[1]
    assert found[0]["subject"] == ROLE
    other = (await app.get(event=event(userArn=f"{ROLE}Two/a"))).json()
    assert other["owner"] != found[0]["owner"]
    by_session = AuthApp(clock, iam=AwsIamScheme(owner=IamOwner.SESSION))
    found = [(await by_session.get(event=event(userArn=f"{ROLE}/{session}"))).json()["owner"] for session in "ab"]
    assert found[0] != found[1]


async def test_a_role_that_an_identity_pool_shares_out_is_not_one_caller(clock: ManualClock) -> None:
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


@pytest.mark.parametrize(
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
async def test_without_aws_s_word_nobody_has_signed(clock: ManualClock, event: Any) -> None:
    """R97: 67: whatever the headers say."""
    app = AuthApp(clock, iam=AwsIamScheme())
    signature = ("Authorization", "AWS4-HMAC-SHA256 Credential=AKIA/20260327/eu-west-1/execute-api/aws4_request")
    spoofed = [("X-Amzn-Iam-User-Arn", ROLE), ("x-amzn-request-context", '{"identity": {"userArn": "x"}}'), signature]
    for headers in ([], spoofed):
        answer = await app.get(*headers, event=event)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == 'AWS4-HMAC-SHA256 realm="aion"'


# --- Combined ---


async def test_schemes_are_combined_as_declared(issuer: Issuer, clock: ManualClock) -> None:
    """R96, R97: either a token with the scope and a key, or a name and a password."""
    both, alone = {"jwt": frozenset({"chat"}), "key": frozenset[str]()}, {"basic": frozenset[str]()}
    app = AuthApp(clock, both, alone, users=USERS, jwt=scheme(issuer), key=ApiKeyScheme(), basic=BasicScheme())
    token = ("Authorization", f"Bearer {issuer.token()}")
    our_key = ("X-API-Key", await key(app, clock, "machine"))
    assert (await app.get(token, our_key)).json()["subject"] == "alice", "whoever is named first is the caller"
    assert (await app.get(basic_header("bob", "Ünïcode"))).json()["subject"] == "bob"
    assert (await app.get(basic_header("bob", "Ünïcode"), our_key)).json()["subject"] == "bob"
    refused = await app.get(token)
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == (
        'Bearer realm="aion", ApiKey realm="aion", header="X-API-Key", Basic realm="aion", charset="UTF-8"'
    )
    assert (await app.get(our_key)).status_code == 401
    unscoped = ("Authorization", f"Bearer {issuer.token(scope='x')}")
    assert (await app.get(unscoped, our_key)).status_code == 403
    for_two = ("X-API-Key", await key(app, clock, "machine", agents=frozenset({"two"})))
    assert (await app.get(token, for_two)).status_code == 403
    assert (await app.get(token, for_two, path="/agents/two/")).status_code == 200


async def test_credentials_for_two_tenants_are_for_none(issuer: Issuer, clock: ManualClock) -> None:
    app = AuthApp(
        clock,
        {"jwt": frozenset(), "key": frozenset()},
        jwt=scheme(issuer, tenant_claim="tid"),
        key=ApiKeyScheme(),
    )
    token = ("Authorization", f"Bearer {issuer.token(tid='red')}")
    for tenant, status in (("", 200), ("red", 200), ("blue", 403)):
        our_key = ("X-API-Key", await key(app, clock, tenant=tenant))
        assert (await app.get(token, our_key)).status_code == status
