"""The variables that aion.yaml gives to agents' code: plain ones, and those whose values are secrets."""

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, PlainValidator

Service = Literal["secretsmanager", "ssm"]
SECRETS_MANAGER: Service = "secretsmanager"
PARAMETER_STORE: Service = "ssm"

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LAMBDAS = re.compile(r"AWS_\w*|LAMBDA_\w*|_HANDLER|_X_AMZN_TRACE_ID")
"""Names that Lambda sets and reserves: https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html"""
_TOO_LATE = re.compile(r"PYTHON\w*|LD_\w*")
"""Names that the interpreter and the linker read once, before aion.yaml is read."""

_SECRET = re.compile(r"arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[\w/+=.@-]+|[\w/+=.@-]{1,512}", re.A)
_PARAMETER = re.compile(
    r"(arn:aws[a-z-]*:ssm:[a-z0-9-]+:[0-9]{12}:parameter/[\w./-]+|/?[\w.-][\w./-]*)(:[\w.-]+)?", re.A
)
_PARAMETER_ARN = re.compile(r"arn:aws[a-z-]*:ssm:")
_KEYS = re.compile(
    r"-----BEGIN|(sk-|sk_|AIza|ya29\.|gh[pousr]_|github_pat_|glpat-|xox[a-z]-|AKIA|ASIA|tvly-|lsv2_|hf_|gsk_|pplx-).{16}"
)
"""Beginnings of keys of well-known services, and as many characters as a name of such a beginning hardly has."""


@dataclass(frozen=True, slots=True)
class SecretSource:
    """The place of a secret's value: a service of AWS, a name or ARN, and perhaps a key of the JSON object there."""

    service: Service
    name: str
    """The name or the ARN of the secret, or of the parameter."""
    key: str = ""
    """The key of a JSON object; the whole text without one."""

    def __str__(self) -> str:
        """Return it as aion.yaml has it, without the key."""
        return self.name if self.service == SECRETS_MANAGER else f"ssm:{self.name}"


def variable_name(name: str) -> str:
    """Return the name; raises ValueError for one that agents' code cannot be given."""
    if not _VARIABLE.fullmatch(name):
        raise ValueError("a variable's name has letters, digits and _, and does not begin with a digit")
    if name.startswith("AION_"):
        raise ValueError("names that begin with AION_ are aion's own: the template's parameters set them")
    if _LAMBDAS.fullmatch(name):
        raise ValueError("Lambda sets this variable and reserves its name")
    if _TOO_LATE.fullmatch(name):
        raise ValueError("this variable is read when the process starts, before aion.yaml is: it would change nothing")
    return name


def secret_source(said: Any) -> SecretSource:
    """Return the place that a line of `secrets` names; raises ValueError, which never repeats what was written."""
    if isinstance(said, SecretSource):
        return said
    if not isinstance(said, str):
        raise ValueError("YAML does not take this for text: put it in quotes")
    if _KEYS.match(said):
        raise ValueError(
            "this looks like the key itself. Put the key into Secrets Manager, and its name there into this line; "
            "on this machine, put the key into .env"
        )
    place, hash_, key = said.partition("#")
    service, name = SECRETS_MANAGER, place
    if place.startswith("ssm:") or _PARAMETER_ARN.match(place):
        service, name = PARAMETER_STORE, place.removeprefix("ssm:")
    known = _SECRET if service == SECRETS_MANAGER else _PARAMETER
    if not known.fullmatch(name) or bool(hash_) != bool(key):
        raise ValueError(
            "this is neither the name or ARN of a Secrets Manager secret (openai-key), nor ssm: and the name or ARN of "
            "a parameter (ssm:/my-agent/openai). A key of a JSON secret stands after # (prod/db#password)"
        )
    return SecretSource(service, name, key)


def _text(value: str) -> str:
    if "\0" in value:
        raise ValueError("an environment variable cannot hold a NUL character")
    return value


Variable = Annotated[str, AfterValidator(variable_name)]
Value = Annotated[str, AfterValidator(_text)]
Secret = Annotated[SecretSource, PlainValidator(secret_source)]
