"""The agent made of a loaded object, by the adapter of its framework."""

from pathlib import Path

from msgspec.structs import replace

from aion_core.engine.agent import Agent
from aion_core.errors import AgentLoadError, ConfigurationError
from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.frameworks import FRAMEWORKS, AgentDependencies, supported_objects
from aion_core.loading.load_errors.explain import explain_error, is_from_user
from aion_core.loading.objects.loaded import LoadedObject, framework_of_loaded, object_location
from aion_core.loading.objects.per_turn import is_opened
from aion_core.loading.objects.servers import server_remedy


def build_agent(
    found: LoadedObject, config: AgentConfig, folder: Path, dependencies: AgentDependencies
) -> tuple[str, Agent]:
    """Return the name of the object's framework, and the agent that its adapter builds. Raises AgentLoadError."""
    # Unwrap a graph: `with_retry`, `with_config` and similar methods return a wrapper with the attribute `bound`.
    agent = found.agent if framework_of_loaded(found.agent) else getattr(found.agent, "bound", found.agent)
    name, path = framework_of_loaded(agent), config.path
    if name is None:
        raise AgentLoadError(
            f"{path} is {_with_article(type(found.agent).__name__)}, which is not an agent",
            do=_OPENED if is_opened(agent) else server_remedy(agent) or _supported(),
            **object_location(found, folder),
        )
    framework = FRAMEWORKS[name]
    if config.recursion_limit is not None and not framework.limits_steps:
        raise AgentLoadError(
            f"{path} is {framework.title}, and `recursion_limit` limits the steps of a LangGraph graph only",
            do="Remove the key in aion.yaml.",
        )
    try:
        return name, framework.builder()(replace(found, agent=agent), config, dependencies)
    except AgentLoadError as error:
        do, own = error.do, {"where": error.where, "source": error.source}
        raise AgentLoadError(
            f"{path}: {error.what}", do=do, **(own if error.where else object_location(found, folder))
        ) from error
    except ConfigurationError as error:
        raise AgentLoadError(f"{path}: {error}", **object_location(found, folder)) from error
    # Catch every exception, because compiling a graph runs the author's code.
    except BaseException as error:
        if is_from_user(error):
            raise
        explained = explain_error(error, path, folder, "cannot be served:")
        if explained.where:
            raise explained from error
        raise AgentLoadError(explained.what, do=framework.remedy, **object_location(found, folder)) from error


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'aeiouAEIO' else 'a'} {name}"


def _supported() -> str:
    return f"aion runs {', '.join(supported_objects())}, or a function that returns one."


_OPENED = "Name the function that makes it, not the result of one call: it is called for each turn."
