"""Registry of the supported agent frameworks, with one entry per adapter package."""

from collections.abc import Callable, Container, Iterator
from datetime import timedelta
from importlib import import_module

from msgspec import Struct, field

from aion_core.clock import Clock
from aion_core.delegation.remotes import Remotes
from aion_core.engine.agent import Agent
from aion_core.engine.stored_tasks import StoredTasks
from aion_core.table.blobs import Blobs
from aion_core.table.cipher import Cipher
from aion_core.table.port import Table


class AgentDependencies(Struct, frozen=True):
    """Stores and services of a deployment that the adapters use."""

    tasks: StoredTasks
    table: Table
    blobs: Blobs
    cipher: Cipher | None
    """Cipher for agents' sessions; None without a KMS key."""
    clock: Clock
    retention: timedelta
    remotes: Remotes = field(default_factory=Remotes)
    """Remote agents that the agents' code may call."""


class Framework(Struct, frozen=True, kw_only=True):
    """Description of an agent framework, for code that must not import the framework's adapter.

    Creating the description does not import the framework.
    """

    title: str
    """Name for an agent of the framework in messages, such as "a LangGraph graph"."""
    adapter: str
    """Module of the adapter, with a function `build_agent(loaded, config, dependencies)`."""
    classes: tuple[tuple[str, str], ...]
    """Classes of agents, each as its package and its class name."""
    objects: str
    """Names of the framework's supported objects, for the error message about an unsupported object."""
    remedy: str
    """Advice in the error message about an agent that the adapter refuses."""
    imports: tuple[str, ...]
    """Modules imported by agents of the framework. Their submodules count too."""
    scanned: tuple[str, ...]
    """Module name prefixes. A file is searched for agents if it imports a module with such a prefix."""
    constructors: frozenset[str] = frozenset()
    """Names of the functions and classes that construct an agent, or a server that contains it."""
    apps: frozenset[str] = frozenset()
    """Names of the classes of web apps that contain an agent if their file imports one of the `constructors`."""
    bases: frozenset[str] = frozenset()
    """Names of the abstract classes from which authors derive their agents."""
    distribution: str = ""
    """The framework's package on PyPI, installed by an extra of aion-lambda; empty if no extra is needed."""
    missing: tuple[str, ...] = ()
    """Modules installed by the extra. The error message about such a missing module names the extra."""
    library: bool = False
    """True if the package `aion.<name>` has helpers for the framework's authors."""
    sends_messages: bool = False
    """True if an agent of the framework may answer with a Message in place of a task."""
    has_factories: bool = False
    """True if a function that is called for each turn can make agents of this framework."""
    limits_steps: bool = False
    """True if the key `recursion_limit` of aion.yaml applies to the framework's agents."""
    card_file: str = ""
    """Name of the file beside an agent in which the framework looks for the agent's card."""
    config_file: str = ""
    """Name of the framework's declarative agent file."""
    example: str = ""
    """Name of the agent object in a new project's agent.py; empty without a project template."""

    def builder(self) -> Callable[..., Agent]:
        """Import the framework's adapter and return its `build_agent` function."""
        build: Callable[..., Agent] = import_module(self.adapter).build_agent
        return build


