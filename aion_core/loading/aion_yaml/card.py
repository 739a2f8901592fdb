"""Keys of aion.yaml for an agent's card: skills, provider, extensions, capabilities, the extended card."""

import json
from typing import Annotated, Any

from pydantic import AfterValidator, StringConstraints

from aion_core.loading.aion_yaml.field_types import AgentMessage, MediaType, StrictModel, WebAddress
from aion_core.loading.aion_yaml.security import RequirementConfig

LISTABLE = r"^[^\s,]+$"
"""Pattern of a text that can be part of a comma-separated header."""
MAX_PARAMS_DEPTH = 32


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


class Capabilities(StrictModel):
    """Capabilities declared in an agent's card (A2A 4.4.3)."""

    streaming: bool = True
    """False to refuse streams; clients then wait for the answer, or ask for the task."""
    push_notifications: bool = True
    """True to let clients register webhooks, if the deployment delivers push notifications."""
    extended_agent_card: bool = False
    """True to serve a second card, with `extended_card`'s fields, to authenticated callers."""
    extensions: Extensions = []
    """A2A extensions of your own that the agent's code understands."""
    aion_extensions: bool | None = None
    """True to list Aion's own extensions in the card, false to read none of them in requests. By default, the card
    lists them if the agent's code uses the context of a turn."""


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
