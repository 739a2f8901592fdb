"""One agent of aion.yaml: the keys below `aion.agents.<id>`."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from aion_core.engine.agent_options import AfterCrash, AnswerAs, PushEvents, ReplyAs, WhenBusy
from aion_core.errors import ConfigurationError
from aion_core.loading.aion_yaml.card import Capabilities, ExtendedCardConfig, Provider, Skills, with_unique_ids
from aion_core.loading.aion_yaml.cors import CorsConfig
from aion_core.loading.aion_yaml.field_types import AgentMessage, MediaType, StrictModel, WebAddress
from aion_core.loading.aion_yaml.security import SecurityConfig

_TEXT = ["text/plain"]
_ANY_INPUT = [*_TEXT, "application/json", "application/octet-stream"]


class PushOptions(StrictModel):
    """Settings of an agent for push notifications to clients' webhooks."""

    events: PushEvents = PushEvents.STATUS
    """Kinds of events delivered to webhooks: `status`, `status+artifact` or `all`."""
    redact_secrets: bool = False
    """True to return a webhook's token and credentials only when it is registered, not when a client reads it back."""


class AgentConfig(StrictModel):
    """Configuration of one agent, declared under `aion.agents.<id>` in aion.yaml."""

    path: AgentMessage
    """Place of the agent's code: `file.py[:name]` beside aion.yaml, or `pkg.module[:name]`. Example: `agent.py:graph`."""
    name: str = ""
    """Name in the agent card. The default is the agent's id."""
    description: str = ""
    """One or two sentences in the agent card about the agent's abilities. Other agents choose this one by them."""
    version: AgentMessage = "1.0.0"
    """Version of the agent in its card, for example `1.0.0`. Raise it when the agent's skills change."""
    default: bool = False
    """True to serve this agent at the root path too. By default, the first agent of the file is served there."""
    documentation_url: WebAddress | None = None
    """Address of the agent's documentation, in the agent card."""
    icon_url: WebAddress | None = None
    """Address of the agent's icon, in the agent card."""
    provider: Provider | None = None
    """Organization behind the agent, in the agent card."""
    security: SecurityConfig | None = None
    """Callers of this agent and their credentials. Without it, `aion.security` applies."""
    cors: CorsConfig | None = None
    """Web pages that may call this agent from a browser. Without it, `aion.cors` applies."""
    skills: Skills = []
    """Abilities of the agent, in its card, with examples of messages. The default is one skill with the description."""
    extended_card: ExtendedCardConfig | None = None
    """Fields of the card for authenticated callers. It needs `capabilities.extended_agent_card: true`."""
    input_modes: Annotated[list[MediaType], Field(min_length=1)] = _ANY_INPUT
    """Accepted media types, by default those that reach the agent's code. `application/octet-stream` accepts any file."""
    output_modes: Annotated[list[MediaType], Field(min_length=1)] = _TEXT
    """Media types of the answers, such as `text/plain` or `application/json`."""
    capabilities: Capabilities = Capabilities()
    """Optional parts of A2A that the agent offers: streams, webhooks, an extended card, extensions."""
    push: PushOptions = PushOptions()
    """Clients' webhooks: their events, and who may read their secrets. It needs `capabilities.push_notifications: true`, the default."""
    double_texting: WhenBusy = WhenBusy.ENQUEUE
    """A second message during a turn of its context: `enqueue` it, `reject` it, or `interrupt` the turn for it."""
    reply: ReplyAs = ReplyAs.AGENT
    """Response to a client's message: always the `task`, the answer as a `message`, `auto`, or as the `agent` decides."""
    answer: AnswerAs | None = None
    """Place of the answer in the task: the status `message`, an `artifact`, or `both`. The default is `message`, or
    `artifact` for a project that comes with a langgraph.json, or with an agent.json beside its ADK agent."""
    resume: AfterCrash = AfterCrash.FAIL
    """After a crash before the first stored step: `fail` the task, or `restart` the turn, which may repeat side effects."""
    recursion_limit: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Maximum number of steps of a LangGraph turn. The default is the graph's own."""
    configuration: dict[str, Any] = {}
    """Settings of your own for the agent's code. A graph with a context schema receives them as its context."""

    @model_validator(mode="after")
    def _skill_ids_are_unique(self) -> Self:
        with_unique_ids([*self.skills, *(self.extended_card.skills if self.extended_card else [])])
        return self

    @model_validator(mode="after")
    def _sections_are_enabled(self) -> Self:
        for section, capability in ("extended_card", "extended_agent_card"), ("push", "push_notifications"):
            is_given = section in self.model_fields_set and getattr(self, section) is not None
            if is_given and not getattr(self.capabilities, capability):
                raise ValueError(f"{section} has no effect without capabilities.{capability}: true")
        return self


def default_agent(configs: Mapping[str, AgentConfig]) -> str:
    """Return the id of the agent served at the root path: the one with `default: true`, else the first agent.

    Raises ConfigurationError if several agents have `default: true`.
    """
    marked = [agent_id for agent_id, config in configs.items() if config.default]
    if len(marked) > 1:
        raise ConfigurationError(
            f"aion.agents: {', '.join(marked)} each have `default: true`, and only one agent answers at the root. Remove the others."
        )
    return marked[0] if marked else next(iter(configs))
