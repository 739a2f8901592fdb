"""Models of aion.yaml, a deployment's configuration file, and error messages for mistakes in it."""

import difflib
import types
import typing
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from msgspec import Struct, field
from pydantic import BaseModel, Field, StringConstraints, ValidationError, model_validator

from aion_core.auth.schemes.api_key import HEADER
from aion_core.engine.agent_options import AfterCrash, AnswerAs, PushEvents, ReplyAs, WhenBusy
from aion_core.engine.limits.limits import REQUESTS_PER_MINUTE, STREAMS_PER_OWNER, Limits
from aion_core.errors import ConfigurationError
from aion_core.loading.config_sections import (
    LISTABLE,
    MEDIA_TYPE,
    SCHEME_TYPES,
    SCOPE,
    STRICT,
    WEB_ADDRESS,
    AgentMessage,
    CorsConfig,
    ExtendedCardConfig,
    Extensions,
    MediaType,
    Provider,
    RelativePath,
    Secret,
    SecretSource,
    SecurityConfig,
    Skills,
    Value,
    Variable,
    WebAddress,
    with_unique_ids,
)

_TEXT = ["text/plain"]
_ANY_INPUT = [*_TEXT, "application/json", "application/octet-stream"]


class _Section(BaseModel):
    model_config = STRICT


class Capabilities(_Section):
    """Capabilities declared in an agent's card (A2A 4.4.3)."""

    streaming: bool = True
    """False to refuse streams; clients then wait for the answer, or ask for the task."""
    push_notifications: bool = True
    """True to let clients register webhooks, if the deployment delivers push notifications."""
    extended_agent_card: bool = False
    """True to serve a second card, with `extended_card`'s fields, to authenticated callers."""
    extensions: Extensions = []
    """A2A extensions of your own that the agent's code understands."""
    aion_extensions: bool = True
    """False to leave Aion's own extensions out of the card, and to read none of them in requests."""


class PushOptions(_Section):
    """Settings of an agent for push notifications to clients' webhooks."""

    events: PushEvents = PushEvents.STATUS
    """Kinds of events delivered to webhooks: `status`, `status+artifact` or `all`."""


class AgentConfig(_Section):
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
    """Events for the clients' webhooks. It needs `capabilities.push_notifications: true`, the default."""
    double_texting: WhenBusy = WhenBusy.ENQUEUE
    """A second message during a turn of its context: `enqueue` it, `reject` it, or `interrupt` the turn for it."""
    reply: ReplyAs = ReplyAs.AGENT
    """Response to a client's message: always the `task`, the answer as a `message`, `auto`, or as the `agent` decides."""
    answer: AnswerAs = AnswerAs.MESSAGE
    """Place of the agent's answer in the task: the status `message`, an `artifact`, or `both`."""
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


class LimitsConfig(_Section):
    """Limits for each caller, declared under `aion.limits` in aion.yaml. `null` turns a limit off."""

    requests_per_minute: Annotated[int, Field(ge=1, le=100_000)] | None = REQUESTS_PER_MINUTE
    """Maximum number of requests of a caller in a minute. Above it, a request is refused with 429."""
    streams_per_owner: Annotated[int, Field(ge=1, le=100)] | None = STREAMS_PER_OWNER
    """Maximum number of open streams and waiting sends. Each occupies a Lambda execution environment."""
    streams_per_task: Annotated[int, Field(ge=1, le=100)] | None = None
    """Maximum number of open streams of one task. The default has no such limit."""
    open_tasks_per_owner: Annotated[int, Field(ge=1, le=200)] | None = None
    """Maximum number of a caller's tasks that are running, queued or waiting for input. The default has no such limit."""


AgentId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]


class _Aion(_Section):
    security: SecurityConfig | None = None
    """Callers of all agents and their credentials. Without it, AWS checks the callers, or nobody does."""
    cors: CorsConfig | None = None
    """Web pages that may call the agents from a browser."""
    limits: LimitsConfig | None = None
    """Limits for each caller. `null` turns a limit off."""
    python_path: list[RelativePath] = []
    """Further folders for imports, relative to this file. The file's folder and its `src` need no entry."""
    environment: dict[Variable, Value] = {}
    """Environment variables for the agents' code, with values that may be public."""
    secrets: dict[Variable, Secret] = {}
    """Environment variables for the agents' code, with the name of a secret in Secrets Manager, or `ssm:` and that of a
    parameter. On your machine, the values come from `.env`."""
    agents: dict[AgentId, AgentConfig] = Field(min_length=1)
    """Agents by their ids. Each answers at `/agents/<id>`, the first one at the root too."""

    @model_validator(mode="after")
    def _variables_are_unique(self) -> Self:
        if both := sorted(self.environment.keys() & self.secrets.keys()):
            raise ValueError(f"{', '.join(both)} is in both environment and secrets; remove one of them")
        return self

    def with_deployment_settings(self) -> dict[str, AgentConfig]:
        """Return the agents' configurations with the deployment's auth policy and CORS merged into each of them."""
        return {
            agent_id: agent.model_copy(update={"security": self._security_of(agent), "cors": agent.cors or self.cors})
            for agent_id, agent in self.agents.items()
        }

    def _security_of(self, agent: AgentConfig) -> SecurityConfig | None:
        deployment = self.security
        if deployment is None:
            return agent.security
        own = agent.security or SecurityConfig()
        require = own.require
        if require is None:
            require = [{name: []} for name in own.schemes] or deployment.require
        return SecurityConfig.model_construct(schemes={**deployment.schemes, **own.schemes}, require=require)


