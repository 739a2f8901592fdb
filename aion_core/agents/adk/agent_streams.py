"""Streams of the texts of a turn's agents: which message a chunk belongs to, and when a text is complete.

Usually a complete event follows the chunks of a text. A custom agent may yield chunks only; then the end of the agent
completes its text. But this end may arrive before the agent's last events, if a custom agent around it collects the
complete events, or reads all events from a queue. Then the text is open until there is output that can only follow it.
"""

from collections.abc import Callable, Collection, Sequence

from msgspec import Struct, field

from aion_core.protocol.types import Message

Speaker = tuple[str, str]
"""Branch and name of an agent."""


class AgentEnd(Struct):
    """End of an agent whose last events may still arrive."""

    around: list[str]
    """Names of the running custom agents around it, outermost first. They may still pass on its events."""
    lags: bool
    """True if its chunks may still arrive, and not only its complete events."""
    beside: set[str]
    """Names of the agents whose events may arrive before its own. Those of any other agent follow its own."""

    def agent_begins(self, name: str, around: Collection[str]) -> None:
        """Note that another agent begins. Its events follow in the same queue, or come from elsewhere."""
        if set(self.around) <= set(around):
            self.beside.discard(name)
        elif self.lags:
            self.beside.add(name)

    def agent_ends(self, name: str) -> None:
        """Note that another agent ends."""
        self.around = [each for each in self.around if each != name]

    def is_before_output_of(self, name: str) -> bool:
        """Return True if output of this agent follows all events of the agent that has ended."""
        if self.lags and name in self.around:
            return name == self.around[-1]
        return name not in self.beside


class TextStream(Struct):
    """Text that an agent streams."""

    speaker: Speaker
    message_id: str
    end: AgentEnd | None
    """The end of the agent; None while it runs."""
    chunks: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self.chunks)


class AgentStreams:
    """Open streams of the agents of a turn."""

    def __init__(self) -> None:
        self._open: dict[Speaker, TextStream] = {}
        self._begun: set[str] = set()
        """Names of the agents that have begun."""
        self._ends: dict[Speaker, AgentEnd] = {}
        """Ends of the agents that lag and have not begun again."""
        self._said: list[tuple[TextStream, Message]] = []
        """Streams that have become messages although their complete events may still arrive."""

    def add(self, speaker: Speaker, text: str, new_id: Callable[[], str]) -> str:
        """Add a chunk. Return the id of its message, which `new_id` makes for the first chunk."""
        if (stream := self._open.get(speaker)) is None:
            stream = self._open[speaker] = TextStream(speaker, new_id(), self._ends.get(speaker))
        stream.chunks.append(text)
        return stream.message_id

    def close(self, speaker: Speaker) -> str:
        """Remove the agent's open stream and return its message id; "" if it has none."""
        stream = self._open.pop(speaker, None)
        return stream.message_id if stream is not None else ""

    def unfinished(self) -> TextStream | None:
        """Return the last open stream, or None."""
        return next(reversed(self._open.values()), None)

    def agent_begins(self, name: str, around: Collection[str]) -> None:
        """Note that an agent begins, with these custom agents around it."""
        self._begun.add(name)
        for end in self._known_ends():
            end.agent_begins(name, around)
        for speaker in [speaker for speaker in self._ends if speaker[1] == name]:
            # Its next event may belong to its last run or to the new one.
            del self._ends[speaker]
            if speaker in self._open:
                self._open[speaker].end = None

    def agent_ends(self, speaker: Speaker, around: Sequence[str], *, lags: bool) -> Sequence[TextStream]:
        """Note that an agent has ended, with these custom agents around it. Return the streams that this completes.

        If the agent `lags`, its end may arrive before its chunks; otherwise only before its complete events.
        """
        for end in self._known_ends():
            end.agent_ends(speaker[1])
        self._ends = {speaker: end for speaker, end in self._ends.items() if end.around}
        self._said = [(stream, message) for stream, message in self._said if stream.end and stream.end.around]
        ended = AgentEnd(list(around), lags, set(self._begun) if lags else {speaker[1]})
        if lags:
            self._ends[speaker] = ended
        if (stream := self._open.get(speaker)) is not None and stream.end is None:
            stream.end = ended
        return self._take(lambda end: not end.around)

    def before(self, name: str) -> Sequence[TextStream]:
        """Return the streams that are complete because this agent has output: it follows all their events."""
        return self._take(lambda end: end.is_before_output_of(name))

    def ended(self) -> Sequence[TextStream]:
        """Return the streams of all agents that have ended. Call it when no events follow."""
        return self._take(lambda end: True)

    def whole(self) -> Sequence[TextStream]:
        """Return the streams of the ended agents whose chunks have all arrived."""
        return self._take(lambda end: not end.lags)

    def became(self, stream: TextStream, message: Message) -> None:
        """Note that a stream has become a message. Its complete event may still arrive."""
        if stream.end is not None and stream.end.around:
            self._said.append((stream, message))

    def said(self, speaker: Speaker, text: str) -> Message | None:
        """Return the message of the agent that has this text already, if this is the text's late complete event."""
        if (stream := self._open.get(speaker)) is not None and stream.text == text:
            return None
        for index, (stream, message) in enumerate(self._said):
            if stream.speaker == speaker and stream.text == text:
                del self._said[index]
                return message
        return None

    def _known_ends(self) -> list[AgentEnd]:
        streams = [*self._open.values(), *(stream for stream, _ in self._said)]
        return [*self._ends.values(), *(stream.end for stream in streams if stream.end is not None)]

    def _take(self, is_complete: Callable[[AgentEnd], bool]) -> Sequence[TextStream]:
        taken = [stream for stream in self._open.values() if stream.end is not None and is_complete(stream.end)]
        for stream in taken:
            del self._open[stream.speaker]
        return taken
