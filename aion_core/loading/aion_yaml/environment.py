"""Keys of aion.yaml for environment variables: public values, and sources of secret values."""

import re
from typing import Annotated, Any, Literal

from msgspec import Struct
from pydantic import AfterValidator, PlainValidator

from aion_core.redaction import KEY_PREFIXES

Service = Literal["secretsmanager", "ssm"]
SECRETS_MANAGER: Service = "secretsmanager"
PARAMETER_STORE: Service = "ssm"

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LAMBDA_VARIABLES = re.compile(r"AWS_\w*|LAMBDA_\w*|_HANDLER|_X_AMZN_TRACE_ID")
"""Names of environment variables that Lambda sets and reserves.

See https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html
"""
_INTERPRETER_VARIABLES = re.compile(r"PYTHON\w*|LD_\w*")
"""Names of environment variables that Python and the dynamic linker read before aion.yaml is read."""

_SECRET_NAME = re.compile(
    r"arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[\w/+=.@-]+|[\w/+=.@-]{1,512}", re.A
)
_PARAMETER_NAME = re.compile(
    r"(arn:aws[a-z-]*:ssm:[a-z0-9-]+:[0-9]{12}:parameter/[\w./-]+|/?[\w.-][\w./-]*)(:[\w.-]+)?", re.A
)
_PARAMETER_ARN = re.compile(r"arn:aws[a-z-]*:ssm:")


class SecretSource(Struct, frozen=True):
    """Location of a secret's value in Secrets Manager or in SSM Parameter Store."""

    service: Service
    name: str
    """Name or ARN of the secret or parameter."""
    key: str = ""
    """Key of the value in a secret that is a JSON object; empty if the secret's whole text is the value."""

    def __str__(self) -> str:
        """Return the source as written in aion.yaml, without its JSON key."""
        return self.name if self.service == SECRETS_MANAGER else f"ssm:{self.name}"


def variable_name(name: str) -> str:
    """Return the name of an environment variable unchanged. Raises ValueError if agents may not set the variable."""
    if not _VARIABLE.fullmatch(name):
        raise ValueError("a variable's name has letters, digits and _, and does not begin with a digit")
    if name.startswith("AION_"):
        raise ValueError("names that begin with AION_ are aion's own: the template's parameters set them")
    if _LAMBDA_VARIABLES.fullmatch(name):
        raise ValueError("Lambda sets this variable and reserves its name")
    if _INTERPRETER_VARIABLES.fullmatch(name):
        raise ValueError(
            "this variable is read when the process starts, before the agents' variables are set: it would change nothing"
        )
    return name


def secret_source(value: Any) -> SecretSource:
    """Parse an entry of `secrets` in aion.yaml.

    Raises ValueError for an invalid entry. The error does not repeat the entry, because it may be a secret.
    """
    if isinstance(value, SecretSource):
        return value
    if not isinstance(value, str):
        raise ValueError("YAML does not read this as text: put it in quotes")
    if KEY_PREFIXES.match(value):
        raise ValueError(
            "this looks like the key itself. Put the key into Secrets Manager, and its name there into this line; "
            "on this machine, put the key into .env"
        )
    place, hash_, key = value.partition("#")
    service, name = SECRETS_MANAGER, place
    if place.startswith("ssm:") or _PARAMETER_ARN.match(place):
        service, name = PARAMETER_STORE, place.removeprefix("ssm:")
    known = _SECRET_NAME if service == SECRETS_MANAGER else _PARAMETER_NAME
    if not known.fullmatch(name) or bool(hash_) != bool(key):
        raise ValueError(
            "this is neither the name or ARN of a Secrets Manager secret (openai-key), nor ssm: and the name or ARN of "
            "a parameter (ssm:/my-agent/openai). A key of a JSON secret follows after # (prod/db#password)"
        )
    return SecretSource(service, name, key)


def _without_nul(value: str) -> str:
    if "\0" in value:
        raise ValueError("an environment variable cannot hold a NUL character")
    return value


Variable = Annotated[str, AfterValidator(variable_name)]
Value = Annotated[str, AfterValidator(_without_nul)]
Secret = Annotated[SecretSource, PlainValidator(secret_source, json_schema_input_type=str)]
