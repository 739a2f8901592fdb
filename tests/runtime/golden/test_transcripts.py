"""Streams compared frame by frame with handwritten transcripts.

A transcript is a file of this folder. `plain_answer.v1.sse` is the response of the graph `graphs.plain_answer()` to
SendStreamingMessage (v1), and `plain_answer.v03.sse` its response to message/stream (v0.3). Lines of a transcript:

    # comment                       requirements that the next lines prove
    > Hello                         the client sends this text; all texts of a transcript go to one task
    > (<interrupt-2>) Hello         the text answers this interrupt (metadata.interruptId)
    id: 1                           a frame of the response: its SSE id and its data, each on one line
    data: {"jsonrpc": "2.0", …}     the data is compared as JSON, so the order of keys does not matter

Tokens stand for ids that the server generates: <task>, <context>, <message-1>, <artifact-1>, <interrupt-1>. Equal ids have
equal tokens, numbered in order of appearance. A timestamp in UTC with milliseconds (ISO 8601) is <time>. Ids that begin with
`my-` or `aion:` are not replaced. SSE ids are not replaced either: an event has its number in the log, a chunk
`generation.fence.n`.

To add a transcript, write the graph in `graphs.py` and both transcripts from the requirements, not from the server's output.
See the test fail, then write the code. The commit that adds a transcript changes no source.
"""

import difflib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from aion_core.engine.agent import Agent
from tests.runtime.golden import graphs
from tests.support.rows import each_row
from tests.support.service import http, parts, send

HERE = Path(__file__).parent
METHODS = {"v1": "SendStreamingMessage", "v03": "message/stream"}
READS = {"SendStreamingMessage": "GetTask", "message/stream": "tasks/get"}
"""Method that reads the streamed task, for each streaming method."""
TRANSCRIPTS = sorted(HERE.glob("*.sse"))

KINDS = {
    "taskId": "task",
    "contextId": "context",
    "messageId": "message",
    "artifactId": "artifact",
    "interruptId": "interrupt",
}
"""Kind of the id under each key; a task has its own id under `id`."""
ONE = ("task", "context")
"""Kinds whose first token has no number, because most transcripts have one id of the kind."""
ANSWER = re.compile(r"\((<interrupt-\d+>)\) ")
"""Prefix of a text that answers one of several interrupts."""
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z")


@dataclass
class Exchange:
    """Text that the client sends, and the frames of the response."""

    text: str
    frames: list[dict[str, Any]] = field(default_factory=list)


class Tokens:
    """Tokens that replace generated ids and valid timestamps."""

    def __init__(self) -> None:
        self._tokens: dict[tuple[str, str], str] = {}

    def put_into(self, value: Any) -> Any:
        """Return a copy of the JSON value with tokens instead of generated ids."""
        if isinstance(value, dict):
            is_task = "status" in value and "id" in value
            kinds = (
                {**KINDS, "id": "task"}
                if is_task
                else {**KINDS, "id": "interrupt"}
                if "id" in value and set(value) <= {"id", "text", "schema", "choices"}
                else KINDS
            )
            return {key: self._token(key, item, kinds) for key, item in value.items()}
        if isinstance(value, list):
            return [self.put_into(item) for item in value]
        return value

    def value_of(self, token: str) -> str:
        """Return the id that the token replaces; return any other text unchanged."""
        return next((value for (_, value), known in self._tokens.items() if known == token), token)

    def _token(self, key: str, value: Any, kinds: dict[str, str]) -> Any:
        if not isinstance(value, str):
            return self.put_into(value)
        if key == "timestamp":
            return "<time>" if TIME.fullmatch(value) else value
        kind = kinds.get(key)
        if kind is None or value.startswith(("my-", "aion:")):
            return value
        if (kind, value) not in self._tokens:
            number = 1 + sum(known == kind for known, _ in self._tokens)
            alone = number == 1 and kind in ONE
            self._tokens[kind, value] = f"<{kind}>" if alone else f"<{kind}-{number}>"
        return self._tokens[kind, value]


def read(transcript: Path) -> list[Exchange]:
    """Parse a transcript file."""
    exchanges: list[Exchange] = []
    for block in blocks(transcript.read_text(encoding="utf-8")):
        if block[0].startswith("> "):
            exchanges.append(Exchange(block.pop(0).removeprefix("> ")))
        if block:
            exchanges[-1].frames.append(frame(block))
    return exchanges


