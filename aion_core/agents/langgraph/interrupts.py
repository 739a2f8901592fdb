"""Interrupts of a graph: as a question to the client, and the client's answer as what the graph resumes with."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.json_format import ParseDict
from langgraph.errors import is_invalid_resume
from langgraph.types import Command, Interrupt
from pydantic import ValidationError

from aion_core.agents.inbound import PAUSED, InvalidResumeInput, ids_of
from aion_core.ports import InputRequired, TurnRequest
from aion_core.protocol.types import Message, Part, Role
from aion_core.tasks.resume_input import INTERRUPT_ID, INTERRUPTS, interrupt_id_of, resume_value

# ── Approvals of tool calls ───────────────────────────────────────────────────────────────────────────────────────────

_WORDS = {
    "approve": "approve", "approved": "approve", "yes": "approve", "y": "approve", "ok": "approve", "okay": "approve",
    "reject": "reject", "rejected": "reject", "no": "reject", "n": "reject", "deny": "reject",
}  # fmt: skip
_KINDS = ("approve", "edit", "reject", "respond")


@dataclass(frozen=True, slots=True)
class Review:
    """Tool calls that a human has to approve (HumanInTheLoopMiddleware), each with the decisions that it allows.

    The middleware takes only decisions of a fixed shape: any other would fail the turn. A client may send that shape as
    data, or simply the word.
    """

    actions: Sequence[Mapping[str, Any]]
    allowed: Sequence[Sequence[str]]
    one_by_one: bool
    """Whether the middleware asks for each call by itself, and takes a single decision."""

    def text(self) -> str:
        """Return the question in words."""
        calls = [_call(action) for action in self.actions]
        if len(calls) == 1:
            return f"May the agent call {calls[0]}? {_choices(self.allowed[0])}"
        lines = [f"{call} {_choices(allowed)}" for call, allowed in zip(calls, self.allowed, strict=True)]
        numbered = [f"{number}. {line}" for number, line in enumerate(lines, start=1)]
        return "\n".join(["May the agent make these calls? One word answers for all of them.", *numbered])

    def decided(self, answer: Any) -> Any:
        """Return the answer as the middleware takes it; raises Unfit for one that it would not."""
        given = _from_words(answer, self.allowed) if isinstance(answer, str) else answer
        if isinstance(given, Mapping) and "decisions" in given:
            given = given["decisions"]
        decisions = [given] * len(self.actions) if isinstance(answer, str) and isinstance(given, Mapping) else given
        decisions = [decisions] if isinstance(decisions, Mapping) else decisions
        if not isinstance(decisions, list) or len(decisions) != len(self.actions):
            raise InvalidResumeInput(f"{len(self.actions)} decisions are wanted, one for each call. {self._how()}")
        for decision, allowed in zip(decisions, self.allowed, strict=True):
            kind = decision.get("type") if isinstance(decision, Mapping) else None
            if kind not in allowed or not _has_its_fields(decision):
                raise InvalidResumeInput(f"That is no decision on this call. {self._how()}")
        return decisions[0] if self.one_by_one else {"decisions": decisions}

    def _how(self) -> str:
        words = [kind for kind in ("approve", "reject") if all(kind in allowed for allowed in self.allowed)]
        example = '{"decisions": [{"type": "…"}]}'
        return f"Answer {' or '.join(words)}, or send {example} as data." if words else f"Send {example} as data."


def review_of(interrupt: Interrupt) -> Review | None:
    """Return the review that the middleware asks for, None where the question is another one."""
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


def _from_words(answer: str, allowed: Sequence[Sequence[str]]) -> Any:
    try:
        written = json.loads(answer)
    except ValueError:
        written = None
    if isinstance(written, dict | list):
        return written
    if all(list(kinds) == ["respond"] for kinds in allowed):
        return {"type": "respond", "message": answer}
    word, _, reason = answer.strip().partition(":")
    kind = _WORDS.get(word.strip().strip(".!").lower())
    if kind is None:
        raise InvalidResumeInput(
            f"{answer[:80]!r} is no decision. {_choices([k for k in _KINDS if all(k in a for a in allowed)])}"
        )
    return {"type": kind, "message": reason.strip()} if kind == "reject" and reason.strip() else {"type": kind}


def _has_its_fields(decision: Mapping[str, Any]) -> bool:
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
    args = action.get("args") or {}
    return (
        f"{action.get('name')}({', '.join(f'{name}={json.dumps(value, default=str)}' for name, value in args.items())})"
    )


def _choices(kinds: Sequence[str]) -> str:
    return f"Answer {', '.join(kinds[:-1])}{' or ' if len(kinds) > 1 else ''}{kinds[-1]}." if kinds else ""


# ── Questions and answers ─────────────────────────────────────────────────────────────────────────────────────────────


def question(interrupts: Sequence[Interrupt], *, unfit: str = "") -> InputRequired:
    """Return the turn's end that shows all that is asked: a text for each, and what comes with it as data.

    `unfit` is what was wrong with an answer: it is said first, and everything is asked again.
    """
    message = Message(role=Role.ROLE_AGENT, parts=[Part(text=unfit)] if unfit else [])
    for interrupt in interrupts:
        text, data = _shown(interrupt)
        message.parts.append(Part(text=text))
        if data:
            message.parts.append(ParseDict({"data": _as_json(data)}, Part()))
    message.metadata.update({INTERRUPT_ID: interrupts[0].id})
    if len(interrupts) > 1:
        message.metadata.update({INTERRUPTS: [{"id": interrupt.id} for interrupt in interrupts]})
    return InputRequired(message)


def breakpoint_before(nodes: Sequence[str]) -> InputRequired:
    """Return the turn's end of a graph that was compiled to pause here: any answer lets it go on."""
    text = f"Paused before {', '.join(nodes)}. Any answer lets it go on; cancel the task to stop."
    return InputRequired(Message(role=Role.ROLE_AGENT, parts=[Part(text=text)], metadata={PAUSED: list(nodes)}))


