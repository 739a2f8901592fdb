"""Section `security` of aion.yaml, and the requirements of callers in other sections."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Union

from pydantic import BeforeValidator, Field, StringConstraints

from aion_core.auth.scheme import Scheme
from aion_core.auth.schemes import SCHEMES
from aion_core.loading.aion_yaml.field_types import StrictModel

SCOPE = r"^[!#-\[\]-~]+$"
"""Pattern of an OAuth scope (RFC 6749, 3.3)."""


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

SCHEME_TYPES: tuple[str, ...] = tuple(scheme.model_fields["type"].default for scheme in SCHEMES)

if TYPE_CHECKING:
    AnyScheme = Scheme
else:
    AnyScheme = Annotated[Union[SCHEMES], Field(discriminator="type")]  # noqa: UP007  # the registry's union


class SecurityConfig(StrictModel):
    """Auth policy of the deployment or of one agent. An agent's policy has precedence."""

    schemes: Mapping[SchemeName, AnyScheme] = {}
    """Kinds of credentials, by names of your choice. Example: `key: {type: api-key}`."""
    require: list[RequirementConfig] | None = None
    """Credentials of a caller, as names of `schemes`. A caller must meet one entry of the list; by default, any scheme
    suffices. Example: `[{key: []}]`."""
