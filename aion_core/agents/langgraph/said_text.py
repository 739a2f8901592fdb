"""One text that a turn says to its client, and its place among the others."""

from collections.abc import Callable, Iterator, Sequence

from langchain_core.messages import AIMessage
from msgspec import Struct

from aion_core.agents.langgraph.added_messages import is_by_model


class SaidText(Struct, eq=False):
    """Text of a model that has streamed it, or of a message in the state, or of both."""

    key: str
    """Idempotency key. It is the same in another process that resumes the turn."""
    call: str = ""
    """Message id of the streamed model call; "" for a message that was not streamed."""
    message: AIMessage | None = None
    """The message that the state got. None for a text that is only streamed."""
    is_due: bool = False
    """True if the text is recorded although it may be the turn's answer."""
    earlier: str = ""
    """The text, if another process has streamed it."""
    has_waited: bool = False
    """True if the client has got the text as a chunk, because it had to wait to be recorded."""

    @property
    def message_id(self) -> str:
        """Id of the message in the state, or else of the model call; "" if the message has none."""
        return (self.message.id or "") if self.message is not None else self.call

    @property
    def client_id(self) -> str:
        """Id under which the client gets the text: that of its stream, also if a node has put it into another message."""
        return self.call or self.message_id

    @property
    def is_by_author(self) -> bool:
        """True if the author's code has made the text, and no model, streamed or not."""
        return not self.call and self.message is not None and not is_by_model(self.message)

    def may_wait(self, latest: str, last: str | None) -> bool:
        """Return True if the text may be the turn's answer.

        So may the last message of the state, whose id is `last`, unless it calls a tool. So may a text that no node has
        returned, if it is that of the `latest` model call.
        """
        if self.message is None:
            return self.call == latest
        return not self.is_due and self.message.id == last and not self.message.tool_calls


def add_in_order(texts: list[SaidText], added: Sequence[SaidText], run_of: Callable[[str], str]) -> None:
    """Add texts to the list, those of one run of a node in the given order: this is the order of the state.

    The list has the streamed ones already, in the order in which their models began. `run_of` returns the run in which a
    model was called.
    """
    if len(added) == 1 and added[0] not in texts:
        texts.append(added[0])
    for run in _runs(added, run_of) if len(added) > 1 else ():
        _place(texts, run)


def _place(texts: list[SaidText], run: Sequence[SaidText]) -> None:
    streamed = [text for text in run if text in texts]
    for place, text in zip(sorted(map(texts.index, streamed)), streamed, strict=True):
        texts[place] = text
    place = texts.index(streamed[0]) if streamed else len(texts)
    for text in run:
        if text in texts:
            place = texts.index(text) + 1
        else:
            texts.insert(place, text)
            place += 1


def _runs(texts: Sequence[SaidText], run_of: Callable[[str], str]) -> Iterator[list[SaidText]]:
    """Yield the texts by the run of the node that has said them. A message that was not streamed joins the one before it."""
    run: list[SaidText] = []
    name: str | None = None
    for text in texts:
        own = run_of(text.call) if text.call else name
        if run and name is not None and own != name:
            yield run
            run = []
        run.append(text)
        name = own
    if run:
        yield run