def resumption(asked: TurnRequest, question: Message, pending: Sequence[Interrupt]) -> Command[Any] | None:
    """Return the answer for the interrupt that it is for; None where that is no longer asked: the graph just goes on.

    Which interrupt a message answers was settled before the turn began (`tasks.questions`): the one it names, or the
    one that was asked. What is pending now may be a later question, where this turn has been begun before.

    Raises Unfit where the question does not take such an answer.
    """
    was_asked = ids_of(question)
    named = interrupt_id_of(asked.message) or (was_asked[0] if len(was_asked) == 1 else "")
    interrupt = next((each for each in pending if each.id == named), None)
    if interrupt is None:
        return None
    answer, review = resume_value(asked.message), review_of(interrupt)
    return Command(resume={named: review.decided(answer) if review is not None else answer})


def unfit_by_schema(error: Exception) -> str:
    """Return why the question's own schema refuses the answer, "" where that is not what the error is about."""
    if not isinstance(error, ValidationError) or not is_invalid_resume(error):
        return ""
    first = error.errors()[0]
    where = ".".join(str(step) for step in first["loc"])
    return f"The answer does not fit the question{f', in {where}' if where else ''}: {first['msg']}."


def _shown(interrupt: Interrupt) -> tuple[str, Any]:
    """Return a question as a text and, where more came with it, data: a string, `value["prompt"]`, or what it is."""
    value, review = interrupt.value, review_of(interrupt)
    if review is not None:
        return review.text(), value
    if isinstance(value, str):
        return value, None
    if isinstance(value, dict) and isinstance(value.get("prompt"), str):
        return value["prompt"], {key: kept for key, kept in value.items() if key != "prompt"}
    if isinstance(value, dict | list):
        return json.dumps(_as_json(value), ensure_ascii=False), value
    return str(value), None


def _as_json(data: Any) -> Any:
    """Return the data as JSON can say it: LangGraph takes any value for a question, A2A does not."""
    return json.loads(json.dumps(data, default=str), parse_constant=lambda constant: None)
