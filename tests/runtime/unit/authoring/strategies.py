"""Hypothesis strategies for A2A messages and tasks as written by an agent's author."""

from typing import Any

from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Value
from hypothesis import strategies as st

from aion_core.protocol.reserved_keys import is_reserved
from aion_core.protocol.types import Artifact, Message, Part, Role, Task, TaskState, TaskStatus

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
words = st.text("abcdefg-", min_size=1, max_size=6)
keys = texts.filter(lambda key: not is_reserved(key))
numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(keys, json_values, max_size=3)


def _part(content: dict[str, Any], metadata: dict[str, Any], filename: str, media_type: str) -> Part:
    named: dict[str, Any] = (
        {} if content.keys() & {"text", "data"} else {"filename": filename, "media_type": media_type}
    )
    return Part(**content, **named, metadata=metadata or None)


contents = st.one_of(
    st.builds(lambda text: {"text": text}, texts),
    st.builds(lambda raw: {"raw": raw}, st.binary(max_size=20)),
    st.builds(lambda url: {"url": f"https://example.com/{url}"}, words),
    st.builds(lambda data: {"data": ParseDict(data, Value())}, json_values),
)
parts = st.builds(_part, contents, objects, words, st.sampled_from(["image/png", "text/plain"]))
messages = st.builds(
    lambda **fields: Message(**{**fields, "metadata": fields["metadata"] or None}),
    message_id=texts,
    context_id=texts,
    task_id=texts,
    role=st.sampled_from([Role.ROLE_USER, Role.ROLE_AGENT]),
    parts=st.lists(parts, max_size=3),
    metadata=objects,
    extensions=st.lists(words, max_size=2),
    reference_task_ids=st.lists(words, max_size=2),
)
artifacts = st.builds(Artifact, artifact_id=texts, name=words, parts=st.lists(parts, max_size=2))
tasks = st.builds(
    lambda **fields: Task(**{**fields, "metadata": fields["metadata"] or None}),
    id=texts,
    context_id=texts,
    status=st.builds(TaskStatus, state=st.sampled_from(TaskState.values()), message=st.none() | messages),
    history=st.lists(messages, max_size=2),
    artifacts=st.lists(artifacts, max_size=2),
    metadata=objects,
)
