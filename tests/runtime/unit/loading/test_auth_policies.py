"""Security sections of aion.yaml: policies and error messages."""

from pathlib import Path

import pytest

from aion_core.auth.policy import AuthPolicy
from aion_core.auth.schemes.api_key import ApiKeyScheme
from aion_core.auth.schemes.aws_iam import AwsIamScheme, IamOwner
from aion_core.auth.schemes.basic import BasicScheme
from aion_core.auth.schemes.bearer import BearerJwtScheme, OidcScheme
from aion_core.errors import ConfigurationError
from aion_core.loading.aion_yaml.security import SCHEME_TYPES
from aion_core.loading.auth_policies import read_auth_policies
from aion_core.loading.deployment import read_deployment_config
from tests.support.rows import each_row

TOKENS = "{type: bearer-jwt, issuer: 'https://i.test', jwks_url: 'https://i.test/j', audience: x}"


def declared(folder: Path, schemes: str, require: str = "", *, a: str = "", b: str = "") -> dict[str, AuthPolicy]:
    file = folder / "aion.yaml"
    lines = [
        "aion:",
        *(["  security:", f"    schemes: {schemes}"] if schemes else []),
        *([f"    require: {require}"] if require else []),
        "  agents:",
        f"    a: {{path: a.py{a and ', '}{a}}}",
        f"    b: {{path: b.py{b and ', '}{b}}}",
    ]
    file.write_text("\n".join(lines) + "\n")
    return read_auth_policies(read_deployment_config(file).agents)


def test_any_declared_security_scheme_suffices_by_default(tmp_path: Path) -> None:
    found = declared(
        tmp_path,
        f"{{jwt: {TOKENS}, o: {{type: oidc, issuer: 'https://o.test/', audience: [x, y], tenant_claim: t}}, "
        "k: {type: api-key}, b: {type: basic}, i: {type: aws-iam, owner: session}}",
    )
    assert found["a"] == found["b"]
    assert found["a"].schemes == {
        "jwt": BearerJwtScheme(issuer="https://i.test", audience=("x",), jwks_url="https://i.test/j"),
        "o": OidcScheme(issuer="https://o.test/", audience=("x", "y"), tenant_claim="t"),
        "k": ApiKeyScheme(header="X-API-Key"),
        "b": BasicScheme(),
        "i": AwsIamScheme(owner=IamOwner.SESSION),
    }
    assert found["a"].require == tuple({name: frozenset()} for name in ("jwt", "o", "k", "b", "i"))


def test_agent_security_policy_overrides_policy_of_deployment(tmp_path: Path) -> None:
    schemes = f"{{jwt: {TOKENS}, k: {{type: api-key}}}}"
    found = declared(
        tmp_path,
        schemes,
        "[{jwt: [chat]}]",
        a="security: {require: [{jwt: [a], k: []}, k]}",
        b="security: {schemes: {mine: {type: basic}}}",
    )
    assert found["a"].require == ({"jwt": frozenset({"a"}), "k": frozenset()}, {"k": frozenset()})
    assert found["b"].require == ({"mine": frozenset()},)
    assert list(found["b"].required_schemes) == ["mine"]
    assert declared(tmp_path, schemes, "[{jwt: [chat]}]")["a"].require == ({"jwt": frozenset({"chat"})},)
    # Without a deployment policy, each agent declares its own schemes.
    own = "security: {schemes: {k: {type: api-key}}}"
    assert list(declared(tmp_path, "", a=own, b=own)) == ["a", "b"]
    assert declared(tmp_path, "") == {}


@pytest.mark.parametrize("own", ["{type: api-key, header: X-Own}", TOKENS.replace("audience: x", "audience: y")])
def test_agent_scheme_may_have_type_of_deployment_scheme(tmp_path: Path, own: str) -> None:
    schemes = f"{{jwt: {TOKENS}, k: {{type: api-key}}}}"
    found = declared(tmp_path, schemes, a=f"security: {{schemes: {{mine: {own}}}}}")
    assert list(found["a"].required_schemes) == ["mine"]
    assert list(found["b"].required_schemes) == ["jwt", "k"]


