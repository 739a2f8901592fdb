"""Answers of agents in the terminal: text, files, and file names; agents with a hostile card."""

import io
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import httpx
import pytest
from a2a.client import ClientConfig, ClientFactory
from a2a.client.errors import A2AClientError
from a2a.types import (
    AgentCard,
    Artifact,
    Message,
    Part,
    StreamResponse,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from a2a.utils.errors import UnsupportedOperationError
from click.testing import CliRunner, Result
from google.protobuf.json_format import ParseDict
from rich.console import Console
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from aion_core.agent_client.checked import CheckedClient
from aion_core.protocol.stream_artifacts import STREAM_DELTA_ID
from aion_tools.cli.chat.chat import chat, hints_of, parts_of, prompt_of
from aion_tools.cli.chat.content import Answer, data_part, file_part
from aion_tools.cli.chat.forms import fields_of
from aion_tools.cli.chat.output import PlainPrinter, described, markdown_of, saved_files
from aion_tools.cli.chat.send import document, send
from aion_tools.cli.chat.session import ChatSession, refusal_text
from aion_tools.cli.chat.tool_calls import ToolCalls
from aion_tools.terminal import cleaned_output
from tests.support.agents.scripted import AskingAgent, GatedAgent
from tests.support.downgraded import downgraded
from tests.support.listening import listening
from tests.support.rows import each_row
from tests.support.service import parts


def chunk(text: str, *, append: bool = True) -> StreamResponse:
    artifact = Artifact(artifact_id=STREAM_DELTA_ID, parts=[Part(text=text)])
    return StreamResponse(artifact_update=TaskArtifactUpdateEvent(artifact=artifact, append=append))


def status(state: TaskState, text: str = "") -> StreamResponse:
    message = Message(message_id=f"m-{text}", parts=[Part(text=text)]) if text else None
    return StreamResponse(status_update=TaskStatusUpdateEvent(status=TaskStatus(state=state, message=message)))


def answer_of(*events: StreamResponse) -> Answer:
    answer = Answer()
    for event in events:
        answer.add(event)
    return answer


def artifact(text: str, *, append: bool = False) -> StreamResponse:
    update = TaskArtifactUpdateEvent(artifact=Artifact(artifact_id="a", parts=[Part(text=text)]), append=append)
    return StreamResponse(artifact_update=update)


WORKING, COMPLETED = TaskState.TASK_STATE_WORKING, TaskState.TASK_STATE_COMPLETED
BOTH = Artifact(artifact_id="m-Sun.", parts=[Part(text="Sun.")], metadata={"aion:answers": "m-1"})


@each_row(
    ("events", "shown"),
    [
        ([chunk("one ", append=False), chunk("two")], "one two"),
        # The whole message replaces the chunks, and so does a text that the agent begins again.
        ([chunk("one ", append=False), chunk("two"), status(COMPLETED, "one two.")], "one two."),
        ([chunk("lost", append=False), chunk("one ", append=False), chunk("two")], "one two"),
        ([artifact("one "), artifact("two", append=True), status(COMPLETED)], "one two"),
        ([artifact("one"), status(COMPLETED, "Done.")], "one\n\nDone."),
        # A text is shown once, though an artifact and a message have it.
        ([chunk("one", append=False), artifact("one"), status(COMPLETED, "one")], "one"),
        ([chunk("one", append=False), artifact("one")], "one"),
    ],
)
def test_chat_shows_each_text_of_answer_once(events: list[StreamResponse], shown: str) -> None:
    answer = answer_of(*events)
    assert answer.shown == shown
    if events[-1].HasField("status_update"):
        assert (answer.state, answer.is_over) == ("completed", True)


@each_row(
    ("events", "printed"),
    [
        (
            [
                chunk("one ", append=False),
                chunk("two"),
                chunk("one ", append=False),
                chunk("three"),
                status(COMPLETED, "one three"),
            ],
            "one two\none three\n",
        ),
        # An executor reports progress in a message, then answers in an artifact.
        (
            [status(WORKING, "Reading."), artifact("one\n"), artifact("two\n", append=True), status(COMPLETED)],
            "Reading.\n\none\ntwo\n",
        ),
        # With `answer: both`, the artifact of the answer comes while an earlier message is shown.
        (
            [
                status(WORKING, "Let me look."),
                StreamResponse(artifact_update=TaskArtifactUpdateEvent(artifact=BOTH, last_chunk=True)),
                status(COMPLETED, "Sun."),
            ],
            "Let me look.\nSun.\n",
        ),
    ],
)
def test_chat_without_terminal_prints_each_text_once(
    events: list[StreamResponse], printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    answer, show = Answer(), PlainPrinter()
    for event in events:
        answer.add(event)
        show(answer)
    assert capsys.readouterr().out == printed


def test_chat_joins_chunks_of_file_in_artifact() -> None:
    """Receive a file in chunks, from a stream and in a task, and two files of one name in a message."""
    files = [Part(raw=content, filename="a.csv", media_type="text/csv") for content in (b"", b"one,", b"two")]
    events = [
        TaskArtifactUpdateEvent(artifact=Artifact(artifact_id="a", parts=[file]), append=place > 0)
        for place, file in enumerate(files)
    ]
    streamed = [StreamResponse(artifact_update=event) for event in events]
    task = StreamResponse(task=Task(id="t", artifacts=[Artifact(artifact_id="a", parts=files)]))
    for answer in answer_of(*streamed), answer_of(task), answer_of(*streamed, task):
        assert [part.raw for part in answer.parts] == [b"one,two"]
    separate = answer_of(StreamResponse(message=Message(message_id="m", parts=files)))
    assert len(separate.parts) == 3


@pytest.mark.parametrize(
    ("name", "saved"),
    [
        ("a.txt", "a.txt"),
        ("../../a.txt", "a.txt"),
        ("..", "file"),
        ("", "file"),
        ("c:\\x\\b.txt", "b.txt"),
        ("\x1b]0;\0a\u202e\n.txt", "_]0;_a__.txt"),
        ("ü" * 500 + ".txt", "ü" * 100 + ".txt"),
        ("a." + "x" * 500, "a." + "x" * 39),
    ],
)
def test_chat_saves_agents_file_only_within_folder(tmp_path: Path, name: str, saved: str) -> None:
    answer = Answer(contents={"1": [Part(raw=b"x", filename=name)]})
    folder = tmp_path / "saved"
    assert saved_files(answer, folder) == [folder / saved]
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]
    (second,) = saved_files(answer, folder)
    assert second.name == f"{Path(saved).stem}-1{Path(saved).suffix}"


def test_chat_saves_file_beside_link_to_nothing(tmp_path: Path) -> None:
    (folder := tmp_path / "out").mkdir()
    (folder / "a.txt").symlink_to("../elsewhere")
    (path,) = saved_files(answer_of(StreamResponse(message=Message(parts=[Part(raw=b"1", filename="a.txt")]))), folder)
    assert path.name == "a-1.txt"
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("header", "when"),
    [
        ("9", "in 9 s"),
        ("Wed, 21 Oct 2015 07:28:00 GMT", "in 0 s"),
        ("9\x1b]0;owned\x07", "later"),
        ("9" * 400, "later"),
        ("", "later"),
    ],
)
def test_retry_after_is_shown_as_seconds_only(header: str, when: str) -> None:
    response = httpx.Response(429, headers={"Retry-After": header}, request=httpx.Request("POST", "http://a.example"))
    refused = A2AClientError("refused")
    refused.__cause__ = httpx.HTTPStatusError("429", request=response.request, response=response)
    assert refusal_text(refused) == f"You have sent the agent too many requests (429). Try again {when}."


