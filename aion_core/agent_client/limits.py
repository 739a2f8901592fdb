"""Limits of other agents' answers, for commands and for agents. An agent's memory is that of a Lambda function."""

from msgspec import Struct

MEGABYTE = 1024**2


class AnswerLimits(Struct, frozen=True):
    """Limits of the answers to one caller, in bytes."""

    answer: int
    """Maximum size of an answer, and of an event in a stream."""
    text: int
    """Maximum size of an answer or event without the content of its files. Python may need four bytes for each character
    of a text, and a caller copies a text ten times until it is shown or stored."""
    kept: int
    """Maximum size of everything that is kept of the answer to one message, over all its events."""


OF_COMMANDS = AnswerLimits(answer=16 * MEGABYTE, text=4 * MEGABYTE, kept=32 * MEGABYTE)
"""Limits for the commands, which only show an answer, or save its files."""

OF_AGENTS = AnswerLimits(answer=6 * MEGABYTE, text=3 * MEGABYTE // 2, kept=6 * MEGABYTE)
"""Limits for the calls of agents: the size of a Lambda function's whole response. An agent's answer is stored, passed on,
and sent to the caller's own client in the end, so that a process has ten copies of it at once."""

MAX_DOCUMENT_BYTES = MEGABYTE
"""Maximum size of an agent's card, and of any other document whose path ends in .json."""

MAX_DOCUMENT_VALUES = 10_000
"""Maximum number of values in the JSON of such a document."""

MAX_VALUES = 100_000
"""Maximum number of values in the JSON of an answer. Parsers need a hundred times the memory of a text with many small
values."""

MAX_DEPTH = 64
"""Maximum nesting of another agent's JSON. Protobuf parses about 31 levels of it."""

MAX_HEARTBEAT_BYTES = MEGABYTE
"""Maximum size of all heartbeats and other comments in one stream: enough for two days with one each second."""
