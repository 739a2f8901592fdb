"""What a client hears, frame by frame, against transcripts that were written by hand from the requirements.

A transcript is a file here: `plain_answer.v1.sse` is what SendStreamingMessage answers for the graph
`graphs.plain_answer()`, `plain_answer.v03.sse` what message/stream answers. It reads from top to bottom:

    # a comment: the rows that the next lines prove
    > Hello                         the client sends this text; a second one goes to the task of the first
    > (<interrupt-2>) Hello         it names the question that it answers, by metadata.interruptId
    id: 1                           a frame of the answer: its SSE id and its data, each on one line
    data: {"jsonrpc": "2.0", …}     compared as JSON, so the order of keys does not matter

What the server makes up is a token, the same one for the same value throughout a transcript, numbered as they first
appear: <task>, <context>, <message-1>, <artifact-1>, <interrupt-1>; a timestamp is <time> where it is ISO 8601 in UTC
and to the millisecond (R37). An id that begins with `my-` (a client's or an author's) or `aion:` stands as it is, and
so do the SSE ids: the event's number in the log, for a chunk `generation.fence.n`.

To add one: write the graph in `graphs.py`, write both transcripts from the rows (not from what the server prints),
number the rows in them, see them fail, then write the code; the commit that adds a transcript touches no source.
"""

import difflib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.golden import graphs
from tests.support.rows import rows_in
from tests.support.service import http, parts, send

pytestmark = pytest.mark.timeout(30)

HERE = Path(__file__).parent
METHODS = {"v1": "SendStreamingMessage", "v03": "message/stream"}
READS = {"SendStreamingMessage": "GetTask", "message/stream": "tasks/get"}
"""How the task is read again, in the dialect of each method."""
TRANSCRIPTS = sorted(HERE.glob("*.sse"))

KINDS = {
    "taskId": "task",
    "contextId": "context",
    "messageId": "message",
    "artifactId": "artifact",
    "interruptId": "interrupt",
}
"""What the id under a key is of; a task's own is under `id`."""
ONE = ("task", "context")
"""A transcript has one of these, so its token needs no number."""
ANSWER = re.compile(r"\((<interrupt-\d+>)\) ")
"""What a text begins with that answers one of several questions."""
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z")


@dataclass
class Exchange:
    """A message of the client's, and the frames that answered it."""

    text: str
    frames: list[dict[str, Any]] = field(default_factory=list)


class Tokens:
    """A stable token for each id that the server made up, and one for any well-formed timestamp."""

    def __init__(self) -> None:
        self._tokens: dict[tuple[str, str], str] = {}

    def put_into(self, value: Any) -> Any:
        """The JSON value with its tokens in place."""
        if isinstance(value, dict):
            is_task = "status" in value and "id" in value
            kinds = (
                {**KINDS, "id": "task"} if is_task else {**KINDS, "id": "interrupt"} if set(value) == {"id"} else KINDS
            )
            return {key: self._token(key, item, kinds) for key, item in value.items()}
        if isinstance(value, list):
            return [self.put_into(item) for item in value]
        return value

    def value_of(self, token: str) -> str:
        """The id that the token stands for; the token, where it stands for none."""
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
    """The exchanges as they are written."""
    exchanges: list[Exchange] = []
    for block in blocks(transcript.read_text(encoding="utf-8")):
        if block[0].startswith("> "):
            exchanges.append(Exchange(block.pop(0).removeprefix("> ")))
        if block:
            exchanges[-1].frames.append(frame(block))
    return exchanges


def blocks(text: str) -> Iterator[list[str]]:
    """The runs of lines that an empty line separates; comments, of ours or of SSE, are left out."""
    for block in text.replace("\r\n", "\n").split("\n\n"):
        if lines := [line for line in block.split("\n") if line and not line.startswith(("#", ":"))]:
            yield lines


def frame(lines: list[str]) -> dict[str, Any]:
    """The fields of a frame, its data as JSON."""
    fields: dict[str, Any] = {name: value for name, _, value in (line.partition(": ") for line in lines)}
    assert len(fields) == len(lines), f"a field twice: {lines}"
    return {**fields, "data": json.loads(fields["data"])}


