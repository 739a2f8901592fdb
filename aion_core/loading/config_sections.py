"""Sections of aion.yaml: the card, the environment, CORS and the security of agents."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from msgspec import Struct
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, StringConstraints

from aion_core.auth.scheme import Scheme
from aion_core.auth.schemes import SCHEMES
from aion_core.auth.schemes.api_key import HEADER

# ── Card ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

MEDIA_TYPE = r"^([A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+*-]+|\*/\*)( *; *[^;\s]+)*$"
"""Pattern of `type/subtype` (RFC 6838), including ranges such as `image/*`."""
WEB_ADDRESS = r"^https?://[^\s/]+\S*$"
SCOPE = r"^[!#-\[\]-~]+$"
"""Pattern of an OAuth scope (RFC 6749, 3.3)."""
LISTABLE = r"^[^\s,]+$"
"""Pattern of a text that can be part of a comma-separated header."""
MAX_PARAMS_DEPTH = 32

# Refuse unknown keys, because a misspelled setting would otherwise be ignored. With `defer_build`, pydantic builds one
# validator for the whole file, instead of one for each section.
STRICT = ConfigDict(extra="forbid", frozen=True, defer_build=True)

MediaType = Annotated[str, StringConstraints(pattern=MEDIA_TYPE)]
WebAddress = Annotated[str, StringConstraints(pattern=WEB_ADDRESS)]
AgentMessage = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
"""Non-empty text for an agent card. The A2A specification requires these texts."""


def _relative(path: str) -> str:
    """Return the path unchanged. Raises ValueError if it is absolute, because a package has other absolute paths."""
    if Path(path).is_absolute():
        raise ValueError(f"the path {path!r} is absolute; write it relative to aion.yaml's folder")
    return path


RelativePath = Annotated[AgentMessage, AfterValidator(_relative)]


def _as_requirement(require: object) -> object:
    """Convert a scheme's name to a requirement of this scheme without scopes. Return other values unchanged."""
    return {require: []} if isinstance(require, str) else require


Scope = Annotated[str, StringConstraints(pattern=SCOPE)]
SchemeName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
_Requirement = dict[SchemeName, list[Scope]]
RequirementConfig = Annotated[
    _Requirement,
    BeforeValidator(_as_requirement, json_schema_input_type=SchemeName | _Requirement),
    Field(min_length=1),
]
"""Security schemes that a caller must satisfy together, each with its scopes. A name alone means no scopes."""


def with_unique_ids(skills: list["Skill"]) -> list["Skill"]:
    """Return the skills unchanged. Raises ValueError if two have the same id, because clients identify skills by id."""
    ids = [skill.id for skill in skills]
    if twice := sorted({id_ for id_ in ids if ids.count(id_) > 1}):
        raise ValueError(f"two skills have the id {twice[0]!r}")
    return skills


def _as_json_object(params: dict[str, Any]) -> dict[str, Any]:
    """Return an extension's params unchanged.

    Raises ValueError for values that JSON cannot express, such as dates, infinities and numeric keys.
    """
    _check_json(params, 1)
    try:
        json.dumps(params, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"this cannot be written as JSON ({error}); put it in quotes") from error
    return params


def _check_json(value: Any, depth: int) -> None:
    if depth > MAX_PARAMS_DEPTH:
        raise ValueError(f"this is nested more than {MAX_PARAMS_DEPTH} levels deep")
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise ValueError(f"the key {key!r} is not text; put it in quotes")
            _check_json(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            _check_json(inner, depth + 1)


class StrictModel(BaseModel):
    """Base class of immutable models that refuse unknown keys."""

    model_config = STRICT


class Skill(StrictModel):
    """Skill declared in an agent's card (A2A 4.4.5)."""

    id: AgentMessage
    """Id of the skill, unique within the agent."""
    name: AgentMessage
    """Name for people."""
    description: AgentMessage
    """Work of the skill, in a sentence. Other agents choose by it."""
    tags: list[AgentMessage] = []
    """Keywords for a search among agents. A skill without tags gets its id as its tag."""
    examples: list[AgentMessage] = []
    """Messages to try. The console of `aion dev` offers them."""
    input_modes: list[MediaType] = []
    """Media types that the skill accepts, if they differ from the agent's."""
    output_modes: list[MediaType] = []
    """Media types of the skill's answers, if they differ from the agent's."""
    require: list[RequirementConfig] = []
    """Further credentials for this skill, besides those of the agent. A caller must meet one entry of the list."""


Skills = Annotated[list[Skill], AfterValidator(with_unique_ids)]


class Provider(StrictModel):
    """Provider declared in an agent's card (A2A 4.4.2)."""

    organization: AgentMessage
    """Name of the organization."""
    url: WebAddress
    """Website of the organization."""


class Extension(StrictModel):
    """A2A extension declared in an agent's card (A2A 4.4.4)."""

    uri: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, pattern=LISTABLE)]
    """URI that identifies the extension."""
    description: str = ""
    """Use of the extension by the agent, in a sentence."""
    required: bool = False
    """True to refuse requests whose `A2A-Extensions` header lacks this extension, with error -32008."""
    params: Annotated[dict[str, Any], AfterValidator(_as_json_object)] = {}
    """Parameters of the extension, as the extension defines them."""

    def as_declared(self) -> dict[str, Any]:
        """Return the extension's fields for the card, without empty fields."""
        return {field: value for field, value in self.model_dump().items() if value}


