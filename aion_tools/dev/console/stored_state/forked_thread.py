"""Copy of a LangGraph checkpoint, with an edited state, as the first one of another context's thread."""

import copy
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import BaseMessage, messages_from_dict
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, ChannelVersions
from pydantic import BaseModel

from aion_core.agents.langgraph.graph import Graph
from aion_core.agents.langgraph.setup import GraphSetup
from aion_core.agents.langgraph.thread import RUNS_FROM_HERE
from aion_core.errors import InvalidMessage
from aion_core.table.keys import ContextKey, thread_id
from aion_tools.dev.console.stored_state.langgraph import with_saver
from aion_tools.dev.console.stored_state.readable_json import readable_json
from aion_tools.dev.console.stored_state.state import Fork


async def forked_thread(
    graph: Graph,
    setup: GraphSetup,
    source: ContextKey,
    target: ContextKey,
    checkpoint_id: str,
    values: Mapping[str, Any],
    message_id: str,
) -> Fork:
    """Store a checkpoint of `source` in the thread of `target`, with these values of the state's channels.

    The message `message_id` then runs the nodes that are next in the checkpoint. Raises InvalidMessage if the checkpoint
    is gone, or if a value cannot be edited as JSON, and StoreError.
    """
    graph = with_saver(graph, setup, log_first=_no_wait, owner=target.owner)
    saver = graph.checkpointer
    if not isinstance(saver, BaseCheckpointSaver):
        raise InvalidMessage("This agent stores no checkpoints.")
    place: RunnableConfig = {
        "configurable": {"thread_id": thread_id(source), "checkpoint_ns": "", "checkpoint_id": checkpoint_id}
    }
    found = await saver.aget_tuple(place)
    if found is None:
        raise InvalidMessage("The context has no such checkpoint; it may have expired.", field="checkpointId")
    checkpoint = copy.deepcopy(found.checkpoint)
    snapshot = await graph.aget_state(place)
    edited = _edited(dict(snapshot.values) if isinstance(snapshot.values, Mapping) else {}, values)
    checkpoint["channel_values"] |= edited
    versions: ChannelVersions = {**checkpoint["channel_versions"]}
    for channel in edited.keys() - versions.keys():
        versions[channel] = checkpoint["channel_versions"][channel] = saver.get_next_version(None, None)
    run_by = {RUNS_FROM_HERE: message_id} if snapshot.next else {}
    metadata: Any = {"source": "fork", "step": found.metadata.get("step", 0), "parents": {}, **run_by}
    await saver.aput(
        {"configurable": {"thread_id": thread_id(target), "checkpoint_ns": ""}}, checkpoint, metadata, versions
    )
    return Fork(runs=bool(snapshot.next))


def _edited(values: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the wanted values that differ from those of the state, as objects of the classes in the state."""
    changed: dict[str, Any] = {}
    for name, new in wanted.items():
        old = values.get(name)
        if name in values and readable_json(old) == new:
            continue
        try:
            changed[name] = _like(old, new)
        except Exception as error:  # a constructor of the author's class may raise any exception
            raise InvalidMessage(f"{name} does not fit the state: {error}", field=name) from None
    return changed


def _like(old: Any, new: Any) -> Any:
    """Return JSON as an object of the class of `old`. Raises ValueError if JSON cannot become such an object."""
    if isinstance(old, BaseModel) and not isinstance(old, BaseMessage):
        return type(old).model_validate(new)
    if isinstance(old, list) and any(isinstance(each, BaseMessage) for each in old):
        return messages_from_dict([{"type": each["type"], "data": each} for each in new])
    if readable_json(old) == old:
        return new
    raise ValueError(f"objects of the author's classes, as in this {type(old).__name__}, cannot be made from JSON")


async def _no_wait() -> None:
    """Return at once: no turn records anything before these writes."""
