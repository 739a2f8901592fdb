"""Random variations of valid requests, each with the error code or result that the server must return."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.runtime.protocol.answers import CONTENT_TYPE, METHOD, NOT_FOUND, PARAMS, PARSE, REQUEST, Error
from tests.runtime.protocol.dialects import Dialect, Json, Sent, body_of
from tests.runtime.protocol.rendering import Pairs, Path, Raw, changed, leaves, objects, rendered

SENDS = ("SendMessage", "SendStreamingMessage")
ALPHABET = "ABCXYZabcxyz0123456789_.:@/+=~-"


@dataclass(frozen=True)
class Variation:
    """Request and its expected error code; without a code it must have the same result as the `plain` request."""

    kind: str
    sent: Sent
    gives: Error | None
    plain: Sent | None = None
    operation: str = "SendMessage"

    def __repr__(self) -> str:
        shown = repr(self.sent.body[:1500])
        return f"{self.kind}: {self.sent.method} {self.sent.target} {dict(self.sent.headers)} {shown} → {self.gives}"


Maker = Callable[[DrawFn, Dialect], Variation]


def good(draw: DrawFn, operation: str = "SendMessage", **message: Json) -> Json:
    """Draw valid params of an operation, in v1.0's form."""
    if operation in SENDS:
        whole = {
            "messageId": "m-1",
            "contextId": draw(fresh_contexts),
            "role": "ROLE_USER",
            "parts": [{"text": "hi", "metadata": {"n": 1}}, {"data": {"a": [1, "b", None]}}],
            "metadata": {"k": {"x": True}},
            **message,
        }
        return {"message": whole, "configuration": {"historyLength": 5, "acceptedOutputModes": ["text/plain"]}}
    return {"id": "nope"} if operation != "ListTasks" else {"contextId": "nope", "pageSize": 5}


_contexts = iter(range(10**12))
# Use ids of a fixed length, so that the size of a request does not depend on the number of earlier draws.
fresh_contexts = st.builds(lambda: f"c-{next(_contexts):012}")


def operations(dialect: Dialect) -> st.SearchStrategy[str]:
    """Draw an operation whose params are in the request's body."""
    others = () if dialect.is_rest else ("GetTask", "CancelTask", "SubscribeToTask")
    return st.sampled_from((*SENDS, *others))


def bodied(draw: DrawFn, dialect: Dialect) -> tuple[str, Sent, Json]:
    """Draw a valid request with a body; return its operation, the request and the body."""
    operation = draw(operations(dialect))
    sent = dialect.request(operation, good(draw, operation))
    assert sent is not None
    return operation, sent, body_of(sent)


def chance(draw: DrawFn) -> random.Random:
    return random.Random(draw(st.integers(0, 2**32)))


def with_body(sent: Sent, body: bytes, **headers: str) -> Sent:
    return Sent(sent.method, sent.target, body, {**sent.headers, **headers})


# -- Unreadable bodies ---------------------------------------------------------------------------------------------


def cut_off(draw: DrawFn, dialect: Dialect) -> Variation:
    operation, sent, body = bodied(draw, dialect)
    whole = rendered(body, chance(draw)).strip()
    return Variation("cut off", with_body(sent, whole[: draw(st.integers(0, len(whole) - 1))]), PARSE, None, operation)