def _with_unique_uris(extensions: list[Extension]) -> list[Extension]:
    uris = [extension.uri for extension in extensions]
    if twice := sorted({uri for uri in uris if uris.count(uri) > 1}):
        raise ValueError(f"two extensions have the uri {twice[0]!r}")
    return extensions


Extensions = Annotated[list[Extension], AfterValidator(_with_unique_uris)]


class ExtendedCardConfig(StrictModel):
    """Fields of an agent's extended card. Non-empty fields replace those of the public card."""

    name: str = ""
    """Name in place of the public one."""
    description: str = ""
    """Description in place of the public one."""
    version: str = ""
    """Version in place of the public one."""
    skills: Skills = []
    """Skills added after those of the public card."""


# ── Environment ───────────────────────────────────────────────────────────────────────────────────────────────────────

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
_KEY_PREFIXES = re.compile(
    r"-----BEGIN|(sk-|sk_|AIza|ya29\.|gh[pousr]_|github_pat_|glpat-|xox[a-z]-|AKIA|ASIA|tvly-|lsv2_|hf_|gsk_|pplx-).{16}"
)
"""Pattern of well-known services' API keys, which an author may write in place of a secret's name."""


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
        raise ValueError("this variable is read when the process starts, before aion.yaml is: it would change nothing")
    return name


def secret_source(value: Any) -> SecretSource:
    """Parse an entry of `secrets` in aion.yaml.

    Raises ValueError for an invalid entry. The error does not repeat the entry, because it may be a secret.
    """
    if isinstance(value, SecretSource):
        return value
    if not isinstance(value, str):
        raise ValueError("YAML does not read this as text: put it in quotes")
    if _KEY_PREFIXES.match(value):
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


# ── CORS ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

_ORIGIN = re.compile(
    r"([a-z][a-z0-9+.-]*)://(?:(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?"
)
"""Pattern of an origin in lower case, whose host may begin with `*.`; groups are the scheme and the port."""
_DEFAULT_PORTS = {"http": "80", "https": "443"}
ANY_ORIGIN = "*"


def web_origin(text: str) -> str:
    """Return an origin in the form that browsers send: in lower case and without its default port.

    `*` and hosts such as `*.example.com` are patterns. Raises ValueError for other texts.
    """
    if text == ANY_ORIGIN:
        return text
    if text == "null":
        raise ValueError("null is the origin of every sandboxed page and local file; serve the page over http instead")
    match = _ORIGIN.fullmatch(text.lower())
    if match is None:
        raise ValueError(
            f"{text!r} is not an origin, such as https://app.example.com, https://*.example.com or '*': it has a scheme, "
            "an ASCII host and perhaps a port, but no path and no / at its end"
        )
    scheme, port = match.groups()
    is_default = port is not None and _DEFAULT_PORTS.get(scheme) == port
    return match[0].removesuffix(f":{port}") if is_default else match[0]


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


Origin = Annotated[str, AfterValidator(web_origin)]
RequestHeader = Annotated[str, StringConstraints(pattern=HEADER)]


class CorsConfig(StrictModel):
    """Web pages whose scripts may call an agent from a browser (CORS)."""

    origins: Annotated[list[Origin], BeforeValidator(_as_list, json_schema_input_type=Origin | list[Origin])]
    """Origins of the pages. `*` allows every origin, and `https://*.example.com` the subdomains of example.com."""
    headers: list[RequestHeader] = []
    """Request headers of the pages' scripts, besides those of A2A and of the agent's security schemes."""
    max_age: Annotated[int, Field(ge=0, le=86_400)] = 600
    """Seconds for which a browser may remember the answer to a preflight request."""


# ── Security ──────────────────────────────────────────────────────────────────────────────────────────────────────────

SCHEME_TYPES: tuple[str, ...] = tuple(scheme.model_fields["type"].default for scheme in SCHEMES)

if TYPE_CHECKING:
    AnyScheme = Scheme
else:
    AnyScheme = Annotated[Union[SCHEMES], Field(discriminator="type")]  # noqa: UP007  # the registry's union


class SecurityConfig(BaseModel):
    """Auth policy of the deployment or of one agent. An agent's policy has precedence."""

    model_config = STRICT

    schemes: Mapping[SchemeName, AnyScheme] = {}
    """Kinds of credentials, by names of your choice. Example: `key: {type: api-key}`."""
    require: list[RequirementConfig] | None = None
    """Credentials of a caller, as names of `schemes`. A caller must meet one entry of the list; by default, any scheme
    suffices. Example: `[{key: []}]`."""