def test_file_name_and_text_may_be_no_unicode_text(tmp_path: Path) -> None:
    (file := tmp_path / os.fsdecode(b"caf\xe9.txt")).write_bytes(b"x")
    assert file_part(file).filename == "caf?.txt"
    assert parts_of(file.stem, []) == [Part(text="caf?")]
    (compressed := tmp_path / "a.csv.gz").write_bytes(b"\x1f\x8b")
    assert file_part(compressed).media_type == "application/octet-stream"


def test_text_artifact_with_file_name_is_saved(tmp_path: Path) -> None:
    """Receive the artifact that an ADK agent saves as a text."""
    note = Artifact(artifact_id="a", name="note.txt", parts=[Part(text="grün", filename="note.txt")])
    answer = answer_of(StreamResponse(artifact_update=TaskArtifactUpdateEvent(artifact=note)))
    assert [described(part) for part in answer.parts] == ["[note.txt, 5 bytes; /save FOLDER]"]
    assert [path.read_text("utf-8") for path in saved_files(answer, tmp_path)] == ["grün"]


def test_chat_prints_descriptions_of_file_and_data() -> None:
    assert described(Part(raw=b"123", filename="a.bin", media_type="x/y")) == "[a.bin, x/y, 3 bytes; /save FOLDER]"
    assert described(Part(url="https://e.com/a", media_type="x/y")) == "[file, x/y: https://e.com/a]"
    assert described(Part(raw=b"", filename="a.bin")) == "[a.bin, 0 bytes; /save FOLDER]"


