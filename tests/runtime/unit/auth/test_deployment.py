"""Policies of deployments: start checks, agent cards, imports."""

import asyncio
import json
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import pytest
from a2a.client.card_resolver import parse_agent_card
from a2a.compat.v0_3 import types as v03
from a2a.types import AgentCard
from google.protobuf.json_format import ParseDict

from aion_core.auth.credentials import RequestCredentials
from aion_core.auth.deployment import policies_in_force
from aion_core.auth.policy import AuthPolicy
from aion_core.auth.principal import Principal
from aion_core.auth.schemes.api_key import ApiKeyScheme
from aion_core.auth.schemes.aws_iam import AwsIamScheme, IamVerifier
from aion_core.bootstrap import build_app
from aion_core.errors import ConfigurationError
from aion_core.lambda_runtime.buffered import BufferedHandler
from aion_core.lambda_runtime.http_event import EventReader
from aion_core.settings import Settings
from tests.runtime.unit.auth.guarded import guarded, jwt_scheme, scheme
from tests.support.asgi import ask
from tests.support.deployment import at, deployed
from tests.support.e2e import forked
from tests.support.issuer import Issuer
from tests.support.recorded import recorded_event
from tests.support.rows import each_row
from tests.support.server import ROOT
from tests.support.service import http

PLAIN = "aion:\n  agents:\n    a: {path: a.py}\n    b: {path: b.py}\n"
KEY = "  security: {schemes: {key: {type: api-key}}}\n"
IAM = "  security: {schemes: {iam: {type: aws-iam}}}\n"
MIXED = "  security: {schemes: {iam: {type: aws-iam}, key: {type: api-key}}}\n"
UNLIMITED = "  limits: {requests_per_minute: null}\n"
TOGETHER = "  security: {schemes: {iam: {type: aws-iam}, key: {type: api-key}}, require: [{iam: [], key: []}]}\n"
STACK = {
    "AION_STORE": "",
    "AION_TABLE": "t",
    "AION_BUCKET": "b",
    "AION_TASK_QUEUE_URL": "https://sqs/q",
    "AWS_LAMBDA_FUNCTION_NAME": "api",
}


def with_security(security: str) -> str:
    return PLAIN.replace("aion:\n", f"aion:\n{security}")


@each_row(
    ("is_declared", "is_off", "is_temporary", "admits_everybody"),
    [
        (True, False, False, False),
        (True, False, True, False),
        (True, True, False, True),
        (False, True, False, True),
        (False, True, True, True),
        (False, False, True, True),
    ],
)
def test_everybody_is_admitted_only_by_choice_or_to_temporary_store(
    is_declared: bool, is_off: bool, is_temporary: bool, admits_everybody: bool
) -> None:
    policy = AuthPolicy({"key": ApiKeyScheme()}, ({"key": frozenset()},))
    declared = {"a": policy} if is_declared else {}
    found = policies_in_force(declared, ["a"], [], is_off=is_off, is_temporary=is_temporary)
    assert found == ({} if admits_everybody else declared)


def test_deployment_without_policy_and_signatures_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="nobody would authenticate"):
        policies_in_force({}, ["a"], [], is_off=False, is_temporary=False)


@each_row(
    ("security", "entrypoints", "sentence"),
    [
        ("", "NONE,OFF", "declares no `security`"),
        ("", "AWS_IAM,NONE", "declares no `security`"),
        ("", "", "declares no `security`"),
        ("", "OFF", "declares no `security`"),
        ("", "AWS_IAM,OFF", None),
        ("", "AWS_IAM,AWS_IAM", None),
        (KEY, "NONE,OFF", None),
        (KEY, "NONE,NONE", None),
        (KEY, "", None),
        (KEY, "AWS_IAM,OFF", "a accepts requests without AWS signatures"),
        (KEY, "AWS_IAM,NONE", "a accepts requests without AWS signatures"),
        (IAM, "AWS_IAM,OFF", None),
        (IAM, "NONE,OFF", "a requires AWS signatures"),
        (IAM, "AWS_IAM,NONE", "a requires AWS signatures"),
        (MIXED, "AWS_IAM,NONE", None),
        (MIXED, "AWS_IAM,OFF", "a accepts requests without AWS signatures"),
        (MIXED, "NONE,OFF", "a requires AWS signatures"),
        (TOGETHER, "AWS_IAM,OFF", None),
        (TOGETHER, "AWS_IAM,NONE", "a requires AWS signatures"),
    ],
)
def test_server_does_not_start_if_entry_point_contradicts_security_policy(
    tmp_path: Path, security: str, entrypoints: str, sentence: str | None
) -> None:
    environ = {**STACK, "AION_HTTP_ENTRYPOINTS": entrypoints}
    if sentence is None:
        deployed(tmp_path, with_security(security), **environ)
    else:
        with pytest.raises(ConfigurationError, match=sentence):
            deployed(tmp_path, with_security(security), **environ)


