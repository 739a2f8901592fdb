"""Approvals of tool calls: requests of LangChain's HumanInTheLoopMiddleware, and the client's decisions."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from langgraph.types import Interrupt
from msgspec import Struct

from aion_core.agents.call_text import call_text
from aion_core.agents.client_answers import InvalidResumeInput
from aion_core.agents.expected_answers import parsed_json, unwrapped

_DECISION_WORDS = {
    "approve": "approve", "approved": "approve", "yes": "approve", "y": "approve", "ok": "approve", "okay": "approve",
    "reject": "reject", "rejected": "reject", "no": "reject", "n": "reject", "deny": "reject",
    "respond": "respond",
}  # fmt: skip
_KINDS = ("approve", "edit", "reject", "respond")
_WORDS = {"approve": "approve", "reject": "reject", "respond": "respond: your text"}
"""Decisions that a client can send as a text, with the form of the text."""


class Review(Struct, frozen=True):
    """Tool calls that a human must approve, as requested by LangChain's HumanInTheLoopMiddleware.

    The middleware accepts only decisions with a fixed structure: any other answer would make the turn fail. A client
    sends this structure as data, or a single word such as "approve".
    """

    actions: Sequence[Mapping[str, Any]]
    allowed: Sequence[Sequence[str]]
    one_by_one: bool
    """True if the middleware requests one call at a time and accepts a single decision."""

    def text(self) -> str:
        """Return the text that asks the client to approve these tool calls."""
        calls = [_call(action) for action in self.actions]
        if len(calls) == 1:
            asked = f"May the agent call {calls[0]}? {_choices(self.allowed[0])}"
            return "\n".join(filter(None, [_description(self.actions[0]), asked]))
        lines = [
            " ".join(filter(None, [call, _description(action), _choices(allowed)]))
            for call, action, allowed in zip(calls, self.actions, self.allowed, strict=True)
        ]
        numbered = [f"{number}. {line}" for number, line in enumerate(lines, start=1)]
        return "\n".join(["May the agent make these calls? One word answers for all of them.", *numbered])

    def choices(self) -> list[str]:
        """Return the words that answer all calls."""
        return [kind for kind in ("approve", "reject") if all(kind in allowed for allowed in self.allowed)]

    def value_of(self, answer: Any, tools: Collection[str] = ()) -> Any:
        """Convert a client's answer to the middleware's decisions. Raises InvalidResumeInput for an invalid answer.

        An edited call must name its own tool or one of the `tools`; if they are not known, it may name any tool.
        """
        decision_data = _parse_answer(answer, self.allowed) if isinstance(answer, str) else unwrapped(answer)
        if decision_data is None and isinstance(answer, str):
            raise InvalidResumeInput(f"{answer[:80]!r} isn't a decision. {self._how()}")
        if isinstance(decision_data, Mapping) and "decisions" in decision_data:
            decision_data = decision_data["decisions"]
        decisions = (
            [decision_data] * len(self.actions)
            if isinstance(answer, str) and isinstance(decision_data, Mapping)
            else decision_data
        )
        decisions = [decisions] if isinstance(decisions, Mapping) else decisions
        if not isinstance(decisions, list) or len(decisions) != len(self.actions):
            count = len(self.actions)
            wanted = "One decision is" if count == 1 else f"{count} decisions, one for each call, are"
            raise InvalidResumeInput(f"{wanted} wanted. {self._how()}")
        for action, decision, allowed in zip(self.actions, decisions, self.allowed, strict=True):
            kind = decision.get("type") if isinstance(decision, Mapping) else None
            if kind not in allowed or not _is_complete(decision):
                raise InvalidResumeInput(f"That isn't a decision on this call. {self._how()}")
            name = decision["edited_action"]["name"] if kind == "edit" else action.get("name")
            if tools and name not in (action.get("name"), *tools):
                raise InvalidResumeInput(f"The agent has no tool {str(name)[:80]!r}. {self._how()}")
        return decisions[0] if self.one_by_one else {"decisions": decisions}

    def _how(self) -> str:
        words = [word for kind, word in _WORDS.items() if all(kind in allowed for allowed in self.allowed)]
        example = '{"decisions": [{"type": "…"}]}'
        return f"{_choices(words)[:-1]}, or send {example} as data." if words else f"Send {example} as data."


def review_of(interrupt: Interrupt) -> Review | None:
    """Return the tool calls to approve if the middleware has made this interrupt; None for any other interrupt."""
    value = interrupt.value
    if not isinstance(value, Mapping):
        return None
    if value.get("type") == "tool_approval" and isinstance(value.get("args"), Mapping):
        schema = json.dumps(interrupt.response_schema or {}, default=str)
        allowed = [kind for kind in _KINDS if f'"{kind}"' in schema]
        return Review([value], [allowed or list(_KINDS)], one_by_one=True)
    actions, configs = value.get("action_requests"), value.get("review_configs")
    if not isinstance(actions, list) or not isinstance(configs, list) or not actions:
        return None
    by_name = {config.get("action_name"): config.get("allowed_decisions") for config in configs}
    return Review(actions, [by_name.get(action.get("name")) or list(_KINDS) for action in actions], one_by_one=False)


def _parse_answer(answer: str, allowed: Sequence[Sequence[str]]) -> Any:
    """Convert a text to decisions. Return None for a text that names no decision."""
    parsed = parsed_json(answer)
    if isinstance(parsed, dict | list):
        return parsed
    word, _, reason = answer.strip().partition(":")
    kind = _DECISION_WORDS.get(word.strip().strip(".!").lower())
    if all(list(kinds) == ["respond"] for kinds in allowed) and not (kind == "respond" and reason.strip()):
        return {"type": "respond", "message": answer}
    if kind is None:
        return None
    return {"type": kind, "message": reason.strip()} if kind != "approve" and reason.strip() else {"type": kind}


def _is_complete(decision: Mapping[str, Any]) -> bool:
    match decision.get("type"):
        case "edit":
            edited = decision.get("edited_action")
            return (
                isinstance(edited, Mapping)
                and isinstance(edited.get("name"), str)
                and isinstance(edited.get("args"), Mapping)
            )
        case "respond":
            return isinstance(decision.get("message"), str)
        case _:
            return isinstance(decision.get("message", ""), str)


def _call(action: Mapping[str, Any]) -> str:
    return call_text(action.get("name"), action.get("args") or {})


def _description(action: Mapping[str, Any]) -> str:
    """Return the author's description of a call; "" for the middleware's own one, which only repeats the call."""
    text = action.get("description")
    return text if isinstance(text, str) and f"\n\nTool: {action.get('name')}\nArgs: " not in text else ""


def _choices(kinds: Sequence[str]) -> str:
    if list(kinds) == ["respond"]:
        return "Answer with a text."
    return f"Answer {', '.join(kinds[:-1])}{' or ' if len(kinds) > 1 else ''}{kinds[-1]}." if kinds else ""