def test_whole_numbers_in_data_are_printed_as_integers() -> None:
    part = ParseDict({"data": {"n": 3}}, Part())
    assert described(part) == '{\n  "n": 3\n}'
    assert document(Answer(contents={"a.0": [part]}))["parts"] == [{"data": {"n": 3}}]


def test_html_of_agent_is_not_interpreted() -> None:
    console = Console(width=60, file=io.StringIO(), force_terminal=True, color_system=None)
    console.print(markdown_of("<b onclick=x> **bold**"))
    assert isinstance(console.file, io.StringIO)
    assert "<b onclick=x>" in console.file.getvalue()


def question_of(listed: object, data: object = None) -> Answer:
    """Return the answer to which a question belongs, with these entries in its metadata."""
    parts = [{"text": "?"}, *([{"data": data}] if data is not None else [])]
    message = ParseDict({"parts": parts, "metadata": {"interrupts": listed}}, Message())
    status = TaskStatus(state=TaskState.TASK_STATE_INPUT_REQUIRED, message=message)
    return answer_of(StreamResponse(status_update=TaskStatusUpdateEvent(status=status)))


@pytest.mark.parametrize(
    ("listed", "choices"),
    [
        ({"choices": ["Monday", "Tuesday"]}, ["Monday", "Tuesday"]),
        ({"choices": ["a\x1b[2J", 1, {"label": "b"}]}, ["a\N{REPLACEMENT CHARACTER}[2J"]),
        ({"choices": "none"}, []),
        ({}, []),
    ],
)
def test_chat_offers_choices_of_question(listed: dict[str, object], choices: list[str]) -> None:
    assert prompt_of(question_of([{"id": "1", **listed}]), 0) == ("answer> ", choices)


SCHEMA = {"properties": {"note": {}, "seats": {}}, "required": ["seats"]}


def test_answer_to_question_with_object_schema_is_sent_as_data() -> None:
    (question,) = question_of([{"id": "1", "schema": SCHEMA}]).questions
    named = {"interruptId": "1"}
    sent = parts_of('{"seats": 2}', [], [question])
    assert sent == [ParseDict({"data": {"seats": 2}, "metadata": named}, Part())]
    assert parts_of("two", [], [question]) == [ParseDict({"text": "two", "metadata": named}, Part())]
    assert parts_of('{"seats": 2}', [], []) == [Part(text='{"seats": 2}')]


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ({}, ["seats", "note"]),
        ({"propertyOrdering": ["note", "seats"]}, ["note", "seats"]),
        ({"propertyOrdering": ["unknown", "note"]}, ["note", "seats"]),
        ({"propertyOrdering": "note"}, ["seats", "note"]),
    ],
)
def test_chat_asks_for_fields_in_order_of_author(order: dict[str, object], names: list[str]) -> None:
    (question,) = question_of([{"id": "1", "schema": {**SCHEMA, **order}}]).questions
    assert [field.path for field in fields_of(question)] == [(name,) for name in names]
    assert [field.is_required for field in fields_of(question)] == [name == "seats" for name in names]
    assert hints_of(question) == ["Answer each field, or all as one JSON object."]


def test_schema_of_question_is_not_printed() -> None:
    """The chat shows the fields instead: the JSON of a schema would push the question off the screen."""
    shown = [
        described(part, is_question=True)
        for data in ({"response_schema": SCHEMA}, {"schema": SCHEMA, "seats": 1}, {"schema": "a"})
        for part in question_of([{"id": "1"}], data).parts
    ]
    assert shown == ["", '{\n  "seats": 1\n}', '{\n  "schema": "a"\n}']


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{seats: 2}", "is not JSON"),
        ('{"seats": NaN}', "NaN is no JSON number"),
        ('{"seats": 1e999}', "has a number too large"),
        ('{"seats": 9007199254740993}', "has an integer above 2^53: send it as a string"),
        ('{"seats": "\udcff"}', "is not UTF-8"),
        ('{"seats": ' * 100_000, "has more than 5000 values"),
        ("[" * 50 + "]" * 50, "is nested more than 32 levels deep"),
    ],
)
def test_data_that_a2a_cannot_carry_is_refused(line: str, reason: str) -> None:
    with pytest.raises(click.ClickException, match=re.escape(reason)):
        data_part(line)


