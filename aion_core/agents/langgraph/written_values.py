"""Values that a turn has written to a graph's state, as its answer or beside the text of its answer."""

import json
import logging
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langgraph.graph import END

from aion_core.agents.langgraph.graph import MESSAGES, Graph
from aion_core.agents.langgraph.parts import ai_messages, has_content, message_of
from aion_core.agents.langgraph.state import StateHistory, adds_text
from aion_core.agents.plain_json import json_part
from aion_core.errors import AgentFailed
from aion_core.protocol.message_json import to_json
from aion_core.protocol.text import utf8
from aion_core.protocol.types import Artifact, Message, Part, Role

logger = logging.getLogger(__name__)

MAX_BYTES = 256 * 1024
"""Size in bytes, as JSON, of the largest values that become a part of an answer. Larger values are an artifact."""

OUTPUT = "output"
"""Name of the artifact with values that are too large for a part of the answer."""


Writes = Sequence[tuple[str, Mapping[str, Any]]]
"""Nodes, each with the values that it has written to the state."""

_MISSING: Any = object()
"""Stands for a value that the client has not sent."""


class WrittenValues:
    """Values that the nodes of a graph write in one turn, without its messages and A2A objects."""

    def __init__(self, graph: Graph, history: StateHistory, *, functional: bool) -> None:
        """Start without written values. `history` has the values of the state before the turn.

        A `functional` graph has no keys in its state, and so no values.
        """
        self._graph, self._before, self._given, self._functional = graph, history.before, history.given, functional
        self._steps: list[list[tuple[str, Sequence[str]]]] = []
        """Nodes of each step, each with the keys that it has written. A node of another process has no name."""
        self._step: list[tuple[str, Sequence[str]]] = []
        self._unsent: set[str] = set()

    @cached_property
    def _declares(self) -> bool:
        """True if the author's code has declared another output than the whole state."""
        builder = getattr(self._graph, "builder", None)
        return builder is not None and builder.output_schema is not builder.state_schema

    @cached_property
    def _names(self) -> list[str]:
        """Keys of the graph's output, without `messages` and keys of A2A, and without private keys of the state."""
        channels = self._graph.output_channels
        return [
            name
            for name in (() if isinstance(channels, str) or self._functional else channels)
            if name != MESSAGES and not name.startswith("a2a_") and (self._declares or not name.startswith("_"))
        ]

    @property
    def has_unsent(self) -> bool:
        """True if the turn has values that cannot be sent. The log names them."""
        return bool(self._unsent)

    def observe_writes(self, writes: Writes) -> None:
        """Record what nodes of the main graph have written."""
        # Store the keys only, so that the turn does not keep large values that a later step replaces.
        self._step += [(node, tuple(values)) for node, values in writes]

    def end_step(self) -> None:
        """Count what was written since the last call as that of one step."""
        if self._step:
            self._steps.append(self._step)
            self._step = []

    def observe_steps(self, steps: Sequence[Mapping[str, Any]]) -> None:
        """Find what each stored step of the turn has written, from the state's values after each step."""
        for earlier, later in pairwise([self._before, *steps]):
            self._step = [("", [key for key, value in later.items() if _differs(value, earlier.get(key))])]
            self.end_step()

    def declared(self, values: Any) -> Message | None:
        """Return the written values of a declared output schema without `messages`: the graph's own answer.

        A single text is a text part, and a single AIMessage is this message. Everything else is one data part.
        """
        is_answer = self._declares and not self._functional and MESSAGES not in self._graph.output_channels
        found = self._new(values) if is_answer else {}
        if len(found) == 1:
            (only,) = found.values()
            if isinstance(only, AIMessage) and has_content(only):
                return message_of(only)
            if isinstance(only, str) and only:
                return Message(role=Role.ROLE_AGENT, parts=[Part(text=utf8(only))])
        return _message(self._part(found))

    def alone(self, values: Any) -> Part | None:
        """Return the values that answer a turn without text: those of a separate output or of a state without messages.

        For other graphs return None, because the values beside a conversation are an answer only as a last resort.
        """
        is_answer = self._declares or MESSAGES not in self._graph.channels
        found = self._new(values) if is_answer else {}
        return self._part(found if self._declares else self._made(found) or found)

    def beside(self, values: Any, text: str) -> Part | None:
        """Return the values written by the nodes that have ended the graph, as far as the `text` does not say them.

        For a graph that declares its output, return None. Also if a node has added the text to the state's messages as
        another message than an AIMessage, such as the named HumanMessage of a supervisor's worker.
        """
        if self._declares or not isinstance(values, Mapping) or adds_text(values, self._before, text):
            return None
        ending = self._written_at_the_end()
        keys = [key for key in self._names if key in ending]
        found = {key: values[key] for key in keys if not _is_empty(values.get(key))}
        return self._part({key: value for key, value in self._made(found).items() if not _says(text, value)})

    def last_resort(self, values: Any) -> Part | None:
        """Return all values that nodes have written, for a turn without any other output."""
        keys = [key for key in self._names if self._is_written(key)] if isinstance(values, Mapping) else []
        found = {key: values[key] for key in keys if not _is_empty(values.get(key))}
        return self._part(self._made(found) or found)

    def fits(self, part: Part) -> bool:
        """Return True if the values may be a part of the answer. Values of a declared output always may."""
        return self._declares or len(json.dumps(to_json(part), ensure_ascii=False).encode()) <= MAX_BYTES

    def is_new(self, values: Any, key: str) -> bool:
        """Return True if the turn has written this key of the state, and its value is not None."""
        if not isinstance(values, Mapping) or values.get(key) is None:
            return False
        return self._is_written(key) or _differs(self._before.get(key), values[key])

    def _is_written(self, key: str) -> bool:
        return any(key in keys for step in self._steps for _, keys in step)

    def _written_at_the_end(self) -> set[str]:
        """Return the keys written by the last step with values for the client, and by nodes with an edge to END."""
        builder: Any = getattr(self._graph, "builder", None)
        last_nodes = {start for start, end in builder.edges if end == END} if builder is not None else set()
        ending = {key for step in self._steps for node, keys in step if node in last_nodes for key in keys}
        for step in reversed(self._steps):
            written = {key for _, keys in step for key in keys}
            if not written.isdisjoint(self._names):
                return ending | written
        return ending

    def _made(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Leave out what the client has sent, because nodes and subgraphs often return their input with the result."""
        return {key: value for key, value in values.items() if _differs(value, self._given.get(key, _MISSING))}

    def _new(self, values: Any) -> dict[str, Any]:
        return {key: values[key] for key in self._names if self.is_new(values, key)}

    def _part(self, values: Mapping[str, Any]) -> Part | None:
        """Return the values as a data part. Leave out those that JSON cannot hold, and log their keys once."""
        if not values:
            return None
        try:
            return json_part(values, strict=not self._declares)
        except AgentFailed:
            return self._part({key: value for key, value in values.items() if self._can_be_sent(key, value)})

    def _can_be_sent(self, key: str, value: Any) -> bool:
        try:
            json_part({key: value}, strict=not self._declares)
        except AgentFailed as error:
            if key not in self._unsent:
                logger.warning("%s", error)
            self._unsent.add(key)
            return False
        return True


def artifact_of(part: Part) -> Artifact:
    """Return an artifact with the values, which are too large for the answer."""
    return Artifact(name=OUTPUT, parts=[part])


def _says(text: str, value: Any) -> bool:
    """Return True if the text has the value: as most of its words, or as the same JSON.

    A short value that occurs in a long text, such as a label, is not said by it. A list of messages stands for its last
    answer.
    """
    if isinstance(value, list) and value and all(isinstance(each, BaseMessage) for each in value):
        value = next(ai_messages(value), "")
    if isinstance(value, BaseMessage):
        value = str(value.text)
    if isinstance(value, str):
        part, whole = " ".join(value.split()), " ".join(text.split())
        return part in whole and 2 * len(part) >= len(whole)
    try:
        return bool(json_part(json.loads(text)) == json_part(value))
    except (ValueError, AgentFailed):
        return False


def _is_empty(value: Any) -> bool:
    """Return True for a value without content. The name of LangGraph's END is a route of a router, not a value."""
    return (
        value is None
        or (isinstance(value, str | list | dict) and not value)
        or (isinstance(value, str) and value == END)
    )


def _differs(value: Any, other: Any) -> bool:
    try:
        return bool(value != other)
    except ValueError:
        # Treat arrays, such as NumPy's, as different, because Python cannot convert the comparison of two arrays to a
        # bool.
        return True


def _message(part: Part | None) -> Message | None:
    return Message(role=Role.ROLE_AGENT, parts=[part]) if part is not None else None