@pytest.mark.parametrize(
    ("security", "environ", "sentence"),
    [
        ("", {"AION_HTTP_ENTRYPOINTS": "NONE,OFF"}, "declares no `security`"),
        pytest.param(
            KEY,
            {"AION_HTTP_ENTRYPOINTS": "NONE,OFF", "AION_AUTH": "off"},
            "AION_AUTH is off, but a deployed function",
            marks=pytest.mark.deep,
        ),
    ],
)
def test_handler_without_authentication_does_not_start(
    tmp_path: Path, security: str, environ: dict[str, str], sentence: str
) -> None:
    """Import the handler as on Lambda: the import raises an error."""
    config = tmp_path / "aion.yaml"
    config.write_text(with_security(security))
    given = {**STACK, "AION_CONFIG": str(config), "PATH": "/usr/bin:/bin", **environ}
    program = "import handlers.api; print('it is up')"
    ran = forked.run("-c", program, env=given)
    assert ran.returncode == 1
    assert "it is up" not in ran.stdout
    assert f"ConfigurationError: {sentence}" in ran.stderr or sentence in ran.stderr.splitlines()[-1], ran.stderr


def test_deployed_authentication_cannot_be_disabled(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="AION_AUTH is off, but a deployed function"):
        deployed(tmp_path, with_security(KEY), **STACK, AION_AUTH="off")
    # AION_AUTH may be off in SAM's local function, and in a server on this machine.
    deployed(tmp_path, PLAIN, **STACK, AION_AUTH="off", AWS_SAM_LOCAL="true")
    deployed(tmp_path, PLAIN, **{**STACK, "AWS_LAMBDA_FUNCTION_NAME": ""}, AION_AUTH="off")


@each_row("entrypoints", ["aws_iam", "AWS_IAM;NONE", "AWS_IAM,", "JWT"])
def test_unknown_entrypoint_authorizer_is_named_in_error(entrypoints: str) -> None:
    with pytest.raises(ConfigurationError, match="AION_HTTP_ENTRYPOINTS is"):
        Settings.from_environ({**STACK, "AION_HTTP_ENTRYPOINTS": entrypoints})


async def test_default_stack_requires_aws_signatures(tmp_path: Path) -> None:
    """Serve the example with the environment of a default `sam deploy`: its card requires the AWS scheme."""
    environ = {**STACK, "AION_CONFIG": str(ROOT / "aion.yaml"), "AION_HTTP_ENTRYPOINTS": "AWS_IAM,OFF"}
    app = build_app(Settings.from_environ(environ))
    card = json.loads((await ask(app, "GET", "/.well-known/agent-card.json")).content)
    assert card["security"] == [{"aws_iam": []}]
    assert card["securitySchemes"]["aws_iam"]["scheme"] == "AWS4-HMAC-SHA256"
    assert card["securityRequirements"] == [{"schemes": {"aws_iam": {}}}]
    refused = await ask(app, "GET", "/nothing")
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, 'AWS4-HMAC-SHA256 realm="aion"')


class FakeLambdaContext:
    """Lambda context with the attributes used here."""

    aws_request_id, function_name = "r-1", "api"

    def get_remaining_time_in_millis(self) -> int:
        return 60_000


ALICE = "arn:aws:iam::123456789012:user/alice"