@pytest.mark.parametrize(
    "interrupts", [None, "x", [1], [{"schema": 1}], [{"id": "i", "schema": {"properties": []}}], [{}, {}]]
)
def test_malformed_schema_of_question_has_no_fields(interrupts: object) -> None:
    questions = question_of(interrupts).questions
    assert [field for question in questions for field in (*question.fields(), *question.required())] == []


def test_parts_of_question_are_separate_paragraphs() -> None:
    message = Message(parts=[Part(text="This is no number."), Part(text="How many?")])
    status = TaskStatus(state=TaskState.TASK_STATE_INPUT_REQUIRED, message=message)
    answer = answer_of(StreamResponse(status_update=TaskStatusUpdateEvent(status=status)))
    assert answer.shown == "This is no number.\n\nHow many?"
    status.state = TaskState.TASK_STATE_COMPLETED
    answer = answer_of(StreamResponse(status_update=TaskStatusUpdateEvent(status=status)))
    assert answer.shown == "This is no number.How many?"


class LossyTransport(httpx.ASGITransport):
    """Transport that loses the response of the first request."""

    requests = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests += 1
        response = await super().handle_async_request(request)
        if self.requests == 1:
            raise httpx.ReadError("The connection is broken.")
        return response


def session_of(client: httpx.AsyncClient, card: AgentCard, task_id: str = "") -> ChatSession:
    a2a = ClientFactory(ClientConfig(httpx_client=client)).create(card)
    return ChatSession(CheckedClient(a2a), card, ToolCalls(client, ""), task_id=task_id)


async def test_message_with_lost_response_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lose the connection before the task's id arrives: the agent runs once, and its answer arrives."""
    monkeypatch.setattr("aion_tools.cli.chat.session.RECONNECT_SECONDS", 0)
    agent = GatedAgent()
    agent.go.set()
    made = parts(agent)
    async with httpx.AsyncClient(transport=LossyTransport(made.app())) as client:
        session = session_of(client, made.card)
        answers = [answer async for answer in session.say([Part(text="hi")])]
    assert answers[-1].shown == "answer to hi"
    assert agent.asked == ["hi"]


async def test_answer_to_task_answered_elsewhere_ends_question() -> None:
    made = parts(AskingAgent())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(made.app())) as client:
        session = session_of(client, made.card)
        (*_, question) = [answer async for answer in session.say([Part(text="book")])]
        assert (question.question, session.task_id) == (True, question.task_id)
        other = session_of(client, made.card, task_id=question.task_id)
        (*_, answer) = [answer async for answer in other.say([Part(text="yes")])]
        assert (answer.shown, answer.context_id) == ("yes it is", session.context_id)
        with pytest.raises(UnsupportedOperationError, match="takes no more messages"):
            [answer async for answer in session.say([Part(text="no")])]
        (*_, question) = [answer async for answer in session.say([Part(text="and now?")])]
    assert question.question, "the next line begins a new task of the conversation"


# ── Hostile agents ────────────────────────────────────────────────────────────────────────────────────────────────────

HOSTILE = "\x1b]0;owned\x07\x9b2J\u202e"


def hostile_task(text: str) -> dict[str, Any]:
    # The answer's text is harmless, because a pipe gets it unchanged.
    parts = [{"text": "?"}, {"data": {"options": [text]}}, {"raw": "", "filename": text}]
    status = {"state": "TASK_STATE_INPUT_REQUIRED", "message": {"messageId": "m", "role": "ROLE_AGENT", "parts": parts}}
    return {"result": {"task": {"id": text, "contextId": text, "status": status}}}


def refused(text: str) -> dict[str, Any]:
    return {"error": {"code": -32602, "message": text}}


