"""Media types of an agent, matched with those of a client's message."""

from typing import Any

import pytest

from aion_core.errors import ContentTypeNotSupported, InvalidMessage
from aion_core.protocol.media_types import check_accepted, check_parts, modes_of, type_of
from aion_core.protocol.types import AgentCard, AgentSkill, Part
from tests.support.agents.scripted import GatedAgent
from tests.support.rows import each_row
from tests.support.service import ServiceParts, http, parts, rpc_body, send

TEXT = ["text/plain"]


def free() -> ServiceParts:
    agent = GatedAgent()
    agent.go.set()
    return parts(agent)


@each_row(
    ("part", "type_"),
    [
        (Part(text="x"), "text/plain"),
        (Part(text="x", media_type="Text/Markdown; charset=utf-8"), "text/markdown"),
        (Part(data={"string_value": "x"}), "application/json"),
        (Part(data={"string_value": "x"}, media_type="application/geo+json"), "application/geo+json"),
        (Part(raw=b"x"), "application/octet-stream"),
        (Part(raw=b"x", filename="a.PNG"), "image/png"),
        (Part(raw=b"x", filename="a.png", media_type="image/webp"), "image/webp"),
        (Part(raw=b"x", media_type="image/jpg"), "image/jpeg"),
        (Part(url="https://example.org/a.PNG?size=2.jpg#page.html"), "image/png"),
        (Part(url="s3://bucket.zip/a.pdf"), "application/pdf"),
        (Part(url="https://example.org?of=a.png"), "application/octet-stream"),
        (Part(url="https://[/a.csv.gz"), "application/octet-stream"),
        (Part(url="data:Image/PNG;base64,AAEC"), "image/png"),
        (Part(url="data:image/*,a.png"), "application/octet-stream"),
        (Part(url="https://example.org/a", filename="a.pdf"), "application/pdf"),
        (Part(raw=b"x", filename="a.csv.gz"), "application/octet-stream"),
        (Part(text="x", media_type="nonsense"), None),
        (Part(text="x", media_type="text/pl ain"), None),
        (Part(text="x", media_type="text/*"), None),
        (Part(text="x", media_type="; charset=utf-8"), None),
    ],
)
def test_media_type_of_part_is_stated_or_derived(part: Part, type_: str | None) -> None:
    """Take the stated type, else that of the extension in the name or URL, else application/octet-stream."""
    assert type_of(part) == type_


@each_row(
    ("part", "takes", "taken"),
    [
        (Part(text="x"), ["text/plain"], True),
        (Part(text="x"), ["TEXT/PLAIN; charset=utf-8"], True),
        (Part(text="x"), ["text/*"], True),
        (Part(text="x"), ["*/*"], True),
        (Part(text="x"), [], True),
        (Part(text="x"), ["application/json"], False),
        (Part(text="x", media_type="text/markdown"), ["text/plain"], True),
        (Part(text="x", media_type="text/html; charset=utf-8"), ["text/plain"], True),
        (Part(text="x", media_type="text/csv"), ["text/plain"], False),
        (Part(data={"string_value": "x"}), ["text/plain"], False),
        (Part(data={"string_value": "x"}), ["data"], True),
        (Part(data={"string_value": "x"}, media_type="application/geo+json"), ["application/json"], True),
        (Part(data={"string_value": "x"}, media_type="application/geo+json"), ["text/plain"], False),
        (Part(data={"string_value": "x"}, media_type="application/pdf"), ["application/json"], False),
        (Part(raw=b"x", media_type="application/geo+json"), ["application/json"], False),
        (Part(raw=b"x", media_type="image/png"), ["text/plain", "image/jpeg"], False),
        (Part(raw=b"x", media_type="image/png"), ["image/*"], True),
        (Part(raw=b"x", media_type="audio/x-wav"), ["audio/wav"], True),
        (Part(raw=b"x", media_type="image/jpeg"), ["image/jpg"], True),
        (Part(raw=b"x", media_type="image/png"), ["application/octet-stream"], True),
        (Part(url="https://e/x", media_type="video/mp4"), ["file"], True),
        (Part(text="x"), ["malformed"], False),
    ],
)
def test_message_part_must_match_agents_input_modes(part: Part, takes: list[str], taken: bool) -> None:
    if taken:
        check_parts([Part(raw=b"", filename="any"), part] if "*/*" in takes else [part], takes)
    else:
        with pytest.raises(ContentTypeNotSupported) as refused:
            check_parts([part], takes)
        assert str(refused.value) == f"message.parts[0] is {type_of(part)}; this agent accepts {', '.join(takes)}."