@pytest.mark.parametrize("entrypoint_url", ["rest_api_v1", "function_url_v2"])
def test_iam_caller_is_identified_by_buffered_handler(tmp_path: Path, entrypoint_url: str) -> None:
    # Use a policy without a limit, because the test has no table to count requests.
    app = deployed(tmp_path, with_security(UNLIMITED), **STACK, AION_HTTP_ENTRYPOINTS="AWS_IAM,AWS_IAM")
    event = recorded_event(entrypoint_url)
    (event["headers"] if "rawPath" in event else event["multiValueHeaders"]).pop("Authorization", None)
    for path in ("path", "rawPath"):
        if path in event:
            event[path] = "/nothing"
    handler = BufferedHandler(app)
    answers = [handler(event, FakeLambdaContext())]
    if "rawPath" in event:
        event["requestContext"]["authorizer"] = {"iam": {"userArn": ALICE}}
    else:
        event["requestContext"]["identity"]["userArn"] = ALICE
    answers.append(handler(event, FakeLambdaContext()))
    assert [answer["statusCode"] for answer in answers] == [401, 404]
    assert '"reason":"UNAUTHENTICATED"' in answers[0]["body"]

    scope = EventReader(app).read(json.dumps(event).encode(), FakeLambdaContext()).scope
    found = asyncio.run(
        IamVerifier(AwsIamScheme()).verify(RequestCredentials.from_request(scope["headers"], scope["aws.event"]))
    )
    assert isinstance(found, Principal)
    assert found.subject == ALICE


def four_schemes(issuer: Issuer) -> str:
    return (
        jwt_scheme(issuer, description="Our tokens")
        + scheme("oidc", type="oidc", issuer="https://login.example.com", audience="x")
        + scheme("key", type="api-key", header="X-Our-Key")
        + scheme("basic", type="basic")
        + scheme("unused", type="aws-iam")
    )


@pytest.fixture
def users(tmp_path: Path) -> str:
    file = tmp_path / "users.json"
    file.write_text("{}")
    return str(file)


REQUIRE = "[{jwt: [chat, read], key: []}, oidc, basic]"


async def test_card_shows_schemes_in_both_versions(tmp_path: Path, issuer: Issuer, users: str) -> None:
    """The card lists only the schemes that the policy requires."""
    app = guarded(tmp_path, four_schemes(issuer), REQUIRE, AION_BASIC_USERS_FILE=users)
    async with http(app) as client:
        both = (await client.get("/.well-known/agent-card.json")).json()
        first = (await client.get("/.well-known/agent-card.json", headers={"A2A-Version": "1.0"})).json()
    read = ParseDict(first, AgentCard())
    schemes = {name: held.WhichOneof("scheme") for name, held in read.security_schemes.items()}
    assert schemes == {
        "jwt": "http_auth_security_scheme",
        "oidc": "open_id_connect_security_scheme",
        "key": "api_key_security_scheme",
        "basic": "http_auth_security_scheme",
    }
    bearer = read.security_schemes["jwt"].http_auth_security_scheme
    assert (bearer.scheme, bearer.bearer_format, bearer.description) == ("Bearer", "JWT", "Our tokens")
    assert read.security_schemes["basic"].http_auth_security_scheme.scheme == "Basic"
    key = read.security_schemes["key"].api_key_security_scheme
    assert (key.location, key.name) == ("header", "X-Our-Key")
    discovery = "https://login.example.com/.well-known/openid-configuration"
    assert read.security_schemes["oidc"].open_id_connect_security_scheme.open_id_connect_url == discovery
    required = [{name: list(held.list) for name, held in each.schemes.items()} for each in read.security_requirements]
    assert required == [{"jwt": ["chat", "read"], "key": []}, {"oidc": []}, {"basic": []}]
    # Pass a copy of the card, because the official client changes its argument.
    assert parse_agent_card(deepcopy(both)) == ParseDict(both, AgentCard(), ignore_unknown_fields=True)
    assert parse_agent_card(deepcopy(both)).security_requirements == read.security_requirements
    old = v03.AgentCard.model_validate(both)
    assert old.security == required
    assert old.security_schemes is not None
    kinds = {name: held.root.type for name, held in old.security_schemes.items()}
    assert kinds == {"jwt": "http", "oidc": "openIdConnect", "key": "apiKey", "basic": "http"}


async def test_each_agent_has_its_own_security_policy(tmp_path: Path, issuer: Issuer) -> None:
    """Serve two agents with different policies: each card shows its agent's policy."""
    two = "security: {schemes: {ours: {type: api-key}}}"
    async with http(guarded(tmp_path, jwt_scheme(issuer), "[{jwt: [chat]}]", two=two)) as client:
        cards = [(await client.get(f"/agents/{id_}/.well-known/agent-card.json")).json() for id_ in ("one", "two")]
        assert [card["security"] for card in cards] == [[{"jwt": ["chat"]}], [{"ours": []}]]
        assert [list(card["securitySchemes"]) for card in cards] == [["jwt"], ["ours"]]
        token = {"Authorization": f"Bearer {issuer.token()}"}
        assert (await client.get("/agents/one/tasks", headers=token)).status_code == 200
        refused = await client.get("/agents/two/tasks", headers=token)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == 'ApiKey realm="aion", header="X-API-Key"'


