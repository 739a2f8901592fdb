"""Program that loads a project's agents, and tells which stored classes each agent's state still has.

`python -m aion_tools.cli.checks.restorable_classes CONFIG OUTPUT` reads the stored classes from its standard input, and
writes to a file, because agents' code may print. It has a process of its own, because it imports the modules that stored
state names.
"""

import asyncio
import json
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from aion_core.loading.deployment import read_deployment_config
from aion_core.loading.importing.one_module import GENERATED_NAME
from aion_core.loading.lazy_agent import LazyAgent
from aion_core.state.langgraph.class_record import StoredClass
from aion_core.table.keys import ContextKey
from aion_tools.cli.code_profile import in_memory_agents


@dataclass(frozen=True)
class Restorable:
    """What an agent's state has of stored classes."""

    missing: Mapping[StoredClass, str]
    """Remedy for each class that the state does not have."""
    channels: Mapping[str, Collection[str]]
    """Channels of the graph and its subgraphs, by the names of nodes; empty for a factory, which only a turn calls."""

    def has_channel(self, ns: str, channel: str) -> bool:
        """Return True if the graph of a checkpoint namespace has this channel, or is unknown."""
        # A part of a namespace is a node with the id of its LangGraph task, or a number.
        path = "|".join(part.partition(":")[0] for part in ns.split("|") if not part.isdigit())
        return channel.startswith("__") or path not in self.channels or channel in self.channels[path]


def question(wanted: Mapping[str, Collection[StoredClass]]) -> bytes:
    """Return the standard input of this program: the stored classes by agent."""
    return json.dumps({agent: sorted(classes) for agent, classes in wanted.items()}).encode()


def answer(output: bytes) -> dict[str, Restorable]:
    """Parse the output of this program: what each LangGraph agent has of the stored classes."""
    return {
        agent: Restorable({StoredClass(*name): remedy for *name, remedy in found["missing"]}, found["channels"])
        for agent, found in json.loads(output).items()
    }


def restorable(agent: LazyAgent, stored: Collection[StoredClass]) -> Restorable | None:
    """Load the agent, and look for these classes; None if it is not of LangGraph. Raises ConfigurationError."""
    loaded = asyncio.run(agent.loaded())
    if agent.framework != "langgraph":
        return None
    # Import late, because only a project with LangGraph has it.
    from langgraph.pregel import Pregel

    from aion_core.agents.langgraph.agent import LangGraphAgent
    from aion_core.state.langgraph.stored_objects import ListedClasses, importable, remedy_for_missing

    assert isinstance(loaded, LangGraphAgent)  # noqa: S101  # the framework's adapter
    if agent.is_per_turn:
        return Restorable(
            {each: remedy_for_missing(each, ()) for each in stored if importable(_here(each)) is None}, {}
        )

    async def prepared() -> Restorable:
        async with loaded.graph_of(ContextKey("", "", ""), "") as (graph, setup):
            classes = ListedClasses(setup.types)
            missing = [each for each in stored if classes.find(_here(each)) is None]
            nested = {
                path: [*each.channels] for path, each in graph.get_subgraphs(recurse=True) if isinstance(each, Pregel)
            }
            return Restorable(
                {each: remedy_for_missing(each, classes.called(each.name)) for each in missing},
                {"": [*graph.channels], **nested},
            )

    return asyncio.run(prepared())


def _here(named: StoredClass) -> StoredClass:
    """Return the class's name on this machine: a generated module name ends with a hash of the file's path."""
    if not named.module.startswith(GENERATED_NAME):
        return named
    stem = named.module.rpartition("_")[0]
    found = [module for module in sys.modules if module.rpartition("_")[0] == stem]
    return StoredClass(found[0], named.name) if len(found) == 1 else named


def main(config: Path, output: Path) -> None:
    """Write what each LangGraph agent of the project has of the classes that standard input names."""
    agents, found = in_memory_agents(read_deployment_config(config)), {}
    for name, classes in json.load(sys.stdin).items():
        if name in agents and (each := restorable(agents[name], [StoredClass(*given) for given in classes])):
            missing = [[*named, remedy] for named, remedy in each.missing.items()]
            found[name] = {"missing": missing, "channels": each.channels}
    output.write_text(json.dumps(found))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
