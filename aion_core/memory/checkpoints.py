"""LangGraph's checkpoints in a dict, fenced like those on DynamoDB; they live as long as the process."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver

from aion_core.checkpointing.serializer import StoredType, serializer
from aion_core.checkpointing.turn import BeforePut, Fence, LogFirst
from aion_core.memory.task_store import MemoryTaskStore


class MemorySaver(InMemorySaver):
    """LangGraph's checkpointer for one turn, in one process.

    Every write may raise LeaseLost: another holder has the context then, and nothing was written.
    """

    def __init__(
        self,
        threads: InMemorySaver,
        tasks: MemoryTaskStore,
        *,
        fence: Fence | None = None,
        before_put: BeforePut | None = None,
        types: Iterable[StoredType] = (),
    ) -> None:
        """`threads` is what the savers of all turns share, and `tasks` knows the fence of each context.

        Without a fence, nobody is kept from writing. `before_put` is awaited before each write. `types` are the
        author's own classes that checkpoints may hold.
        """
        super().__init__(serde=serializer(types))
        self.storage, self.writes, self.blobs = threads.storage, threads.writes, threads.blobs
        self._tasks, self._fence, self._log_first = tasks, fence, LogFirst(before_put)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that the config names, or its thread's newest; None where there is none."""
        return super().get_tuple(config)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See `aget_tuple`; a synchronous graph begins with it, in the thread that runs it."""
        self._log_first.check_thread()
        return super().get_tuple(config)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store the whole state, to be found by the config that is returned."""
        await self._log_first()
        with self._fenced():
            return super().put(config, checkpoint, metadata, new_versions)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """See `aput`."""
        self._log_first.blocking()
        with self._fenced():
            return super().put(config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote; a write that is there already stays as it is."""
        await self._log_first()
        with self._fenced():
            super().put_writes(config, writes, task_id, task_path)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """See `aput_writes`."""
        self._log_first.blocking()
        with self._fenced():
            super().put_writes(config, writes, task_id, task_path)

    def delete_thread(self, thread_id: str) -> None:
        """Delete the thread's checkpoints."""
        with self._fenced():
            super().delete_thread(thread_id)

    def _fenced(self) -> AbstractContextManager[None]:
        if self._fence is None:
            return nullcontext()
        return self._tasks.fenced(self._fence.context, self._fence.number)