class ConfigFile(_Section):
    """Contents of an aion.yaml."""

    aion: _Aion
    """Agents of this project, and their settings."""


class _UniqueKeyLoader(yaml.SafeLoader):
    """YAML loader that raises ConfigurationError if a mapping repeats a key, or a key or text is unusable.

    PyYAML's own loader would silently use the last value of a repeated key.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise ConfigurationError(f"the key at {_place(key)} is not a text. Put a text with braces in quotes.")
            if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                raise ConfigurationError(f"the key {key.value!r} is twice in one mapping, again at {_place(key)}.")
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)

    def construct_scalar(self, node: Any) -> Any:
        """Return the scalar. Join the surrogate pairs of JSON's escapes."""
        try:
            return super().construct_scalar(node).encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError as error:
            raise ConfigurationError(f"the text at {_place(node)} has half a surrogate pair.") from error


def _place(node: yaml.Node) -> str:
    return f"line {node.start_mark.line + 1}, column {node.start_mark.column + 1}"


class DeploymentConfig(Struct, frozen=True):
    """Configuration of a deployment, read from an aion.yaml or discovered in a project."""

    agents: Mapping[str, AgentConfig]
    """Agents in the order of the file."""
    limits: Limits | None
    """Limits for each caller; None without `aion.limits`, for the default limits."""
    folder: Path
    """Base folder of the agents' paths."""
    roots: Sequence[Path] = ()
    """Further folders for imports, beside the folder and its `src`."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables for the agents' code."""
    secrets: Mapping[str, SecretSource] = field(default_factory=dict)
    """Sources of secret values, by the name of the environment variable for the agents' code."""


def read_config_file(path: Path) -> DeploymentConfig:
    """Read an aion.yaml. Raises ConfigurationError with the file, the invalid key and the remedy."""
    parsed = _read(path)
    folder = path.resolve().parent
    roots = [_existing_folder(folder / root, f"{path}: aion.python_path") for root in parsed.python_path]
    return DeploymentConfig(
        parsed.with_deployment_settings(),
        Limits(**parsed.limits.model_dump()) if parsed.limits else None,
        folder,
        roots,
        parsed.environment,
        parsed.secrets,
    )


def _existing_folder(folder: Path, key: str) -> Path:
    if not folder.is_dir():
        raise ConfigurationError(f"{key} names {folder}, which is not a folder. Fix the name, or create the folder.")
    return folder.resolve()


def _read(path: Path) -> _Aion:
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _UniqueKeyLoader)  # noqa: S506  # a SafeLoader
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}. AION_CONFIG names the file.") from error
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from error
    except RecursionError as error:
        raise ConfigurationError(f"{path}: it is nested too deeply.") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path} is not UTF-8: {error.reason}. Save it with this encoding.") from error
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", error)
        at = f", line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        hint = " Indent with spaces." if "'\\t'" in str(problem) else ""
        raise ConfigurationError(f"{path} is not valid YAML{at}: {problem}.{hint}") from error
    try:
        return ConfigFile.model_validate(content).aion
    except ValidationError as error:
        raise ConfigurationError("\n".join(_error_texts(path, error))) from error


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


def _error_texts(path: Path, error: ValidationError) -> list[str]:
    problems = error.errors()
    unknown = [problem for problem in problems if problem["type"] == "extra_forbidden"]
    if unknown and any(problem["loc"] == ("aion",) for problem in problems):
        # Report only the misplaced keys, because keys at the wrong level also cause the error that `aion` is missing.
        problems = unknown
    return [f"{path}: {_error_text(problem)}" for problem in problems]


def _error_text(problem: Any) -> str:
    where = [str(step) for step in problem["loc"] if step != "[key]"]
    if "schemes" in where[:-2] and where[where.index("schemes") + 2] in SCHEME_TYPES:
        # Remove the scheme's type from the path of keys, because pydantic has inserted it and the file has no such key.
        del where[where.index("schemes") + 2]
    key = ".".join(where) or "the file"
    if problem["type"] == "extra_forbidden":
        return f"{key} is not a key that aion knows{misplaced(ConfigFile, where) or '.'}"
    if problem["type"] in ("union_tag_not_found", "union_tag_invalid"):
        return f"{key}.type has to be one of {', '.join(SCHEME_TYPES)}."
    if problem["type"] == "missing":
        return f"{key} is missing."
    if problem["type"] == "value_error":
        return f"{key}: {problem['ctx']['error']}."
    if len(where) == 3 and where[:2] == ["aion", "agents"] and isinstance(problem["input"], str):
        return _agent_text(key, problem)
    if error_text := _ERROR_TEXTS.get((problem["type"], problem.get("ctx", {}).get("pattern"))):
        return f"{key} {error_text(problem['input'])}"
    return f"{key}: {problem['msg']}."


