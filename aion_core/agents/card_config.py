"""What aion.yaml says of an agent's card: its skills, its provider, its extensions."""

import json
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

MEDIA_TYPE = r"^[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+*-]+( *; *[^;\s]+)*$"
"""`type/subtype`, as RFC 6838 has it; a range, such as `image/*`, too."""
WEB_ADDRESS = r"^https?://[^\s/]+\S*$"
SCOPE = r"^[!#-\[\]-~]+$"
"""RFC 6749, 3.3."""
LISTABLE = r"^[^\s,]+$"
"""What can stand in a header that lists such things with commas between them."""
MAX_PARAMS_DEPTH = 32

# An unknown key is an error that names the key, never ignored: a typing slip must not turn a setting off.
STRICT = ConfigDict(extra="forbid", frozen=True)

MediaType = Annotated[str, StringConstraints(pattern=MEDIA_TYPE)]
WebAddress = Annotated[str, StringConstraints(pattern=WEB_ADDRESS)]
AgentMessage = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
"""What a card has to say: a field that the specification requires is not empty."""


def _named(require: object) -> object:
    """Read the name of a scheme for the scheme without scopes."""
    return {require: []} if isinstance(require, str) else require


Scope = Annotated[str, StringConstraints(pattern=SCOPE)]
SchemeName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
RequirementConfig = Annotated[dict[SchemeName, list[Scope]], BeforeValidator(_named), Field(min_length=1)]
"""Schemes that are needed together, each with its scopes; a name alone is the scheme without."""


def unlike(skills: list["Skill"]) -> list["Skill"]:
    """Return the skills; raises ValueError where two have one id, by which clients tell them apart."""
    ids = [skill.id for skill in skills]
    if twice := sorted({id_ for id_ in ids if ids.count(id_) > 1}):
        raise ValueError(f"two skills have the id {twice[0]!r}")
    return skills


def _sayable(params: dict[str, Any]) -> dict[str, Any]:
    """Refuse what no JSON holds: YAML knows dates, infinities and keys that are numbers."""
    _check(params, 1)
    try:
        json.dumps(params, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"this cannot be said in JSON ({error}); put it in quotes") from error
    return params


def _check(value: Any, depth: int) -> None:
    if depth > MAX_PARAMS_DEPTH:
        raise ValueError(f"this is nested more than {MAX_PARAMS_DEPTH} levels deep")
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise ValueError(f"the key {key!r} is no text; put it in quotes")
            _check(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            _check(inner, depth + 1)


class _Strict(BaseModel):
    model_config = STRICT


class Skill(_Strict):
    """A capability as the card describes it (R6)."""

    id: AgentMessage
    name: AgentMessage
    description: AgentMessage
    tags: list[AgentMessage] = []
    """Its id, where none is given: a skill without tags is invalid."""
    examples: list[AgentMessage] = []
    input_modes: list[MediaType] = []
    """What it takes, where that is not what the agent takes."""
    output_modes: list[MediaType] = []
    require: list[RequirementConfig] = []
    """What its callers need beyond what the agent requires; one of them is enough."""


Skills = Annotated[list[Skill], AfterValidator(unlike)]


class Provider(_Strict):
    """Who offers the agent, as its card says (spec 4.4.2)."""

    organization: AgentMessage
    url: WebAddress


class Extension(_Strict):
    """An extension of A2A that the agent knows, as its card declares it (spec 4.4.4)."""

    uri: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, pattern=LISTABLE)]
    description: str = ""
    required: bool = False
    """Whether a client that does not declare it in `A2A-Extensions` is refused (-32008)."""
    params: Annotated[dict[str, Any], AfterValidator(_sayable)] = {}

    def as_declared(self) -> dict[str, Any]:
        """Return what is said of it; what is not said is left out of the card, too."""
        return {field: value for field, value in self.model_dump().items() if value}


def _each_once(extensions: list[Extension]) -> list[Extension]:
    uris = [extension.uri for extension in extensions]
    if twice := sorted({uri for uri in uris if uris.count(uri) > 1}):
        raise ValueError(f"two extensions have the uri {twice[0]!r}")
    return extensions


Extensions = Annotated[list[Extension], AfterValidator(_each_once)]


class ExtendedCard(_Strict):
    """What the extended card says beyond the public one, which it replaces where both say it (R7)."""

    name: str = ""
    description: str = ""
    version: str = ""
    skills: Skills = []
    """Further skills, after those of the public card."""
