"""Agent Inbox: requests of a graph in LangChain's form `HumanInterrupt`, and the human's responses to them.

The form is in `langgraph.prebuilt.interrupt`. LangChain's user interfaces always respond with a list, so graphs read
`interrupt([request])[0]`. A graph that asks with a single request instead of a list gets a single response, unless the
client sends a list.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct

from aion_core.agents.call_text import call_text
from aion_core.agents.client_answers import InvalidResumeInput
from aion_core.agents.expected_answers import parsed_json, unwrapped

_WORDS = {
    "accept": "accept", "accepted": "accept", "approve": "accept", "approved": "accept",
    "yes": "accept", "y": "accept", "ok": "accept", "okay": "accept",
    "ignore": "ignore", "ignored": "ignore", "reject": "ignore", "rejected": "ignore", "skip": "ignore",
    "no": "ignore", "n": "ignore", "deny": "ignore",
    "response": "response", "respond": "response",
    "edit": "edit",
}  # fmt: skip
_ALLOWED = {"allow_accept": "accept", "allow_edit": "edit", "allow_ignore": "ignore", "allow_respond": "response"}
_FORMS = {"edit": "edit: {…}", "response": "response: your text"}
"""Responses with a content, with the form of the text."""


class Inbox(Struct, frozen=True):
    """Requests of one interrupt. The graph accepts only responses with a fixed structure."""

    requests: Sequence[Mapping[str, Any]]
    allowed: Sequence[Sequence[str]]
    """Types of responses that each request allows."""
    is_single: bool
    """True if the graph asks with a request instead of a list of requests."""

    def text(self) -> str:
        """Return the text of the requests: their descriptions, actions and allowed responses."""
        asked = [_asked(request) for request in self.requests]
        if len(asked) == 1:
            return f"{asked[0]}\n{_choices(self.allowed[0])}"
        numbered = [
            f"{number}. {text}\n{_choices(allowed)}"
            for number, (text, allowed) in enumerate(zip(asked, self.allowed, strict=True), start=1)
        ]
        return "\n".join(["One word answers all of these requests.", *numbered])

    def choices(self) -> list[str]:
        """Return the words that answer all requests."""
        return [word for word in ("accept", "ignore") if self._allow(word)]

    def value_of(self, answer: Any, tools: Collection[str] = ()) -> Any:
        """Convert a client's answer to the responses for the graph. Raises InvalidResumeInput for an invalid answer.

        An edit may name another action; the names of the graph's `tools` do not limit it, because an action need not be
        a tool.
        """
        given = self._of_text(answer) if isinstance(answer, str) else unwrapped(answer)
        many = given if isinstance(given, list) else [given]
        if len(many) != len(self.requests):
            count = len(self.requests)
            wanted = "One response is" if count == 1 else f"{count} responses, one for each request, are"
            raise InvalidResumeInput(f"{wanted} wanted. {self._how()}")
        responses = [self._response(*each) for each in zip(self.requests, self.allowed, many, strict=True)]
        return responses[0] if self.is_single and not isinstance(given, list) else responses

    def _allow(self, kind: str) -> bool:
        return all(kind in allowed for allowed in self.allowed)

    def _of_text(self, text: str) -> Any:
        """Return the response that a text means: JSON, a word for all requests, or a text for the agent."""
        parsed = unwrapped(parsed_json(text))
        if any(
            isinstance(each, Mapping) and "type" in each for each in (parsed if isinstance(parsed, list) else [parsed])
        ):
            return parsed
        word, _, rest = text.strip().partition(":")
        kind, rest = _WORDS.get(word.strip().strip(".!").lower(), ""), rest.strip()
        response: dict[str, Any] | None = None
        if kind == "response" and rest:
            response = {"type": kind, "args": rest}
        elif kind == "edit" and isinstance(parsed_json(rest), Mapping):
            response = {"type": kind, "args": parsed_json(rest)}
        elif kind in ("accept", "ignore") and self._allow(kind) and (not rest or kind == "ignore"):
            response = {"type": kind, "args": None}
        elif self._allow("response") and kind not in ("response", "edit") and text.strip():
            response = {"type": "response", "args": text}
        if response is None:
            raise InvalidResumeInput(f"{text[:80]!r} isn't a response. {self._how()}")
        return response if len(self.requests) == 1 else [response] * len(self.requests)

    def _response(self, request: Mapping[str, Any], allowed: Sequence[str], given: Any) -> dict[str, Any]:
        """Return one response in the graph's form. Raises InvalidResumeInput if the request does not allow it."""
        kind = _WORDS.get(str(given.get("type"))) if isinstance(given, Mapping) else None
        args = given.get("args") if isinstance(given, Mapping) else None
        if kind not in allowed:
            raise InvalidResumeInput(f"That isn't a response to this request. {self._how()}")
        if kind == "edit":
            if not isinstance(args, Mapping):
                raise InvalidResumeInput(f"An edit needs the edited arguments. {self._how()}")
            is_action = args.keys() == {"action", "args"} and isinstance(args["args"], Mapping)
            args = args if is_action else {"action": request["action_request"]["action"], "args": args}
        elif kind == "response":
            if not isinstance(args, str):
                raise InvalidResumeInput(f"A response needs a text. {self._how()}")
        else:
            args = None
        return {"type": kind, "args": args}

    def _how(self) -> str:
        kinds, example = [kind for kind in _ALLOWED.values() if self._allow(kind)], '{"type": "…", "args": …}'
        return f"{_choices(kinds)[:-1]}, or send {example} as data." if kinds else f"Send {example} as data."


def inbox_of(value: Any) -> Inbox | None:
    """Return the requests in an interrupt's value; None if it is not in the form of the Agent Inbox."""
    requests = value if isinstance(value, list | tuple) else [value]
    if not requests or not all(map(_is_request, requests)):
        return None
    allowed = [
        [kind for key, kind in _ALLOWED.items() if each["config"].get(key)] or list(_ALLOWED.values())
        for each in requests
    ]
    return Inbox(list(requests), allowed, is_single=requests is not value)


def _is_request(value: Any) -> bool:
    match value:
        case {"action_request": {"action": str()}, "config": Mapping() as config}:
            return bool(_ALLOWED.keys() & config.keys())
        case _:
            return False


def _asked(request: Mapping[str, Any]) -> str:
    """Return the description of a request, and its action unless it has only a description to show."""
    description, action = request.get("description"), request["action_request"]
    args = action.get("args")
    call = call_text(action["action"], args if isinstance(args, Mapping) else {})
    return "\n".join([str(description), *([call] if args else [])]) if description else call


def _choices(kinds: Sequence[str]) -> str:
    if list(kinds) == ["response"]:
        return "Answer with a text."
    words = [_FORMS.get(kind, kind) for kind in kinds]
    return f"Answer {', '.join(words[:-1])}{' or ' if len(words) > 1 else ''}{words[-1]}." if words else ""