@each_row(
    ("jwt", "sentence"),
    [
        ("{type: jwt}", f"security.schemes.jwt.type has to be one of {', '.join(SCHEME_TYPES)}."),
        ("{}", "security.schemes.jwt.type has to be one of bearer-jwt,"),
        ("{type: oidc, issuer: 'https://x.test'}", "security.schemes.jwt.audience is missing."),
        (TOKENS.replace("https://i.test/j", "http://i.test/j"), "jwks_url: 'http://i.test/j' has to be an https URL"),
        (TOKENS.replace("https://i.test'", "https://u:p@i.test'"), "has to be an https URL"),
        (TOKENS.replace("audience: x", "audience: []"), "security.schemes.jwt.audience is empty."),
        (TOKENS.replace("}", ", algorithms: [HS256]}"), "security.schemes.jwt.algorithms.0: Input should be 'RS256'"),
        (TOKENS.replace("}", ", algorithms: []}"), "security.schemes.jwt.algorithms is empty."),
        (TOKENS.replace("}", ", algoritms: []}"), "jwt.algoritms is not a key that aion knows. Did you mean 'algorithms'?"),
        ("{type: api-key, header: Authorization}", "security.schemes.jwt.header: Authorization has another meaning"),
        ("{type: api-key, header: x-amzn-key}", "has another meaning"),
        ("{type: api-key, header: 'a b'}", "header is 'a b': it has to be a header's name"),
        ("{type: aws-iam, owner: me}", "security.schemes.jwt.owner: Input should be 'role' or 'session'"),
    ],
)  # fmt: skip
def test_invalid_security_scheme_is_named_in_error(tmp_path: Path, jwt: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        declared(tmp_path, f"{{jwt: {jwt}}}")
    assert sentence in str(raised.value)


SCHEMES = f"{{jwt: {TOKENS}, k: {{type: api-key}}, b: {{type: basic}}}}"


@each_row(
    ("schemes", "require", "a", "sentence"),
    [
        (SCHEMES, "[]", "", "aion.agents.a: `require` is empty, so no caller could authenticate."),
        (SCHEMES, "[{}]", "", "aion.security.require.0 is empty."),
        (SCHEMES, "[nope]", "", "aion.agents.a requires 'nope', and the schemes are jwt, k, b."),
        (SCHEMES, "[{jwt: ['a b']}]", "", "aion.security.require.0.jwt.0 is 'a b': a scope is a word"),
        (SCHEMES, "[{jwt: [], b: []}]", "", "requires jwt and b together, and a request has one Authorization header."),
        (SCHEMES, "[{b: [x]}]", "", "requires scopes of 'b', a scheme without scopes."),
        ("{k: {type: api-key}, l: {type: api-key, header: X-L}}", "", "", "k and l are of one type; one such scheme"),
        (
            "{k: {type: api-key}}",
            "",
            "security: {schemes: {l: {type: api-key}}, require: [k, l]}",
            "a: k and l are of one type",
        ),
        (f"{{i: {TOKENS}, j: {TOKENS}}}", "", "", "two schemes are of the issuer https://i.test"),
        (SCHEMES, "", "skills: [{id: s, name: s, description: d, require: [nope]}]", "a.skills: s requires 'nope'"),
        ("", "", "skills: [{id: s, name: s, description: d, require: [k]}]", "requires schemes, and neither it nor"),
        ("", "", "security: {require: [k]}", "aion.agents.a requires schemes, and neither it nor aion.security"),
        ("", "", "security: {schemes: {k: {type: api-key}}}", "aion.agents.b declares no `security`, and a does."),
    ],
)
def test_invalid_security_requirement_is_named_in_error(
    tmp_path: Path, schemes: str, require: str, a: str, sentence: str
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        declared(tmp_path, schemes, require, a=a)
    assert sentence in str(raised.value)