@contextmanager
def agent(
    answer: dict[str, Any], binding: str = "JSONRPC", elsewhere: str = ""
) -> Iterator[tuple[str, list[str | None]]]:
    """Serve an agent with one answer. Yield its URL and the Authorization headers of the messages that it gets."""
    credentials: list[str | None] = []

    async def card(request: Request) -> Response:
        url = elsewhere or f"http://127.0.0.1:{request.url.port}"
        interface = {"url": url, "protocolBinding": binding, "protocolVersion": "1.0"}
        texts = dict.fromkeys(("name", "description", "version"), HOSTILE)
        return JSONResponse({**texts, "supportedInterfaces": [interface]})

    async def message(request: Request) -> Response:
        credentials.append(request.headers.get("authorization"))
        return JSONResponse({"jsonrpc": "2.0", "id": (await request.json())["id"], **answer})

    with listening(Starlette(routes=[Route("/", message, methods=["POST"]), Route("/{path:path}", card)])) as url:
        yield url, credentials


@pytest.fixture(autouse=True)
def _without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TOKEN", "API_KEY", "BASIC"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("answer", [hostile_task, refused])
def test_hostile_agent_cannot_control_terminal(answer: Callable[[str], dict[str, Any]], tmp_path: Path) -> None:
    with agent(answer(HOSTILE)) as (url, _):
        chatted = filtered(chat, url, "--context", "c", text="hello\n")
        sent = filtered(send, "--url", url, "hello", "--save", str(tmp_path))
    assert "]0;owned" in chatted.output
    assert "]0;owned" in sent.output
    for output in (chatted.output, sent.output):
        assert not {"\x1b", "\x9b", "\u202e"} & set(output)


def filtered(command: click.Command, *arguments: str, text: str = "") -> Result:
    """Run the command with the output of `aion`."""

    @click.command()
    def run() -> None:
        with cleaned_output():
            command.main(arguments)

    return CliRunner().invoke(run, [], input=text)


def test_send_json_escapes_control_characters_as_json() -> None:
    with agent(hostile_task(HOSTILE)) as (url, _):
        sent = CliRunner().invoke(send, ["--url", url, "hello", "--json"])
    assert json.loads(sent.stdout)["task"] == HOSTILE


@pytest.mark.parametrize(
    "elsewhere", ["http://other.example/", "http://127.0.0.1.example/", "http://127.0.0.1:1/", "http://[::2]:1/"]
)
def test_credentials_are_sent_only_to_host_of_given_url(elsewhere: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "secret-token")
    with agent(hostile_task("?"), elsewhere=elsewhere) as (url, credentials):
        sent = CliRunner().invoke(send, ["--url", url, "hello"])
    assert sent.exit_code == 1
    assert (
        f"sends requests to {elsewhere}. Your credentials go only to the scheme, host and port of your URL"
        in sent.stderr
    )
    assert credentials == []


@pytest.mark.parametrize("what", downgraded("https://agent.example/"))
def test_message_is_not_sent_to_address_like_own(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The card names an address that looks like that of the given URL: neither it nor the credentials go there."""
    monkeypatch.setenv("TOKEN", "secret-token")
    url, seen = "https://agent.example/", list[tuple[str, str]]()
    interface = {"url": downgraded(url)[what], "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}

    async def answer(_: httpx.AsyncHTTPTransport, request: httpx.Request) -> httpx.Response:
        seen.append((request.method, request.url.host))
        return httpx.Response(200, json={"name": "a", "supportedInterfaces": [interface]})

    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", answer)
    sent = CliRunner().invoke(send, ["--url", url, "hello"])
    assert (sent.exit_code, type(sent.exception)) == (1, SystemExit), sent.output
    assert {*seen} == {("GET", "agent.example")}


@pytest.mark.parametrize(
    ("environ", "options", "header"),
    [
        # `localhost` is the host of the card's 127.0.0.1.
        ({"TOKEN": "secret-token"}, (), "Bearer secret-token"),
        (
            {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret"},
            ("--sign", "eu-west-1"),
            r"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/\d{8}/eu-west-1/execute-api/aws4_request, .*Signature=[0-9a-f]{64}",
        ),
    ],
    ids=["token", "signature"],
)
def test_send_authenticates_its_requests(
    environ: dict[str, str], options: tuple[str, ...], header: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with agent(hostile_task("?")) as (url, credentials):
        CliRunner().invoke(send, ["--url", url.replace("127.0.0.1", "localhost"), "hello", *options])
    assert re.fullmatch(header, str(credentials[0]))


def test_card_without_usable_interface_is_reported() -> None:
    with agent(hostile_task("?"), binding="GRPC") as (url, _):
        sent = CliRunner().invoke(send, ["--url", url, "hello"])
    assert (sent.exit_code, sent.stderr) == (1, f"Error: The card of {url} has no interface for JSON-RPC.\n")