def _agent_text(key: str, problem: Any) -> str:
    if problem["type"] == "string_pattern_mismatch":
        return f"{key}: an agent's id has at most 64 letters, digits, '-' and '_', and begins with a letter or digit."
    return f"{key} is {problem['input']!r}. Write the path as a key below it: `path: {problem['input']}`."


def _not_a_mapping(value: Any) -> str:
    if value is None:
        return "is empty: it has keys of its own."
    return f"is {'a list' if isinstance(value, list) else repr(value)}: it has keys of its own, `key: value`."


_ERROR_TEXTS: dict[tuple[str, str | None], Callable[[Any], str]] = {
    ("model_type", None): _not_a_mapping,
    ("dict_type", None): _not_a_mapping,
    ("string_too_short", None): lambda _: "is empty.",
    ("too_short", None): lambda _: "is empty.",
    ("string_type", None): lambda value: f"is {value!r}, which YAML does not read as text: put it in quotes.",
    ("string_pattern_mismatch", MEDIA_TYPE): lambda value: f"is {value!r}: a media type is like 'text/plain'.",
    ("string_pattern_mismatch", SCOPE): lambda value: f"is {value!r}: a scope is a word without spaces and quotes.",
    ("string_pattern_mismatch", HEADER): lambda value: (
        f"is {value!r}: it has to be a header's name, such as X-API-Key."
    ),
    ("string_pattern_mismatch", LISTABLE): lambda value: (
        f"is {value!r}: it has no spaces and no commas, since the header A2A-Extensions lists it with others."
    ),
    ("string_pattern_mismatch", WEB_ADDRESS): lambda value: f"is {value!r}: it has to be an http or https URL.",
}
"""Messages by error type and pattern, for errors that pydantic describes poorly."""


# ── Misplaced keys ────────────────────────────────────────────────────────────────────────────────────────────────────

NAMED = "<id>"
"""Path step for a key chosen by the author, such as an agent's id."""
LISTED = "[]"
"""Path step for an element of a list."""
Place = tuple[str, ...]


def misplaced(root: type[BaseModel], where: Sequence[str]) -> str:
    """Return advice about an unknown key, as the second half of its error message; "" without advice.

    `where` is the path of the key. If the key is valid at another level, the text names that level. Otherwise the text
    suggests a similar key of the same level.
    """
    key, level = where[-1], _level(root, where[:-1])
    places = sorted({place for place, name in _keys(root, ()) if name == key}, key=_depth)
    if places:
        return f" here. It belongs below {' or '.join(f'`{_display(place)}`' for place in places[:2])}."
    near = difflib.get_close_matches(key, sorted(level), n=1)
    return f". Did you mean {near[0]!r}?" if near else ""


def _level(model: Any, path: Sequence[str]) -> set[str]:
    """Return the keys that are valid directly below a path in the model."""
    models = [model]
    for step in path:
        models = [inner for each in models for inner in _below(each, step)]
    return {field for each in models if _is_model(each) for field in each.model_fields}


def _below(annotation: Any, step: str) -> list[Any]:
    if _is_model(annotation):
        field = annotation.model_fields.get(step)
        return _unwrapped(field.annotation) if field is not None else []
    inner = typing.get_args(annotation)
    return _unwrapped(inner[-1]) if inner else []


def _unwrapped(annotation: Any) -> list[Any]:
    """Return the members of a union annotation, or the annotation itself. `Annotated` is removed first."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _unwrapped(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return [each for inner in typing.get_args(annotation) for each in _unwrapped(inner)]
    return [annotation]


def _keys(annotation: Any, place: Place) -> Iterator[tuple[Place, str]]:
    """Yield each valid key below an annotation, as a pair of its level's path and its name."""
    if _is_model(annotation):
        for name, field in annotation.model_fields.items():
            yield place, name
            for inner in _unwrapped(field.annotation):
                yield from _keys(inner, (*place, name))
        return
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if not arguments or not isinstance(origin, type):
        return
    step = NAMED if issubclass(origin, Mapping) else LISTED
    for inner in _unwrapped(arguments[-1]):
        yield from _keys(inner, (*place, step))


def _display(place: Place) -> str:
    return f"{'.'.join(place).replace(f'.{LISTED}', LISTED)}:" if place else "the top"


def _depth(place: Place) -> tuple[int, Place]:
    return len(place), place


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