FRAMEWORKS: dict[str, Framework] = {
    "langgraph": Framework(
        title="a LangGraph graph",
        adapter="aion_core.agents.langgraph.agent",
        classes=(("langgraph", "StateGraph"), ("langgraph", "Pregel")),
        objects="a LangGraph StateGraph, a compiled graph",
        remedy="Fix the graph's nodes and edges.",
        imports=("langgraph", "langchain", "langchain_core", "aion.langgraph"),
        scanned=("langgraph", "langchain", "deepagents"),
        constructors=frozenset(
            {
                "StateGraph",
                "MessageGraph",
                "create_agent",
                "create_react_agent",
                "create_deep_agent",
                "create_supervisor",
                "create_swarm",
            }
        ),
        distribution="langgraph",
        missing=("langgraph", "langchain_core"),
        library=True,
        has_factories=True,
        limits_steps=True,
        example="graph",
    ),
    "adk": Framework(
        title="an ADK agent",
        adapter="aion_core.agents.adk.agent",
        classes=(("google.adk", "BaseAgent"), ("google.adk", "Workflow"), ("google.adk", "App")),
        objects="an ADK agent or App",
        remedy="Fix the agent's definition.",
        imports=("google.adk", "aion.adk"),
        scanned=("google.adk",),
        constructors=frozenset(
            {
                "Agent",
                "LlmAgent",
                "SequentialAgent",
                "ParallelAgent",
                "LoopAgent",
                "LangGraphAgent",
                "RemoteA2aAgent",
                "Workflow",
                "App",
            }
        ),
        bases=frozenset({"BaseAgent"}),
        distribution="google-adk",
        missing=("google.adk", "google.genai"),
        library=True,
        card_file="agent.json",
        config_file="root_agent.yaml",
        example="root_agent",
    ),
    "executor": Framework(
        title="an AgentExecutor of the a2a-sdk",
        adapter="aion_core.agents.executor.agent",
        classes=(("a2a", "AgentExecutor"),),
        objects="an a2a-sdk AgentExecutor",
        remedy="Fix the executor's class.",
        imports=("a2a.server",),
        scanned=("a2a",),
        constructors=frozenset({"DefaultRequestHandler", "DefaultRequestHandlerV2", "LegacyRequestHandler"}),
        apps=frozenset({"Starlette", "FastAPI"}),
        bases=frozenset({"AgentExecutor"}),
        sends_messages=True,
        example="executor",
    ),
}
"""Frameworks by name. An object of several frameworks belongs to the first one. A new project uses the first entry."""


def framework_of(candidate: object) -> str | None:
    """Return the framework name of an agent object or class; None for other objects. Imports no framework."""
    own = candidate if isinstance(candidate, type) else type(candidate)
    for name, framework in FRAMEWORKS.items():
        for base in own.__mro__:
            if any(
                base.__name__ == class_name and f"{base.__module__}.".startswith(f"{package}.")
                for package, class_name in framework.classes
            ):
                return name
    return None


def framework_of_file(file_name: str) -> str | None:
    """Return the name of the framework that reads agent files with this name; None if there is none."""
    return next((name for name, framework in FRAMEWORKS.items() if framework.config_file == file_name), None)


def framework_of_factories() -> str:
    """Return the name of the framework whose agents may come from a function called for each turn."""
    return next(name for name, framework in FRAMEWORKS.items() if framework.has_factories)


def extras() -> frozenset[str]:
    """Return the names of aion-lambda's extras that install a framework."""
    return frozenset(name for name, framework in FRAMEWORKS.items() if framework.distribution)


def supported_objects() -> Iterator[str]:
    """Yield a description of the supported agent objects of each framework."""
    yield from (framework.objects for framework in FRAMEWORKS.values())


def constructors() -> frozenset[str]:
    """Return the names of the functions and classes that construct an agent of any framework."""
    return frozenset().union(*(framework.constructors for framework in FRAMEWORKS.values()))


def apps_of(imported: Container[str]) -> frozenset[str]:
    """Return the names of the classes of web apps that contain an agent in a file that imports these names."""
    using = (each for each in FRAMEWORKS.values() if any(name in imported for name in each.constructors))
    return frozenset().union(*(framework.apps for framework in using))


def agent_classes() -> frozenset[str]:
    """Return the names of all frameworks' constructors and of the abstract base classes of their agents."""
    return constructors().union(*(framework.bases for framework in FRAMEWORKS.values()))


def scanned_imports() -> tuple[str, ...]:
    """Return the module name prefixes of all frameworks. Only files with such an import are searched for agents."""
    return (*(prefix for framework in FRAMEWORKS.values() for prefix in framework.scanned), "aion")


def missing_framework(module: str) -> tuple[str, Framework] | None:
    """Return the name and entry of the framework whose extra installs a module; None if there is none."""
    return next((entry for entry in FRAMEWORKS.items() if module in entry[1].missing), None)