def no_utf_8(draw: DrawFn, dialect: Dialect) -> Variation:
    operation, sent, body = bodied(draw, dialect)
    whole = rendered(body, random.Random(0))
    at = draw(st.integers(0, len(whole)))
    wrong = draw(
        st.sampled_from([b"\x80", b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80", b"\xc0\xaf"])
    )
    # Insert the invalid bytes at any place: no character is split, because the plain body is ASCII.
    return Variation("no UTF-8", with_body(sent, whole[:at] + wrong + whole[at:]), PARSE, None, operation)


def another_encoding(draw: DrawFn, dialect: Dialect) -> Variation:
    operation, sent, body = bodied(draw, dialect)
    text = rendered(body, random.Random(0)).decode()
    encoding = draw(st.sampled_from(["utf-16", "utf-16-le", "utf-32", "utf-32-le"]))
    return Variation("another encoding", with_body(sent, text.encode(encoding)), PARSE, None, operation)


def no_json_number(draw: DrawFn, dialect: Dialect) -> Variation:
    operation, sent, body = bodied(draw, dialect)
    at = draw(st.sampled_from(sorted(leaves(body), key=str)))
    wrong = draw(
        st.sampled_from(["NaN", "Infinity", "-Infinity", "01", "+1", ".5", "1.", "0x1", "'x'", "undefined", "True"])
    )
    return Variation(
        "no JSON number",
        with_body(sent, rendered(changed(body, at, lambda _: Raw(wrong)), chance(draw))),
        PARSE,
        None,
        operation,
    )


def nested_without_end(draw: DrawFn, dialect: Dialect) -> Variation:
    operation, sent, _ = bodied(draw, dialect)
    depth, opening = draw(st.integers(60_000, 200_000)), draw(st.sampled_from([b"[", b'{"a":', b'[{"b":']))
    return Variation("nested without end", with_body(sent, opening * depth), PARAMS, None, operation)


def the_same_key_twice(draw: DrawFn, dialect: Dialect) -> Variation:
    operation, sent, body = bodied(draw, dialect)
    at = draw(st.sampled_from([path for path in objects(body) if _at(body, path)]))
    name = draw(st.sampled_from(sorted(_at(body, at))))
    again = draw(st.sampled_from(["x", None, _at(body, at)[name]]))
    twice = changed(body, at, lambda whole: Pairs([*whole.items(), (name, again)]))
    return Variation("the same key twice", with_body(sent, rendered(twice, chance(draw))), REQUEST, None, operation)


def half_a_surrogate_pair(draw: DrawFn, dialect: Dialect) -> Variation:
    operation, sent, body = bodied(draw, dialect)
    half = draw(st.characters(categories=["Cs"]))
    text = draw(st.text(max_size=5)) + half + draw(st.text(max_size=5))
    if draw(st.booleans()):
        whole = changed(body, draw(st.sampled_from(sorted(leaves(body), key=str))), lambda _: text)
    else:
        whole = changed(body, draw(st.sampled_from(list(objects(body)))), lambda members: {**members, text: 1})
    return Variation("half a surrogate pair", with_body(sent, rendered(whole, chance(draw))), PARAMS, None, operation)


def a_huge_integer(draw: DrawFn, dialect: Dialect) -> Variation:
    operation, sent, body = bodied(draw, dialect)
    digits = draw(st.integers(2**53 + 1, 2**70).map(str) | st.integers(20, 6000).map(lambda length: "9" * length))
    number = Raw(draw(st.sampled_from(["", "-"])) + digits)
    at = draw(st.sampled_from(list(objects(body))))
    name = draw(st.sampled_from(["n", "historyLength", "pageSize"]))
    whole = changed(body, at, lambda members: {**members, name: number})
    return Variation("a huge integer", with_body(sent, rendered(whole, chance(draw))), PARAMS, None, operation)


def nested_too_deep(draw: DrawFn, dialect: Dialect) -> Variation:
    operation, sent, body = bodied(draw, dialect)
    deep: Json = draw(st.sampled_from([1, "x", None, {}, []]))
    for pick in draw(st.binary(min_size=33, max_size=300)):
        deep = [deep] if pick % 2 else {"in": deep}
    at = draw(st.sampled_from(list(objects(body))))
    whole = changed(body, at, lambda members: {**members, "deep": deep})
    return Variation("nested too deep", with_body(sent, rendered(whole, random.Random(0))), PARAMS, None, operation)


def another_content_type(draw: DrawFn, dialect: Dialect) -> Variation:
    operation, sent, _ = bodied(draw, dialect)
    kind = draw(
        st.sampled_from(
            ["text/plain", "", "application/xml", "multipart/form-data", "application/x-www-form-urlencoded"]
        )
        | st.text("abcdefgh/+-", min_size=1, max_size=20).filter(lambda given: "json" not in given)
    )
    return Variation(
        "another content type", with_body(sent, sent.body, **{"content-type": kind}), CONTENT_TYPE, None, operation
    )


# -- Invalid JSON-RPC requests -------------------------------------------------------------------------------------


def no_envelope(draw: DrawFn, dialect: Dialect) -> Variation:
    operation, sent, body = bodied(draw, dialect)
    wrong, gives = draw(
        st.one_of(
            st.tuples(st.sampled_from([[], [body], 1, "x", None, True, [[]], {}]), st.just(REQUEST)),
            st.sampled_from(["1.0", "2", 2.0, None, [], "", "2.00"]).map(lambda v: ({**body, "jsonrpc": v}, REQUEST)),
            st.sampled_from([{}, [], True, False, 1.5, [1], {"a": 1}]).map(lambda v: ({**body, "id": v}, REQUEST)),
            st.sampled_from([7, None, [], {}, True, ""]).map(lambda v: ({**body, "method": v}, REQUEST)),
            st.sampled_from([[], "x", 7, True, [{}], 1.5]).map(lambda v: ({**body, "params": v}, PARAMS)),
            st.text(min_size=1, max_size=30).map(lambda v: ({**body, "method": f"{v}?"}, METHOD)),
        )
    )
    return Variation("no envelope", with_body(sent, rendered(wrong, chance(draw))), gives, None, operation)


# -- Invalid params ------------------------------------------------------------------------------------------------

TEXT: tuple[Json, ...] = (7, 1.5, True, False, ["x"], {"x": 1})
OBJECT: tuple[Json, ...] = ("x", 7, 1.5, True, ["x"])
LIST: tuple[Json, ...] = ("x", 7, True, {"x": 1})
INTEGER: tuple[Json, ...] = ("x", 1.5, "1.5", ["x"], {"x": 1}, -1, -(2**31), 2**31, 2**40)
BOOLEAN: tuple[Json, ...] = ("maybe", 7, 1.5, ["x"], {"x": 1})
TYPES: dict[Path, tuple[Json, ...]] = {
    ("message",): OBJECT,
    ("message", "messageId"): TEXT,
    ("message", "contextId"): TEXT,
    ("message", "taskId"): TEXT,
    ("message", "role"): ("ROLE_NOBODY", "ROLE_AGENT", "", 99, ["x"], {"x": 1}),
    ("message", "parts"): LIST,
    ("message", "parts", 0): OBJECT,
    ("message", "parts", 0, "text"): TEXT,
    ("message", "parts", 0, "metadata"): OBJECT,
    ("message", "metadata"): OBJECT,
    ("message", "extensions"): LIST,
    ("message", "referenceTaskIds"): LIST,
    ("metadata",): OBJECT,
    ("configuration",): OBJECT,
    ("configuration", "historyLength"): INTEGER,
    ("configuration", "acceptedOutputModes"): LIST,
    ("configuration", "returnImmediately"): BOOLEAN,
}
"""Invalid values for a place in a message's params."""


def the_wrong_type(draw: DrawFn, dialect: Dialect) -> Variation:
    operation = draw(st.sampled_from(SENDS))
    # Skip referenceTaskIds in HTTP+JSON 0.3: v0.3's proto file lacks the field, so the server ignores it.
    unknown = ("message", "referenceTaskIds") if dialect.name == "HTTP+JSON 0.3" else ()
    path = draw(st.sampled_from([path for path in TYPES if path != unknown]))
    params = put(good(draw, operation), path, draw(st.sampled_from(TYPES[path])))
    return told("the wrong type", draw, dialect, operation, params, PARAMS)


def something_missing(draw: DrawFn, dialect: Dialect) -> Variation:
    operation = draw(operations(dialect))
    params = good(draw, operation)
    places: list[Path] = [("id",)]
    if operation in SENDS:
        places = [("message",), ("message", "messageId"), ("message", "role"), ("message", "parts")]
    *above, name = draw(st.sampled_from(places))
    without = changed(params, tuple(above), lambda whole: {key: of for key, of in whole.items() if key != name})
    return told("something missing", draw, dialect, operation, without, PARAMS)


def no_id(draw: DrawFn, dialect: Dialect) -> Variation:
    wrong = draw(st.text(max_size=200).map(lambda text: f"{text}\0") | st.sampled_from(["x" * 513, "é" * 257]))
    name = draw(st.sampled_from(["messageId", "contextId", "taskId"]))
    operation = draw(st.sampled_from(SENDS))
    return told("no id", draw, dialect, operation, good(draw, operation, **{name: wrong}), PARAMS)


def no_base64(draw: DrawFn, dialect: Dialect) -> Variation:
    inside = st.text("ABCxyz019+/", max_size=12)
    wrong = draw(
        st.builds(lambda a, bad, b: a + bad + b, inside, st.sampled_from("*? \n!é\x00😀%"), inside)
        | inside.map(lambda text: text[: len(text) // 4 * 4] + "A")
    )
    operation = draw(st.sampled_from(SENDS))
    part = {"raw": wrong, "mediaType": "text/plain"}
    return told("no base64", draw, dialect, operation, good(draw, operation, parts=[part]), PARAMS)


def no_contents(draw: DrawFn, dialect: Dialect) -> Variation:
    parts = draw(
        st.sampled_from(
            [[], [{}], [{"text": "hi"}, {}], [{"url": ""}], [{"metadata": {"a": 1}}], [None], ["x"], [7], [[]]]
        )
        | st.integers(257, 300).map(lambda number: [{"text": "x"}] * number)
    )
    operation = draw(st.sampled_from(SENDS))
    return told("no contents", draw, dialect, operation, good(draw, operation, parts=parts), PARAMS)


def an_unknown_task(draw: DrawFn, dialect: Dialect) -> Variation:
    operation = draw(st.sampled_from((*SENDS, "GetTask", "CancelTask", "SubscribeToTask")))
    # Draw no slashes in HTTP+JSON, because an id with a slash leads to another route.
    alphabet = ALPHABET.replace("/", "") if dialect.is_rest else ALPHABET
    task_id = draw(st.text(alphabet, min_size=1, max_size=127).map(lambda rest: f"t{rest}"))
    params = good(draw, operation, taskId=task_id) if operation in SENDS else {"id": task_id}
    return told("an unknown task", draw, dialect, operation, params, NOT_FOUND)


def no_such_list(draw: DrawFn, dialect: Dialect) -> Variation:
    params = draw(
        st.one_of(
            st.integers(101, 2**31 - 1).map(lambda n: {"pageSize": n}),
            st.integers(-(2**31), 0).map(lambda n: {"pageSize": n}),
            st.text(min_size=1, max_size=60).map(lambda text: {"pageToken": text}),
            st.text(min_size=1, max_size=20).map(lambda text: {"status": f"{text}?"}),
            st.integers(9, 2**31 - 1).map(lambda n: {"status": n}),
            st.text(min_size=1, max_size=20).map(lambda text: {"statusTimestampAfter": f"{text}?"}),
            st.integers(-(2**31), -1).map(lambda n: {"historyLength": n}),
            st.text(min_size=1, max_size=20).map(lambda text: {"contextId": f"{text}\0"}),
            st.sampled_from(["maybe", "x", "2"]).map(lambda text: {"includeArtifacts": text}),
        )
    )
    return told("no such list", draw, dialect, "ListTasks", params, PARAMS)


def too_much_metadata(draw: DrawFn, dialect: Dialect) -> Variation:
    size = draw(st.integers(64 * 1024, 80_000))
    place = draw(st.sampled_from([("metadata",), ("message", "metadata"), ("message", "parts", 0, "metadata")]))
    params = put(good(draw), place, {"large": "x" * size})
    return told("too much metadata", draw, dialect, "SendMessage", params, PARAMS)


def told(kind: str, draw: DrawFn, dialect: Dialect, operation: str, params: Json, gives: Error) -> Variation:
    sent = dialect.request(operation, params)
    assert sent is not None
    if sent.body:
        sent = with_body(sent, rendered(body_of(sent), chance(draw)))
    return Variation(kind, sent, gives, None, operation)


def put(params: Json, path: Path, value: Json) -> Json:
    """Replace the value at the path by an invalid value; return the params."""
    *above, name = path
    if isinstance(name, int):
        return changed(params, path, lambda _: value)
    return changed(params, tuple(above), lambda whole: {**whole, name: value})


def _at(value: Json, path: Path) -> Json:
    for step in path:
        value = value[step]
    return value


UNREADABLE: tuple[Maker, ...] = (
    cut_off,
    no_utf_8,
    another_encoding,
    no_json_number,
    nested_without_end,
    the_same_key_twice,
    half_a_surrogate_pair,
    a_huge_integer,
    nested_too_deep,
    another_content_type,
)
UNUSABLE: tuple[Maker, ...] = (
    the_wrong_type,
    something_missing,
    no_id,
    no_base64,
    no_contents,
    an_unknown_task,
    too_much_metadata,
)


@st.composite
def bad(draw: DrawFn, dialect: Dialect) -> Variation:
    """Draw an invalid request and its expected error."""
    makers = (*UNREADABLE, *UNUSABLE)
    if not dialect.is_rest:
        makers = (*makers, no_envelope)
    if dialect.request("ListTasks", {}) is not None:
        makers = (*makers, no_such_list)
    return draw(st.sampled_from(makers))(draw, dialect)