async def test_card_without_authentication_shows_no_schemes(tmp_path: Path, issuer: Issuer) -> None:
    app = guarded(tmp_path, jwt_scheme(issuer), AION_AUTH="off")
    async with at(app, "http://127.0.0.1:8000") as client:
        card = (await client.get("/.well-known/agent-card.json")).json()
        assert not [name for name in card if "security" in name.lower()]
        assert (await client.get("/tasks")).status_code == 200


@each_row(
    ("headers", "status"),
    [
        ({"host": "127.0.0.1:8000"}, 200),
        ({"host": "localhost:8000"}, 200),
        ({"host": "LOCALHOST"}, 200),
        ({"host": "[::1]:8000"}, 200),
        ({"host": "127.0.0.1:8000", "origin": "http://localhost:3000"}, 200),
        ({"host": "evil.example.com"}, 403),
        ({"host": "127.0.0.1.evil.example.com"}, 403),
        ({"host": "localhost.evil.example.com:8000"}, 403),
        ({"host": "127.0.0.1:8000@evil.example.com"}, 403),
        ({"host": ""}, 403),
        ({"host": "0.0.0.0:8000"}, 403),
        ({"host": "127.0.0.1:8000", "origin": "https://evil.example.com"}, 403),
        ({"host": "127.0.0.1:8000", "origin": "http://127.0.0.1.evil.example.com"}, 403),
        ({"host": "127.0.0.1:8000", "origin": "null"}, 403),
        ({"host": "127.0.0.1:8000", "origin": "http://127.0.0.1:8000 "}, 403),
    ],
)
async def test_server_without_authentication_serves_loopback_only(
    tmp_path: Path, headers: dict[str, str], status: int
) -> None:
    """Send requests under another host name: all are refused, even for the public card."""
    app = deployed(tmp_path, PLAIN, AION_AUTH="off")
    for method, path in (("GET", "/.well-known/agent-card.json"), ("GET", "/tasks"), ("GET", "/health")):
        assert (await ask(app, method, path, headers)).status_code == status
    assert ((await ask(app, "POST", "/", headers)).status_code == 403) is (status == 403)


@pytest.mark.parametrize(
    ("schemes", "loaded"),
    [
        pytest.param("{key: {type: api-key}}", set(), marks=pytest.mark.deep),
        pytest.param("{iam: {type: aws-iam}}", set(), marks=pytest.mark.deep),
        pytest.param(
            "{jwt: {type: bearer-jwt, issuer: 'https://x.test', audience: x, jwks_url: 'https://x.test/j'}}",
            {"jwt"},
            marks=pytest.mark.deep,
        ),
        ("{basic: {type: basic}}", {"argon2"}),
    ],
)
def test_libraries_of_undeclared_authentication_schemes_are_not_imported(
    tmp_path: Path, schemes: str, loaded: set[str]
) -> None:
    config = tmp_path / "aion.yaml"
    config.write_text(with_security(f"  security: {{schemes: {schemes}}}\n"))
    (tmp_path / "users.json").write_text("{}")
    program = "import sys, handlers.api; print(*({'jwt', 'argon2'} & set(sys.modules)))"
    environ = {
        "AION_STORE": "memory",
        "AION_CONFIG": str(config),
        "AION_BASIC_USERS_FILE": str(tmp_path / "users.json"),
        "PATH": "/usr/bin:/bin",
    }
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, env=environ)
    assert ran.returncode == 0, ran.stderr
    assert set(ran.stdout.split()) == loaded


def test_server_with_basic_authentication_but_no_users_does_not_start(tmp_path: Path) -> None:
    basic = with_security("  security: {schemes: {basic: {type: basic}}}\n")
    with pytest.raises(ConfigurationError, match="AION_BASIC_USERS_SECRET, the name of the secret"):
        deployed(tmp_path, basic)
    with pytest.raises(ConfigurationError, match=r"Cannot read nowhere.json \(AION_BASIC_USERS_FILE\)"):
        deployed(tmp_path, basic, AION_BASIC_USERS_FILE="nowhere.json")
