"""Adapters of frameworks' objects, with the stores of checkpoints, sessions, memories and artifacts.

A framework is imported when an agent of its kind is.
"""

from collections.abc import Mapping
from datetime import timedelta
from functools import partial

from aion_core.agents.config import AgentConfig
from aion_core.agents.loader import AdapterFactory
from aion_core.agents.objects import LoadedObject
from aion_core.errors import ConfigurationError
from aion_core.ports import Agent, Blobs, Cipher, Clock, TaskStore
from aion_core.ports.table import Table


def build_adapters(
    tasks: TaskStore, table: Table, blobs: Blobs, cipher: Cipher | None, clock: Clock, *, retention: timedelta
) -> Mapping[str, AdapterFactory]:
    """Return the adapters by the kind of a framework's object; what the framework stores is in this table."""

    def langgraph(found: LoadedObject, config: AgentConfig) -> Agent:
        from aion_core.agents.langgraph.agent import LangGraphAgent
        from aion_core.stores.checkpoints import TableSaver
        from aion_core.stores.long_term_memory import TableLongTermMemory

        return LangGraphAgent(
            found.agent,
            partial(TableSaver, table, blobs, clock, retention=retention),
            memories=partial(TableLongTermMemory, table, clock),
            name=config.name,
            configuration=config.configuration,
            module=found.module,
        )

    def adk(found: LoadedObject, config: AgentConfig) -> Agent:
        from aion_core.agents.adk.agent import AdkAgent
        from aion_core.stores.artifacts import BlobArtifacts
        from aion_core.stores.retries import Fence
        from aion_core.stores.sessions import TableSessions

        if cipher is None:
            raise ConfigurationError(
                "An ADK agent's sessions are encrypted, and AION_KMS_KEY, the KMS key to encrypt them with, is missing."
            )
        artifacts = BlobArtifacts(blobs, clock)
        return AdkAgent(
            found.agent,
            lambda asked: TableSessions(
                table, blobs, cipher, clock, fence=Fence(asked.context, asked.fence), retention=retention
            ),
            lambda asked: artifacts,
            name=config.name,
            resume=config.resume,
            configuration=config.configuration,
            module=found.module,
        )

    def executor(found: LoadedObject, config: AgentConfig) -> Agent:
        from aion_core.agents.executor.agent import ExecutorAgent

        return ExecutorAgent(
            found.agent, tasks, name=config.name, resume=config.resume, configuration=config.configuration
        )

    return {"langgraph": langgraph, "adk": adk, "executor": executor}
