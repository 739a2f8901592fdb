"""Protocol table: a request for each operation in v1.0's form, and the response expected in each version and binding.

`<done>`, `<told>`, `<working>`, `<asking>` and `<canceled>` are placeholders for the ids of tasks in these states; `<c-done>` is the
context of a task.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aion_core.protocol.card import AgentDescription, build_card
from aion_core.protocol.media_types import Modes
from tests.runtime.protocol.answers import (
    CONTENT_TYPE,
    METHOD,
    NO_EXTENDED_CARD,
    NO_PUSH,
    NOT_CANCELABLE,
    NOT_FOUND,
    PARAMS,
    UNSUPPORTED,
    Error,
)

RPC, OLD_RPC, REST, OLD_REST = "JSON-RPC 1.0", "JSON-RPC 0.3", "HTTP+JSON 1.0", "HTTP+JSON 0.3"
OLDER = (OLD_RPC, OLD_REST)

SEND, STREAM = "SendMessage", "SendStreamingMessage"
LONG = "x" * 513
FREE_IDS = (
    "_V1StGXR8",
    "-V1StGXR8",
    "slack|C1|17",
    "<a@b.example>",
    "{1}, #2 / three",
    "Grüße \N{WAVING HAND SIGN}",
    "é" * 256,
)
"""Context ids in the form of other systems (nanoid, Slack, e-mail), and the longest id."""
DEEP: dict[str, Any] = {}
for _ in range(40):
    DEEP = {"in": DEEP}


@dataclass(frozen=True)
class ProtocolRow:
    """Request of an operation, and its expected response: a summary (see `answers.gist`) or an error."""

    operation: str
    what: str
    params: Any
    gives: str | Error
    but: Mapping[str, str | Error] = field(default_factory=dict)
    """Expected response in other dialects."""
    not_in: tuple[str, ...] = ()
    """Dialects without this request, or with another meaning of it."""
    where: Mapping[str, Any] = field(default_factory=dict)
    """Options of the served agent."""

    @property
    def name(self) -> str:
        """Name of the row in a test report."""
        return f"{self.operation}: {self.what}"


def message(*, without: str = "", **given: Any) -> dict[str, Any]:
    """Return the params of a message; `given` replaces fields of the message, and `without` removes one."""
    whole = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}], **given}
    whole.pop(without, None)
    return {"message": whole}


def configured(**configuration: Any) -> dict[str, Any]:
    return {**message(), "configuration": configuration}


def in_parts(*parts: Any) -> dict[str, Any]:
    return message(parts=list(parts))


MESSAGES: list[tuple[str, Any, str | Error]] = [
    ("a text", message(), "completed"),
    ("several parts", in_parts({"text": "hi"}, {"text": "there", "metadata": {"n": 1}}), "completed"),
    ("in a context", message(contextId="c-of-my-own"), "completed"),
    *((f"by free ids: {free!r}"[:40], message(messageId=free, contextId=free), "completed") for free in FREE_IDS),
    ("one that asks", in_parts({"text": "ask"}), "input-required"),
    ("an answer", message(taskId="<asking>"), "completed"),
    ("an answer that names the context too", message(taskId="<asking>", contextId="<c-asking>"), "completed"),
    ("a known message", message(messageId="m-done", contextId="<c-done>", parts=[{"text": "hello"}]), "completed"),
    ("no history", configured(historyLength=0), "completed"),
    ("with metadata", {**message(metadata={"a": [1, None, {"b": "c"}]}), "metadata": {"d": 1.5}}, "completed"),
    ("other content by a known id", message(messageId="m-done", contextId="<c-done>"), PARAMS),
    ("to an ended task", message(taskId="<done>"), UNSUPPORTED),
    ("to a canceled task", message(taskId="<canceled>"), UNSUPPORTED),
    ("an answer without a question", message(metadata={"interruptId": "i-1"}), UNSUPPORTED),
    ("to an unknown task", message(taskId="nope"), NOT_FOUND),
    ("to a task of another context", message(taskId="<asking>", contextId="<c-done>"), PARAMS),
    ("no params", None, PARAMS),
    ("no message", {}, PARAMS),
    ("message: null", {"message": None}, PARAMS),
    ("message: a list", {"message": []}, PARAMS),
    ("message: a text", {"message": "hi"}, PARAMS),
    ("messageId: missing", message(without="messageId"), PARAMS),
    ("messageId: empty", message(messageId=""), PARAMS),
    ("messageId: a number", message(messageId=7), PARAMS),
    ("messageId: too long", message(messageId=LONG), PARAMS),
    ("messageId: with NUL", message(messageId="a\0"), PARAMS),
    ("contextId: with NUL", message(contextId="a\0b"), PARAMS),
    ("contextId: too long", message(contextId=LONG), PARAMS),
    ("contextId: an object", message(contextId={}), PARAMS),
    ("taskId: no task's", message(taskId="../x"), NOT_FOUND),
    ("taskId: too long", message(taskId=LONG), PARAMS),
    ("taskId: a list", message(taskId=["t"]), PARAMS),
    ("referenceTaskIds: no id", message(referenceTaskIds=["a\0"]), PARAMS),
    ("referenceTaskIds: a text", message(referenceTaskIds="t"), PARAMS),
    ("role: missing", message(without="role"), PARAMS),
    ("role: the agent's", message(role="ROLE_AGENT"), PARAMS),
    ("role: unknown", message(role="ROLE_NOBODY"), PARAMS),
    ("role: a list", message(role=[]), PARAMS),
    ("parts: missing", message(without="parts"), PARAMS),
    ("parts: none", message(parts=[]), PARAMS),
    ("parts: a text", message(parts="hi"), PARAMS),
    ("parts: an object", message(parts={"text": "hi"}), PARAMS),
    ("parts: too many", in_parts(*[{"text": "x"}] * 257), PARAMS),
    ("a part: empty", in_parts({"text": "hi"}, {}), PARAMS),
    ("a part: null", in_parts(None), PARAMS),
    ("a part: a text", in_parts("hi"), PARAMS),
    ("a part: only metadata", in_parts({"metadata": {"a": 1}}), PARAMS),
    ("text: a number", in_parts({"text": 7}), PARAMS),
    ("text: too long", in_parts({"text": "x" * (1024 * 1024 + 1)}), PARAMS),
    ("raw: no base64", in_parts({"raw": "a*b="}), PARAMS),
    ("raw: half of base64", in_parts({"raw": "A"}), PARAMS),
    ("raw: a number", in_parts({"raw": 7}), PARAMS),
    ("url: empty", in_parts({"url": ""}), PARAMS),
    ("metadata: a list", message(metadata=[]), PARAMS),
    ("metadata: too large", message(metadata={"large": "x" * 70_000}), PARAMS),
    ("metadata: too deep", message(metadata=DEEP), PARAMS),
    ("the request's metadata: a text", {**message(), "metadata": "x"}, PARAMS),
    ("configuration: a list", {**message(), "configuration": []}, PARAMS),
    ("historyLength: below 0", configured(historyLength=-1), PARAMS),
    ("historyLength: a word", configured(historyLength="x"), PARAMS),
    ("historyLength: too large", configured(historyLength=10**12), PARAMS),
    ("historyLength: a fraction", configured(historyLength=1.5), PARAMS),
    ("returnImmediately: a word", configured(returnImmediately="maybe"), PARAMS),
    ("acceptedOutputModes: a text", configured(acceptedOutputModes="text/plain"), PARAMS),
    ("a push config", configured(taskPushNotificationConfig={"url": "https://hooks.example.org/"}), "completed"),
    ("a push config: of loopback", configured(taskPushNotificationConfig={"url": "https://127.0.0.1/"}), PARAMS),
    ("a push config: a text", configured(taskPushNotificationConfig="https://hooks.example.org/"), PARAMS),
]

_FILE = in_parts({"text": "look"}, {"raw": "AAEC", "filename": "a.png", "mediaType": "image/png"})
_DATA = in_parts({"text": "look"}, {"data": {"a": [1]}})
TEXT_ONLY = {"input_modes": ["text/plain"], "output_modes": ["text/plain"]}
MEDIA_TYPES: list[tuple[str, Any, str | Error]] = [
    ("text, where it takes text", message(), "completed"),
    ("text of another kind", in_parts({"text": "a,b", "mediaType": "text/csv"}), CONTENT_TYPE),
    ("a file, where it takes text", _FILE, CONTENT_TYPE),
    ("data, where it takes text", _DATA, CONTENT_TYPE),
    ("an answer in text", configured(acceptedOutputModes=["image/png", "text/plain"]), "completed"),
    ("an answer in some text", configured(acceptedOutputModes=["text/*"]), "completed"),
    ("an answer in anything", configured(acceptedOutputModes=[]), "completed"),
    ("an answer as an image", configured(acceptedOutputModes=["image/png"]), CONTENT_TYPE),
    ("an answer in what is no media type", configured(acceptedOutputModes=["no type"]), CONTENT_TYPE),
]

UNKNOWN_TO = {"referenceTaskIds": (OLD_REST,)}
"""Fields that a dialect does not know, and ignores."""

SENDS = [
    ProtocolRow(
        SEND,
        what,
        params,
        f"task:{gives}" if isinstance(gives, str) else gives,
        not_in=UNKNOWN_TO.get(what.partition(":")[0], ()),
    )
    for what, params, gives in MESSAGES
]
_HEARD = configured(taskPushNotificationConfig={"url": "https://hooks.example.org/"})
IGNORED_FIELDS = [
    ProtocolRow(operation, "a push config, where they are not offered", _HEARD, NO_PUSH, where={"push": False})
    for operation in (SEND, STREAM)
]
_STREAMS = {
    "completed": "task:submitted status:working status:completed",
    "input-required": "task:submitted status:working status:input-required",
}
NEGOTIATED = [
    ProtocolRow(
        operation,
        f"media types: {what}",
        params,
        gives if isinstance(gives, Error) else "task:completed" if operation == SEND else _STREAMS[gives],
        where={"described": TEXT_ONLY},
        # Leave out v0.3, because its text parts cannot declare a media type.
        not_in=OLDER if "another kind" in what else (),
    )
    for operation in (SEND, STREAM)
    for what, params, gives in MEDIA_TYPES
]
_ANSWERED = "task:working status:completed"
STREAMS = [
    ProtocolRow(
        STREAM,
        what,
        params,
        gives if isinstance(gives, Error) else _ANSWERED if what.startswith("an answer") else _STREAMS[gives],
        not_in=UNKNOWN_TO.get(what.partition(":")[0], ()),
    )
    for what, params, gives in MESSAGES
]

# In v0.3 only a positive historyLength limits the history (TaskQueryParams.historyLength).
QUESTION_ENDS = dict.fromkeys(OLDER, "task:input-required")
NO_LIMIT = dict.fromkeys(OLDER, "task:completed, said: 2")
OFFERED = {"extended": True}
EXTENDED = build_card(
    AgentDescription("More", "What only some may know.", "2"),
    "http://test/",
    modes=Modes(("text/plain",), ("text/plain",)),
)
CREATE, GET, LIST, DELETE = (
    "CreateTaskPushNotificationConfig",
    "GetTaskPushNotificationConfig",
    "ListTaskPushNotificationConfigs",
    "DeleteTaskPushNotificationConfig",
)
CONFIG = {"taskId": "<done>", "id": "p"}
HOOK = "https://hooks.example.org/a"
# A task with two push configs, `p` and `q`.
TOLD = {"taskId": "<told>", "id": "p"}
CONFIGS: list[tuple[str, dict[str, Any], str | Error]] = [
    ("a new one", {"id": "r", "url": HOOK}, f"config r of {HOOK}"),
    ("whole", {"id": "r", "url": HOOK, "token": "t", "authentication": {"scheme": "Bearer", "credentials": "c"}}, f"config r of {HOOK}"),
    ("a scheme without credentials", {"id": "r", "url": HOOK, "authentication": {"scheme": "Bearer"}}, f"config r of {HOOK}"),
    ("an API key in a header", {"id": "r", "url": HOOK, "authentication": {"scheme": "ApiKey", "credentials": "X-Key: k"}}, f"config r of {HOOK}"),
    ("in the place of another", {"id": "p", "url": HOOK}, f"config p of {HOOK}"),
    ("id: with NUL", {"id": "a\0b", "url": HOOK}, PARAMS),
    ("id: too long", {"id": LONG, "url": HOOK}, PARAMS),
    ("url: empty", {"id": "r", "url": ""}, PARAMS),
    ("url: http", {"id": "r", "url": "http://hooks.example.org/"}, PARAMS),
    ("url: loopback", {"id": "r", "url": "https://127.0.0.1/"}, PARAMS),
    ("url: metadata", {"id": "r", "url": "https://169.254.169.254/latest/meta-data/"}, PARAMS),
    ("url: of this service", {"id": "r", "url": "https://agents.example.com/"}, PARAMS),
    ("url: with a user", {"id": "r", "url": "https://a:b@hooks.example.org/"}, PARAMS),
    ("url: with a newline", {"id": "r", "url": "https://hooks.example.org/\r\nX: y"}, PARAMS),
    ("url: too long", {"id": "r", "url": f"{HOOK}?{'x' * 9000}"}, PARAMS),
    ("url: a number", {"id": "r", "url": 7}, PARAMS),
    ("token: two lines", {"id": "r", "url": HOOK, "token": "a\r\nb: c"}, PARAMS),
    ("token: with NUL", {"id": "r", "url": HOOK, "token": "a\0"}, PARAMS),
    ("token: no ASCII", {"id": "r", "url": HOOK, "token": "\u00e9"}, PARAMS),
    ("token: too long", {"id": "r", "url": HOOK, "token": "x" * 4097}, PARAMS),
    ("token: a key that is none", {"id": "r", "url": HOOK, "token": "whsec_short"}, PARAMS),
    ("scheme: two lines", {"id": "r", "url": HOOK, "authentication": {"scheme": "Bearer\r\nX: y", "credentials": "c"}}, PARAMS),
    ("scheme: two words", {"id": "r", "url": HOOK, "authentication": {"scheme": "Bearer x", "credentials": "c"}}, PARAMS),
    ("credentials: two lines", {"id": "r", "url": HOOK, "authentication": {"scheme": "Bearer", "credentials": "c\nX: y"}}, PARAMS),
    ("credentials: of a header that is not the client's", {"id": "r", "url": HOOK, "authentication": {"scheme": "ApiKey", "credentials": "Host: evil"}}, PARAMS),
    ("authentication: a text", {"id": "r", "url": HOOK, "authentication": "Bearer"}, PARAMS),
]  # fmt: skip
INVALID_PAGES: dict[str, list[Any]] = {"pageSize": [-1, 101, "x", 10**12], "pageToken": ["x", "////", "A" * 90]}

PUSH = [
    ProtocolRow(CREATE, "not offered", {**CONFIG, "url": "https://example.com/"}, NO_PUSH, where={"push": False}),
    ProtocolRow(GET, "not offered", CONFIG, NO_PUSH, where={"push": False}),
    ProtocolRow(LIST, "not offered", {"taskId": "<done>"}, NO_PUSH, where={"push": False}),
    ProtocolRow(DELETE, "not offered", CONFIG, NO_PUSH, where={"push": False}),
    *(ProtocolRow(CREATE, what, {"taskId": "<told>", **config}, gives) for what, config, gives in CONFIGS),
    ProtocolRow(
        CREATE, "of a task that has ended", {"taskId": "<done>", "id": "r", "url": HOOK}, f"config r of {HOOK}"
    ),
    ProtocolRow(CREATE, "of an unknown task", {"taskId": "nope", "id": "r", "url": HOOK}, NOT_FOUND),
    ProtocolRow(CREATE, "taskId: not of the alphabet", {"taskId": "a b", "id": "r", "url": HOOK}, NOT_FOUND),
    ProtocolRow(CREATE, "taskId: missing", {"id": "r", "url": HOOK}, PARAMS),
    ProtocolRow(GET, "one of two", TOLD, f"config p of {HOOK}"),
    ProtocolRow(GET, "unknown", {"taskId": "<told>", "id": "nope"}, NOT_FOUND),
    ProtocolRow(GET, "of another task", {"taskId": "<done>", "id": "p"}, NOT_FOUND),
    ProtocolRow(GET, "of an unknown task", {"taskId": "nope", "id": "p"}, NOT_FOUND),
    # If a request of JSON-RPC 0.3 names no config, the server returns one config of the task.
    ProtocolRow(GET, "id: missing", {"taskId": "<told>"}, PARAMS, {OLD_RPC: f"config p of {HOOK}"}),
    ProtocolRow(GET, "id: missing, where there is none", {"taskId": "<done>"}, PARAMS, {OLD_RPC: NOT_FOUND}),
    ProtocolRow(GET, "id: a list", {"taskId": "<told>", "id": ["p"]}, PARAMS),
    ProtocolRow(LIST, "all", {"taskId": "<told>"}, "2 configs"),
    ProtocolRow(LIST, "of none", {"taskId": "<done>"}, "0 configs"),
    # JSON-RPC 0.3 returns all configs, because its list has no pages.
    ProtocolRow(LIST, "one a page", {"taskId": "<told>", "pageSize": 1}, "1 configs and more", {OLD_RPC: "2 configs"}),
    ProtocolRow(LIST, "two a page", {"taskId": "<told>", "pageSize": 2}, "2 configs"),
    ProtocolRow(LIST, "of an unknown task", {"taskId": "nope"}, NOT_FOUND),
    ProtocolRow(LIST, "taskId: missing", {}, PARAMS),
    *(
        ProtocolRow(LIST, f"{name}: {value}"[:60], {"taskId": "<told>", name: value}, PARAMS, not_in=(OLD_RPC,))
        for name, values in INVALID_PAGES.items()
        for value in values
    ),
    ProtocolRow(DELETE, "one of two", TOLD, "nothing"),
    ProtocolRow(DELETE, "one that is not there", {"taskId": "<told>", "id": "nope"}, "nothing"),
    ProtocolRow(DELETE, "of an unknown task", {"taskId": "nope", "id": "p"}, NOT_FOUND),
    ProtocolRow(DELETE, "id: missing", {"taskId": "<told>"}, PARAMS),
]
EMPTY_FILTERS = ("pageSize", "pageToken", "status", "statusTimestampAfter", "historyLength")
INVALID_FILTERS: dict[str, list[Any]] = {
    "pageSize": [0, -1, 101, "x", 1.5, 10**12],
    "pageToken": ["x", "////", "AAAA", LONG],
    "status": ["TASK_STATE_NONE", "completed", 99],
    "statusTimestampAfter": ["yesterday", "2020-13-01T00:00:00Z", 7],
    "historyLength": [-1, "x", 10**12],
    "contextId": ["a\0b", LONG],
    "includeArtifacts": ["maybe"],
}

ROWS: list[ProtocolRow] = [
    *SENDS,
    ProtocolRow(
        SEND,
        "without waiting",
        {**in_parts({"text": "work"}), "configuration": {"returnImmediately": True}},
        "task:working",
    ),
    ProtocolRow(SEND, "raw and url: both", in_parts({"raw": "AAEC", "url": "https://example.com"}), PARAMS),
    ProtocolRow(SEND, "text and data: both", in_parts({"text": "hi", "data": {"a": 1}}), PARAMS, not_in=OLDER),
    *STREAMS,
    *NEGOTIATED,
    *IGNORED_FIELDS,
    ProtocolRow(STREAM, "where the card offers no streams", message(), UNSUPPORTED, where={"streaming": False}),
    ProtocolRow("GetTask", "one that ended", {"id": "<done>"}, "task:completed, said: 2"),
    ProtocolRow(
        "GetTask", "without its history", {"id": "<done>", "historyLength": 0}, "task:completed, said: 0", NO_LIMIT
    ),
    ProtocolRow("GetTask", "one that works", {"id": "<working>"}, "task:working, said: 1"),
    ProtocolRow("GetTask", "one that asks", {"id": "<asking>", "historyLength": 1}, "task:input-required, said: 1"),
    ProtocolRow("GetTask", "unknown", {"id": "nope"}, NOT_FOUND),
    ProtocolRow("GetTask", "id: not of the alphabet", {"id": "a b\n"}, NOT_FOUND),
    # In HTTP+JSON, an id with slashes leads to another route.
    ProtocolRow("GetTask", "id: with slashes", {"id": "../done"}, NOT_FOUND, {REST: METHOD}, not_in=(OLD_REST,)),
    ProtocolRow("GetTask", "id: missing", {}, PARAMS),
    ProtocolRow("GetTask", "id: empty", {"id": ""}, PARAMS),
    ProtocolRow("GetTask", "id: a list", {"id": ["a"]}, PARAMS),
    ProtocolRow("GetTask", "no params", None, PARAMS),
    ProtocolRow("GetTask", "historyLength: below 0", {"id": "<done>", "historyLength": -1}, PARAMS),
    ProtocolRow("GetTask", "historyLength: a word", {"id": "<done>", "historyLength": "x"}, PARAMS),
    ProtocolRow("GetTask", "historyLength: too large", {"id": "<done>", "historyLength": 10**12}, PARAMS),
    ProtocolRow("GetTask", "historyLength: a fraction", {"id": "<done>", "historyLength": 1.5}, PARAMS),
    ProtocolRow("ListTasks", "all", {}, "0 of 0"),
    ProtocolRow("ListTasks", "a context's", {"contextId": "<c-done>"}, "1 of 1"),
    ProtocolRow("ListTasks", "by status", {"status": "TASK_STATE_COMPLETED", "contextId": "<c-done>"}, "1 of 1"),
    ProtocolRow("ListTasks", "by another status", {"status": "TASK_STATE_FAILED", "contextId": "<c-done>"}, "0 of 0"),
    ProtocolRow("ListTasks", "by nothing", {"contextId": "<c-done>", **dict.fromkeys(EMPTY_FILTERS, "")}, "1 of 1"),
    ProtocolRow("ListTasks", "with artifacts", {"contextId": "<c-done>", "includeArtifacts": True}, "1 of 1"),
    ProtocolRow("ListTasks", "one a page", {"contextId": "<c-done>", "pageSize": 1, "historyLength": 0}, "1 of 1"),
    ProtocolRow(
        "ListTasks", "since", {"contextId": "<c-done>", "statusTimestampAfter": "2020-01-01T00:00:00Z"}, "1 of 1"
    ),
    ProtocolRow("ListTasks", "a context of nobody's", {"contextId": "nope"}, "0 of 0"),
    *(
        ProtocolRow("ListTasks", f"{name}: {value}"[:60], {name: value}, PARAMS)
        for name, values in INVALID_FILTERS.items()
        for value in values
    ),
    ProtocolRow("CancelTask", "one that works", {"id": "<working>"}, "task:canceled"),
    ProtocolRow("CancelTask", "one that asks", {"id": "<asking>", "metadata": {"why": "x"}}, "task:canceled"),
    ProtocolRow("CancelTask", "one that ended", {"id": "<done>"}, NOT_CANCELABLE),
    ProtocolRow("CancelTask", "one that is canceled", {"id": "<canceled>"}, NOT_CANCELABLE),
    ProtocolRow("CancelTask", "unknown", {"id": "nope"}, NOT_FOUND),
    ProtocolRow("CancelTask", "id: not of the alphabet", {"id": "a b"}, NOT_FOUND),
    ProtocolRow("CancelTask", "id: missing", {}, PARAMS),
    ProtocolRow("CancelTask", "id: a number", {"id": 7}, PARAMS),
    ProtocolRow("CancelTask", "metadata: a list", {"id": "<done>", "metadata": []}, PARAMS, not_in=(OLD_REST,)),
    ProtocolRow("SubscribeToTask", "one that works", {"id": "<working>"}, "task:working artifact status:completed"),
    ProtocolRow(
        "SubscribeToTask", "one that asks", {"id": "<asking>"}, "task:input-required status:canceled", QUESTION_ENDS
    ),
    ProtocolRow("SubscribeToTask", "one that ended", {"id": "<done>"}, UNSUPPORTED),
    ProtocolRow("SubscribeToTask", "one that is canceled", {"id": "<canceled>"}, UNSUPPORTED),
    ProtocolRow("SubscribeToTask", "unknown", {"id": "nope"}, NOT_FOUND),
    ProtocolRow("SubscribeToTask", "id: missing", {}, PARAMS),
    ProtocolRow("SubscribeToTask", "id: an object", {"id": {}}, PARAMS),
    ProtocolRow(
        "SubscribeToTask",
        "where the card offers no streams",
        {"id": "<working>"},
        UNSUPPORTED,
        where={"streaming": False},
    ),
    *PUSH,
    ProtocolRow(
        "GetExtendedAgentCard", "offered", {}, "card of More", where={"described": OFFERED, "extended_card": EXTENDED}
    ),
    ProtocolRow("GetExtendedAgentCard", "offered, and not there", {}, NO_EXTENDED_CARD, where={"described": OFFERED}),
    ProtocolRow("GetExtendedAgentCard", "not offered", {}, UNSUPPORTED),
    ProtocolRow("GetContext", "a context", {"contextId": "<c-done>"}, "context, said: 2"),
    ProtocolRow(
        "GetContext", "the last that was said", {"contextId": "<c-done>", "historyLength": 1}, "context, said: 1"
    ),
    ProtocolRow("GetContext", "unknown", {"contextId": "nope"}, NOT_FOUND),
    ProtocolRow("GetContext", "contextId: missing", {}, PARAMS),
    ProtocolRow("GetContext", "contextId: no id", {"contextId": "a\0"}, PARAMS),
    ProtocolRow("GetContext", "contextId: a list", {"contextId": []}, PARAMS),
    ProtocolRow("GetContext", "historyLength: below 0", {"contextId": "<c-done>", "historyLength": -1}, PARAMS),
    ProtocolRow("GetContext", "historyOffset: a word", {"contextId": "<c-done>", "historyOffset": "x"}, PARAMS),
    ProtocolRow("GetContexts", "where there are none", {}, "0 contexts"),
    ProtocolRow("GetContexts", "no params", None, "0 contexts"),
    ProtocolRow("GetContexts", "historyLength: below 0", {"historyLength": -1}, PARAMS),
    ProtocolRow("GetContexts", "historyLength: too large", {"historyLength": 101}, PARAMS),
]
