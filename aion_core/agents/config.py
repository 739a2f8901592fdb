"""What aion.yaml may say, and a sentence for whatever it may not."""

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from aion_core.errors import ConfigurationError
from aion_core.ports import AfterCrash, AnswerAs, ReplyAs, WhenBusy

_TEXT = ["text/plain"]


class _Strict(BaseModel):
    # An unknown key is an error that names the key, never ignored: a typing slip must not turn a setting off.
    model_config = ConfigDict(extra="forbid", frozen=True)


class Skill(_Strict):
    """A capability as the card describes it (R6)."""

    id: str
    name: str
    description: str
    tags: list[str] = []
    examples: list[str] = []
    input_modes: list[str] = []
    output_modes: list[str] = []


class Provider(_Strict):
    """Who offers the agent, as its card says (spec 4.4.2)."""

    organization: str
    url: str


class Extension(_Strict):
    """An extension of A2A that the agent knows, as its card declares it (spec 4.4.4)."""

    uri: str
    description: str = ""
    required: bool = False
    """Whether a client that does not declare it in `A2A-Extensions` is refused (-32008)."""
    params: dict[str, Any] = {}


class Capabilities(_Strict):
    """What the card promises beyond a plain answer (R3)."""

    streaming: bool = True
    extended_agent_card: bool = False
    extensions: list[Extension] = []


class ExtendedCard(_Strict):
    """What the extended card says beyond the public one, which it replaces where both say it (R7)."""

    name: str = ""
    description: str = ""
    version: str = ""
    skills: list[Skill] = []
    """Further skills, after those of the public card."""


class AgentConfig(_Strict):
    """One agent of a deployment: `aion.agents.<id>` in aion.yaml."""

    path: str
    """`file.py[:name]`, relative to aion.yaml's folder, or `pkg.module[:name]`."""
    name: str = ""
    description: str = ""
    version: str = "1.0.0"
    default: bool = False
    """Whether this agent answers at the root too; the first of the file where none says so."""
    documentation_url: str = ""
    icon_url: str = ""
    provider: Provider | None = None
    skills: list[Skill] = []
    extended_card: ExtendedCard | None = None
    input_modes: list[str] = [*_TEXT, "application/json", "application/octet-stream"]
    output_modes: list[str] = _TEXT
    capabilities: Capabilities = Capabilities()
    double_texting: WhenBusy = WhenBusy.ENQUEUE
    """What becomes of a message while another of its context is being answered: `enqueue`, `reject`, `interrupt`."""
    reply: ReplyAs = ReplyAs.TASK
    """What a client gets: its `task`, the answer as a plain `message`, or `auto`."""
    answer: AnswerAs = AnswerAs.MESSAGE
    """Where a task holds the answer: in its status `message`, in an `artifact`, or in `both` (D22)."""
    resume: AfterCrash = AfterCrash.FAIL
    """Of a turn that cannot go on from a step when its process is lost: its task fails, or it is run again (`restart`)."""
    configuration: dict[str, Any] = {}
    """The author's own settings: a graph finds them in its context, where its schema is its own."""


AgentId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]


class _Aion(_Strict):
    agents: dict[AgentId, AgentConfig] = Field(min_length=1)


class _File(_Strict):
    aion: _Aion


def read_config(path: Path) -> dict[str, AgentConfig]:
    """Return the agents that the file declares, in its order.

    Raises ConfigurationError that names the file, the key and the mend.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}. AION_CONFIG names the file.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is no YAML: {error}") from error
    try:
        return _File.model_validate(content).aion.agents
    except ValidationError as error:
        raise ConfigurationError("\n".join(_sentences(path, error))) from error


def default_agent(configs: Mapping[str, AgentConfig]) -> str:
    """Return the id of the agent that answers at the root too: the one that says so, else the first.

    Raises ConfigurationError where several say so.
    """
    marked = [agent_id for agent_id, config in configs.items() if config.default]
    if len(marked) > 1:
        raise ConfigurationError(
            f"aion.agents: {', '.join(marked)} each say `default: true`, and one agent answers at the root. Leave one."
        )
    return marked[0] if marked else next(iter(configs))


def _sentences(path: Path, error: ValidationError) -> list[str]:
    return [f"{path}: {_sentence(problem)}" for problem in error.errors()]


def _sentence(problem: Any) -> str:
    where = [str(step) for step in problem["loc"] if step != "[key]"]
    key = ".".join(where) or "the file"
    if problem["type"] == "extra_forbidden":
        near = difflib.get_close_matches(where[-1], _known_keys(), n=1)
        return f"{key} is not a key that aion knows." + (f" Did you mean {near[0]!r}?" if near else "")
    if problem["type"] == "missing":
        return f"{key} is missing."
    return f"{key}: {problem['msg']}."


def _known_keys() -> set[str]:
    models: list[type[BaseModel]] = [
        _File,
        _Aion,
        AgentConfig,
        Skill,
        Capabilities,
        Provider,
        Extension,
        ExtendedCard,
    ]
    return {field for model in models for field in model.model_fields}