def blocks(text: str) -> Iterator[list[str]]:
    """Yield each block of lines between empty lines, without comments (`#` in transcripts, `:` in SSE)."""
    for block in text.replace("\r\n", "\n").split("\n\n"):
        if lines := [line for line in block.split("\n") if line and not line.startswith(("#", ":"))]:
            yield lines


def frame(lines: list[str]) -> dict[str, Any]:
    """Parse an SSE frame; its data is JSON."""
    fields: dict[str, Any] = {name: value for name, _, value in (line.partition(": ") for line in lines)}
    assert len(fields) == len(lines), f"a field twice: {lines}"
    return {**fields, "data": json.loads(fields["data"])}


async def hear(graph: graphs.Graph | Agent, texts: list[str], method: str) -> list[Exchange]:
    """Send each text to one task; return each response's frames. Check the history of the task."""
    heard: list[Exchange] = []
    task: dict[str, str] = {}
    tokens = Tokens()
    async with http(parts(graph).app()) as client:
        for number, text in enumerate(texts, start=1):
            message = dict[str, Any](task)
            if named := ANSWER.match(text):
                message["metadata"] = {"interruptId": tokens.value_of(named[1])}
            spoken = ANSWER.sub("", text, count=1)
            request = send(spoken, message_id=f"my-message-{number}", method=method, **message)
            answer = await client.post("/", json=request)
            said = frames(answer)
            heard.append(Exchange(text, [tokens.put_into(frame) for frame in said]))
            if not task and said:
                result = said[0]["data"].get("result", {})
                task = {"taskId": result.get("task", result).get("id", "")}
            check_history(await read_task(client, task["taskId"], READS[method]))
    return heard


async def read_task(client: httpx.AsyncClient, task_id: str, method: str) -> dict[str, Any]:
    """Return the stored task."""
    request = {"jsonrpc": "2.0", "id": 8, "method": method, "params": {"id": task_id}}
    task: dict[str, Any] = (await client.post("/", json=request)).json()["result"]
    return task


def check_history(task: dict[str, Any]) -> None:
    """Check that the history has each message once, and ends with the status message."""
    ids = [message["messageId"] for message in task.get("history", [])]
    assert len(set(ids)) == len(ids), f"a message twice: {ids}"
    if "message" in task["status"]:
        assert task["history"][-1] == task["status"]["message"]


def frames(answer: httpx.Response) -> list[dict[str, Any]]:
    """Return the frames of a streamed response; a response without a stream becomes a frame that matches no transcript."""
    kind = answer.headers["content-type"].partition(";")[0]
    if (answer.status_code, kind) != (200, "text/event-stream"):
        return [{"http": f"{answer.status_code} {kind}", "data": answer.json()}]
    return [frame(block) for block in blocks(answer.text)]


def lines(exchanges: list[Exchange]) -> list[str]:
    """Return the exchanges as text, one line for each JSON leaf, so that a diff shows each difference as a line."""
    found = []
    for exchange in exchanges:
        found.append(f"> {exchange.text}")
        for heard in exchange.frames:
            found += ["", *(f"{name}: {value}" for name, value in heard.items() if name != "data")]
            found += [f"  {path} = {json.dumps(leaf)}" for path, leaf in sorted(leaves(heard["data"]))]
    return found


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each leaf of a JSON value with its path; an empty object or array is a leaf."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from leaves(item, f"{path}[{index}]")
    else:
        # Convert whole floats to integers, because protobuf's Struct turns integers into floats.
        yield path, int(value) if isinstance(value, float) and value.is_integer() else value


@each_row("transcript", TRANSCRIPTS)
async def test_stream_matches_its_golden_transcript(transcript: Path) -> None:
    name, _, version = transcript.stem.partition(".")
    written = read(transcript)
    heard = await hear(getattr(graphs, name)(), [exchange.text for exchange in written], METHODS[version])
    if heard != written:
        difference = difflib.unified_diff(lines(written), lines(heard), "written", "heard", lineterm="", n=4)
        pytest.fail("\n".join(difference), pytrace=False)


def test_each_case_has_transcripts_in_both_protocol_versions() -> None:
    """Each case has one transcript for v1 and one for v0.3."""
    cases = {path.stem.partition(".")[0] for path in TRANSCRIPTS}
    assert cases
    assert {path.name for path in TRANSCRIPTS} == {f"{case}.{version}.sse" for case in cases for version in METHODS}