def test_invalid_media_type_is_refused() -> None:
    with pytest.raises(InvalidMessage) as refused:
        check_parts([Part(text="x"), Part(text="x", media_type="image")], [])
    assert refused.value.field == "message.parts[1].mediaType"


@each_row(
    ("accepted", "gives", "can"),
    [
        ([], TEXT, True),
        (["text/plain"], TEXT, True),
        (["text"], TEXT, True),
        (["*/*"], TEXT, True),
        (["text/*"], TEXT, True),
        (["text/plain"], ["text/*"], True),
        (["TEXT/PLAIN"], TEXT, True),
        (["image/png"], [], True),
        (["image/png"], TEXT, False),
        (["nonsense", ""], TEXT, False),
        (["text/markdown"], TEXT, True),
        (["text/csv"], TEXT, False),
    ],
)
def test_client_must_accept_an_output_mode_of_agent(accepted: list[str], gives: list[str], can: bool) -> None:
    """The client must accept an output mode of the agent; an empty list accepts every mode."""
    if can:
        check_accepted(accepted, gives)
    else:
        with pytest.raises(ContentTypeNotSupported, match="text/plain"):
            check_accepted(accepted, gives)


def test_media_types_of_skills_are_added_to_card_defaults() -> None:
    """A message names no skill, so the input modes of every skill are accepted."""
    card = AgentCard(
        default_input_modes=TEXT,
        default_output_modes=TEXT,
        skills=[AgentSkill(input_modes=["image/png"], output_modes=["text/plain", "audio/wav"])],
    )
    modes = modes_of(card)
    assert (modes.takes, modes.gives) == (("text/plain", "image/png"), ("text/plain", "audio/wav"))


def bodies(**configuration: Any) -> list[dict[str, Any]]:
    """Return the same message for each method with a message."""
    methods = ("SendMessage", "SendStreamingMessage", "message/send", "message/stream")
    made = [send(method=method, contextId="c") for method in methods]
    for body in made:
        if configuration:
            body["params"]["configuration"] = configuration
    return made


async def test_unsupported_content_is_refused_and_not_stored() -> None:
    """Send content of another media type: error -32005, and no task."""
    made = free()
    async with http(made.app()) as client:
        for body in bodies(acceptedOutputModes=["image/png"]):
            error = rpc_body(await client.post("/", json=body))["error"]
            assert error["code"] == -32005
            assert "text/plain" in error["message"]
        for body in bodies():
            old = "/" in body["method"]
            body["params"]["message"]["parts"].append(
                {"kind": "data", "data": {}} if old else {"data": {}, "mediaType": "application/xml"}
            )
            body["params"]["message"]["parts"].append(
                {"kind": "file", "file": {"bytes": "AAEC", "mimeType": "image//png"}}
                if old
                else {"raw": "AAEC", "mediaType": "image//png"}
            )
            error = rpc_body(await client.post("/", json=body))["error"]
            assert error["code"] == (-32602 if old else -32005), error
        for body in bodies(acceptedOutputModes=["text"]):
            answer = await client.post("/", json=body)
            assert '"error"' not in answer.text, "the short word of the first versions"
    assert len(made.store.task_keys()) == 1, "of all these, the good ones are one message"  # type: ignore[attr-defined]
