"""Registry of agent frameworks: one entry for each adapter package."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module

from aion_core.ports import Agent, Blobs, Cipher, Clock, TaskStore
from aion_core.ports.table import Table


@dataclass(frozen=True, slots=True)
class AgentDependencies:
    """Stores and services for the agents of a deployment."""

    tasks: TaskStore
    table: Table
    blobs: Blobs
    cipher: Cipher | None
    """Encrypts sessions; None without a KMS key."""
    clock: Clock
    retention: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """Everything outside of an adapter package that depends on its framework. No field imports the framework."""

    title: str
    """An agent of the framework, for messages: "a LangGraph graph"."""
    adapter: str
    """Module with `build_agent(loaded, config, dependencies)`, imported with the first agent of the framework."""
    classes: tuple[tuple[str, str], ...]
    """Classes of agents: their top-level package, and their name."""
    objects: str
    """Supported objects, for the error about any other object."""
    remedy: str
    """Advice for an agent that the adapter refuses."""
    imports: tuple[str, ...]
    """Modules imported by agents of the framework; their submodules count too."""
    scanned: tuple[str, ...]
    """Prefixes of imports in files to scan for agents."""
    constructors: frozenset[str] = frozenset()
    """Functions and classes that construct an agent."""
    bases: frozenset[str] = frozenset()
    """Abstract classes with agents as their subclasses."""
    distribution: str = ""
    """Package on PyPI. aion-lambda's extra for it has the name of this entry; empty if no extra is needed."""
    missing: tuple[str, ...] = ()
    """Modules of the extra; their ImportError is answered with the extra's name."""
    library: bool = False
    """True for a package `aion.<name>` with helpers for authors."""
    has_factories: bool = False
    """True if a function called for each turn makes agents of this framework."""
    config_file: str = ""
    """Name of the framework's declarative agent file."""
    example: str = ""
    """Name of the agent object in a new project's agent.py; empty without a project template."""

    def builder(self) -> Callable[..., Agent]:
        """Return the adapter's `build_agent`; imports the framework."""
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
        bases=frozenset({"AgentExecutor"}),
        example="executor",
    ),
}
"""Frameworks by name, in order of precedence for an object of several. The first one is a new project's default."""


def framework_of(candidate: object) -> str | None:
    """Return the name of the framework of an object or a class, None for other objects; import nothing."""
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
    """Return the framework with this declarative agent file, None for any other file."""
    return next((name for name, framework in FRAMEWORKS.items() if framework.config_file == file_name), None)


def framework_of_factories() -> str:
    """Return the framework of graph factories called for each turn."""
    return next(name for name, framework in FRAMEWORKS.items() if framework.has_factories)


def extras() -> frozenset[str]:
    """Return the extras of aion-lambda with a framework."""
    return frozenset(name for name, framework in FRAMEWORKS.items() if framework.distribution)


def supported_objects() -> Iterator[str]:
    """Yield the objects that an agent's `path` may name."""
    yield from (framework.objects for framework in FRAMEWORKS.values())


def constructors() -> frozenset[str]:
    """Return the functions and classes that construct an agent of any framework."""
    return frozenset().union(*(framework.constructors for framework in FRAMEWORKS.values()))


def agent_classes() -> frozenset[str]:
    """Return the classes with agents of any framework as their instances or subclasses."""
    return constructors().union(*(framework.bases for framework in FRAMEWORKS.values()))


def scanned_imports() -> tuple[str, ...]:
    """Return the prefixes of imports in files to scan for agents; `aion` is our library for authors."""
    return (*(prefix for framework in FRAMEWORKS.values() for prefix in framework.scanned), "aion")


def missing_framework(module: str) -> tuple[str, Framework] | None:
    """Return the framework of a missing module, None for any other module."""
    return next((entry for entry in FRAMEWORKS.items() if module in entry[1].missing), None)
