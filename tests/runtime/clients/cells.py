"""Rows of the matrix: what is asked of each agent, in which way, and what the person who asks should see."""

from dataclasses import dataclass
from typing import Literal

UNKNOWN, ENDED = "no-such-task", "ended-task"
"""Names of tasks in the arguments; the runner puts the id of a completed task in place of the second."""


@dataclass(frozen=True)
class Shown:
    """The person should see this text, and no other."""

    text: str

    def fits(self, seen: str) -> bool:
        return seen == self.text

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Told:
    """The person should be told these words, by an error or an answer that contains them."""

    text: str

    def fits(self, seen: str) -> bool:
        return self.text in seen

    def __str__(self) -> str:
        return f"… {self.text} …"


@dataclass(frozen=True)
class Cell:
    """Calls of a client's method in one conversation with an agent."""

    name: str
    agent: str
    call: Literal["send", "stream", "send_to", "stream_to", "get"]
    arguments: tuple[tuple[str, ...], ...]
    ideal: Shown | Told
    slow: bool = False


def _both(name: str, agent: str, *said: str, ideal: Shown | Told, streamed: Shown | Told | None = None) -> list[Cell]:
    """Return the cells that send and that stream these messages."""
    messages = tuple((text,) for text in said)
    return [
        Cell(f"{name}, send", agent, "send", messages, ideal),
        Cell(f"{name}, stream", agent, "stream", messages, streamed or ideal),
    ]


CELLS = [
    *_both("whole", "whole", "hello", ideal=Shown("You said hello.")),
    *_both("tokens", "tokens", "count", ideal=Shown("One two three.")),
    *_both(
        "words beside a tool call",
        "tool",
        "weather?",
        ideal=Shown("It is sunny."),
        streamed=Shown("Let me look. | It is sunny."),
    ),
    *_both("question", "question", "a room", "Monday", ideal=Shown("Which day? → Booked for Monday.")),
    *_both("failure", "failure", "print", ideal=Told("The printer is on fire.")),
    *_both("two turns", "turns", "one", "two", ideal=Shown("So far: one. → So far: one, two.")),
    *_both("emit_message alone", "emitted", "go", ideal=Shown("All done.")),
    *_both("executor", "executor", "count", ideal=Shown("One two three.")),
    *_both("ADK", "adk", "count", ideal=Shown("One two three.")),
    Cell("silent for 20 s, stream", "silent", "stream", (("hello",),), Shown("Here I am."), slow=True),
    Cell("unknown task, send", "whole", "send_to", ((UNKNOWN, "hello"),), Told("Task not found. Check the id")),
    Cell("unknown task, stream", "whole", "stream_to", ((UNKNOWN, "hello"),), Told("Task not found. Check the id")),
    Cell("ended task, send", "whole", "send_to", ((ENDED, "hello"),), Told("takes no more messages")),
    Cell("ended task, stream", "whole", "stream_to", ((ENDED, "hello"),), Told("takes no more messages")),
    Cell("unknown task, get", "whole", "get", ((UNKNOWN,),), Told("Task not found. Check the id")),
]