async def hear(graph: graphs.Graph, texts: list[str], method: str) -> list[Exchange]:
    """What the server says to each text; every one after the first is sent to the first one's task.

    Whatever it has said, the task that it then gives holds no message twice (section 3, task record).
    """
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
            ids = await message_ids(client, task["taskId"], READS[method])
            assert len(set(ids)) == len(ids), f"a message twice: {ids}"
    return heard


async def message_ids(client: httpx.AsyncClient, task_id: str, method: str) -> list[str]:
    """The ids of the task's messages, that of its status among them."""
    request = {"jsonrpc": "2.0", "id": 8, "method": method, "params": {"id": task_id}}
    task = (await client.post("/", json=request)).json()["result"]
    messages = [*task.get("history", []), task["status"].get("message")]
    return [message["messageId"] for message in messages if message]


def frames(answer: httpx.Response) -> list[dict[str, Any]]:
    """The frames of an answer; one that is no stream (R25) becomes a frame that no transcript has."""
    kind = answer.headers["content-type"].partition(";")[0]
    if (answer.status_code, kind) != (200, "text/event-stream"):
        return [{"http": f"{answer.status_code} {kind}", "data": answer.json()}]
    return [frame(block) for block in blocks(answer.text)]


def lines(exchanges: list[Exchange]) -> list[str]:
    """The exchanges with one line for each leaf of the JSON, so that a difference is one line."""
    found = []
    for exchange in exchanges:
        found.append(f"> {exchange.text}")
        for heard in exchange.frames:
            found += ["", *(f"{name}: {value}" for name, value in heard.items() if name != "data")]
            found += [f"  {path} = {json.dumps(leaf)}" for path, leaf in sorted(leaves(heard["data"]))]
    return found


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf with its path; an empty object or array is a leaf."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from leaves(item, f"{path}[{index}]")
    else:
        # protobuf knows no integers within metadata and data.
        yield path, int(value) if isinstance(value, float) and value.is_integer() else value


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda path: path.stem)
async def test_stream_matches_its_transcript(transcript: Path, record_property: Callable[[str, object], None]) -> None:
    """Each transcript names the rows that it proves."""
    record_property("rows", " ".join(rows_in(transcript.read_text(encoding="utf-8"))))
    name, _, version = transcript.stem.partition(".")
    written = read(transcript)
    heard = await hear(getattr(graphs, name)(), [exchange.text for exchange in written], METHODS[version])
    if heard != written:
        difference = difflib.unified_diff(lines(written), lines(heard), "written", "heard", lineterm="", n=4)
        pytest.fail("\n".join(difference), pytrace=False)


def test_each_case_is_written_in_both_versions() -> None:
    """D1: the same turn is told in either dialect."""
    cases = {path.stem.partition(".")[0] for path in TRANSCRIPTS}
    assert cases
    assert {path.name for path in TRANSCRIPTS} == {f"{case}.{version}.sse" for case in cases for version in METHODS}


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript_is_a_valid_stream(transcript: Path) -> None:
    """R28, R32, R35, R103, D10, D11, of what is written: a slip of the pen is not to become the promise."""
    for exchange in read(transcript):
        results = [frame["data"]["result"] for frame in exchange.frames]
        kinds = [result.get("kind") or next(iter(result)) for result in results]
        if transcript.stem.endswith(".v1"):
            assert all(len(result) == 1 for result in results)
            assert set(kinds) <= {"task", "statusUpdate", "artifactUpdate"}
        else:
            assert set(kinds) <= {"task", "status-update", "artifact-update"}
            finals = [result["final"] for result in results if result["kind"] == "status-update"]
            assert finals == [False] * (len(finals) - 1) + [True]
        assert kinds[0] == "task"
        assert kinds[-1] in {"statusUpdate", "status-update"}
        is_open = False
        for result in results:
            update = result.get("artifactUpdate", result)
            if update.get("artifact", {}).get("artifactId") == "aion:stream-delta":
                assert update.get("append", False) is is_open
                is_open = not update.get("lastChunk", False)
        assert not is_open
