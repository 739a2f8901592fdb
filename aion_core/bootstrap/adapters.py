"""What makes an agent of each framework's object, beside the stores where the framework keeps what is its own.

A framework is imported when an agent of its kind is.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from aion_core.agents.config import AgentConfig
from aion_core.agents.finding import Found
from aion_core.agents.loader import AdapterFactory
from aion_core.errors import ConfigurationError
from aion_core.ports import Agent, Blobs, Cipher, Clock, MemoryScope, TaskStore
from aion_core.settings import Settings

if TYPE_CHECKING:
    from aion_core.aws.client import Calls
    from aion_core.memory.task_store import MemoryTaskStore


def memory_adapters(tasks: "MemoryTaskStore", clock: Clock) -> Mapping[str, AdapterFactory]:
    """Return them, by their kind, for a process that may forget."""
    from aion_core.memory.long_term_memory import MemoryRecords

    records = MemoryRecords()

    def langgraph(found: Found, config: AgentConfig) -> Agent:
        from langgraph.checkpoint.memory import InMemorySaver

        from aion_core.agents.langgraph.agent import LangGraphAgent
        from aion_core.checkpointing.store import OwnersStore
        from aion_core.checkpointing.turn import Fence
        from aion_core.memory.checkpoints import MemorySaver
        from aion_core.memory.long_term_memory import MemoryLongTermMemory

        threads = InMemorySaver()
        return LangGraphAgent(
            found.agent,
            lambda asked, before_put, types: MemorySaver(
                threads, tasks, fence=Fence(asked.context, asked.fence), before_put=before_put, types=types
            ),
            stores=lambda asked: OwnersStore(
                MemoryLongTermMemory(records, tasks, clock, fence=Fence(asked.context, asked.fence)),
                MemoryScope(asked.context.owner, asked.context.agent),
            ),
            name=config.name,
            configuration=config.configuration,
            module=found.module,
        )

    def adk(found: Found, config: AgentConfig) -> Agent:
        from aion_core.agents.adk.agent import AdkAgent
        from aion_core.checkpointing.turn import Fence
        from aion_core.memory.artifacts import MemoryArtifacts
        from aion_core.memory.sessions import MemorySessionRecords, MemorySessions

        records, artifacts = MemorySessionRecords(), MemoryArtifacts(clock)
        return AdkAgent(
            found.agent,
            lambda asked: MemorySessions(records, tasks, clock, fence=Fence(asked.context, asked.fence)),
            lambda asked: artifacts,
            name=config.name,
            resume=config.resume,
            configuration=config.configuration,
            module=found.module,
        )

    return {"langgraph": langgraph, "adk": adk, "executor": _executor_adapter(tasks)}


def aws_adapters(
    settings: Settings,
    tasks: TaskStore,
    dynamodb: "Calls",
    s3: "Calls",
    blobs: Blobs,
    cipher: Cipher | None,
    clock: Clock,
) -> Mapping[str, AdapterFactory]:
    """Return them, by their kind, for the table and the bucket."""
    retention = timedelta(days=settings.retention_days)

    def langgraph(found: Found, config: AgentConfig) -> Agent:
        from aion_core.agents.langgraph.agent import LangGraphAgent
        from aion_core.aws.checkpoints import DynamoDBSaver
        from aion_core.aws.long_term_memory import DynamoDBLongTermMemory
        from aion_core.checkpointing.store import OwnersStore
        from aion_core.checkpointing.turn import Fence

        return LangGraphAgent(
            found.agent,
            lambda asked, before_put, types: DynamoDBSaver(
                dynamodb,
                blobs,
                clock,
                table=settings.table,
                fence=Fence(asked.context, asked.fence),
                before_put=before_put,
                retention=retention,
                types=types,
            ),
            stores=lambda asked: OwnersStore(
                DynamoDBLongTermMemory(dynamodb, clock, table=settings.table, fence=Fence(asked.context, asked.fence)),
                MemoryScope(asked.context.owner, asked.context.agent),
            ),
            name=config.name,
            configuration=config.configuration,
            module=found.module,
        )

    def adk(found: Found, config: AgentConfig) -> Agent:
        from aion_core.agents.adk.agent import AdkAgent
        from aion_core.aws.artifacts import S3Artifacts
        from aion_core.aws.sessions import DynamoDBSessions
        from aion_core.checkpointing.turn import Fence

        if cipher is None:
            raise ConfigurationError(
                "An ADK agent's sessions are sealed, and AION_KMS_KEY, the KMS key to seal them with, is missing."
            )
        artifacts = S3Artifacts(s3, clock, bucket=settings.bucket)
        return AdkAgent(
            found.agent,
            lambda asked: DynamoDBSessions(
                dynamodb,
                blobs,
                cipher,
                clock,
                table=settings.table,
                fence=Fence(asked.context, asked.fence),
                retention=retention,
            ),
            lambda asked: artifacts,
            name=config.name,
            resume=config.resume,
            configuration=config.configuration,
            module=found.module,
        )

    return {"langgraph": langgraph, "adk": adk, "executor": _executor_adapter(tasks)}


def _executor_adapter(tasks: TaskStore) -> AdapterFactory:
    def executor(found: Found, config: AgentConfig) -> Agent:
        from aion_core.agents.executor.agent import ExecutorAgent

        return ExecutorAgent(
            found.agent, tasks, name=config.name, resume=config.resume, configuration=config.configuration
        )

    return executor
