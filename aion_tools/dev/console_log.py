"""Console log of `aion dev`, with a short line for each record and tracebacks of the author's code only."""

import contextlib
import logging
import re
import sys
import time
import traceback
from collections.abc import Iterator
from itertools import groupby
from traceback import FrameSummary

from aion_core import log
from aion_core.errors import AionError
from aion_core.loading.importing.one_module import GENERATED_NAME
from aion_core.source_files import package_of
from aion_tools.dev.console_address import console_address
from aion_tools.terminal import beneath, clean, short_id

_RESET, _DIM, _RED, _GREEN, _YELLOW = "\033[0m", "\033[2m", "\033[31m", "\033[32m", "\033[33m"

_NODE = re.compile(r"During task with name '(?P<node>[^']*)' and id '[^']*'")
"""Text of the note added by LangGraph to an exception of a node, with the node's name."""

_SHOWN_MARK = "_aion_shown"
"""Name of an attribute set on an exception after its traceback has been printed."""

_SHOWN = ("agent", "task_id", "context_id")
"""Labels of a log record printed at the end of its line."""


def install(*, colour: bool, verbose: bool = False, base_url: str = "") -> None:
    """Write this process's log records to standard error in the console format. With `verbose`, each step of a turn too.

    A failed turn gets its address in the console of the server at `base_url`.
    """
    # Import it here, so that a process which only formats tracebacks does not load the server's composition.
    from aion_core.bootstrap.agent_environment import NOT_SET

    # Hide messages whose information another line or the supervisor prints.
    hidden = {"A turn begins.", NOT_SET}
    handler = logging.StreamHandler(beneath(sys.stderr))  # it has colours, and cleans its texts itself
    handler.setFormatter(ConsoleFormatter(colour=colour, base_url=base_url))
    handler.addFilter(lambda record: record.msg not in hidden and not _is_repeated(record))
    handler.addFilter(is_wanted)
    log.handle_records(handler, alone=True)
    logging.getLogger().setLevel(logging.INFO)
    for name in ("aion_core", "aion_tools"):
        logging.getLogger(name).setLevel(logging.INFO)
    logging.getLogger("aion_core.internal").setLevel(logging.WARNING)
    if verbose:
        logging.getLogger("aion_core.trace.steps").setLevel(logging.DEBUG)
    # Hide urllib3's warning about a full connection pool, because many leases may be renewed at once.
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)


class ConsoleFormatter(logging.Formatter):
    """Log formatter with a short form for HTTP requests and agents' turns. Other records keep their message."""

    def __init__(self, *, colour: bool, base_url: str = "") -> None:
        super().__init__()
        self._colour, self._base_url = colour, base_url

    def format(self, record: logging.LogRecord) -> str:
        """Return the log record as a line of text, followed by its traceback if it has one."""
        at = self._in(_DIM, time.strftime("%H:%M:%S", time.localtime(record.created)))
        fields = vars(record)
        if "operation" in fields:
            text = f"{fields['operation']} {self._in(_RED if fields['is_failure'] else _GREEN, fields['status'])}"
            text += f" {fields['duration_ms']} ms"
        elif "state" in fields and "duration_ms" in fields:
            state = fields["state"]
            colour = {"completed": _GREEN, "failed": _RED}.get(state, _YELLOW)
            chunks = f", {fields['chunks']} chunks" if fields.get("chunks") else ""
            text = f"turn {self._in(colour, state)} {fields['duration_ms']} ms{chunks}"
        elif "step" in fields:
            return f"{at}   {self._in(_DIM, log.one_line(record.getMessage()))}"
        else:
            level = f"{record.levelname} " if record.levelno >= logging.WARNING else ""
            colour = _RED if record.levelno >= logging.ERROR else _YELLOW if level else ""
            text = (
                self._in(colour, clean(f"{level}{record.getMessage()}"))
                + f" {self._in(_DIM, _source(record))}".rstrip()
            )
        labels = log.labels_of(record)
        ids = [
            f"{name.removesuffix('_id')} {log.one_line(short_id(str(labels[name])))}"
            for name in _SHOWN
            if labels.get(name)
        ]
        line = "  ".join([at, text, *([self._in(_DIM, " ".join(ids))] if ids else [])])
        if fields.get("state") == "failed" and self._base_url and all(labels.get(name) for name in _SHOWN):
            place = console_address(self._base_url, *(str(labels[name]) for name in ("agent", "context_id", "task_id")))
            line += f"\n          {self._in(_DIM, log.one_line(place))}"
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return line
        if _is_shown(error):
            return f"{line}\n  {self._in(_RED, _last_lines(error)[-1])}  (traceback above)"
        _mark_shown(error)
        *above, last = traceback_lines(error)
        return "\n".join([line, *(f"  {each}" for each in above), f"  {self._in(_RED, last)}"])

    def _in(self, colour: str, text: str) -> str:
        return f"{colour}{text}{_RESET}" if self._colour and colour and text else text


def is_wanted(record: logging.LogRecord) -> bool:
    """Return True if the record is to be printed: any of aion or the author's code, and warnings of libraries."""
    is_ours = record.name.partition(".")[0] in _NAMES
    return record.levelno >= logging.WARNING or is_ours or not package_of(record.pathname)


def _is_repeated(record: logging.LogRecord) -> bool:
    """Return True if ADK logs an exception whose traceback the console has printed already."""
    error = record.exc_info[1] if record.exc_info else None
    return error is not None and record.name.startswith("google_adk") and _is_shown(error)


def _is_shown(error: BaseException) -> bool:
    return hasattr(error, _SHOWN_MARK)


def _mark_shown(error: BaseException) -> None:
    # Mark the exception by an attribute. A weak set of printed exceptions is impossible, because Python cannot refer
    # weakly to built-in exceptions.
    with contextlib.suppress(AttributeError):
        setattr(error, _SHOWN_MARK, True)


def _source(record: logging.LogRecord) -> str:
    """Return the name of the record's logger in brackets, or "" for aion's own loggers."""
    if record.name.partition(".")[0] in (*_NAMES, "root"):
        return ""
    # Print the file's name in place of a generated module name, which would tell the developer nothing.
    return f"({record.module if record.name.startswith(GENERATED_NAME) else record.name})"


def traceback_lines(error: BaseException) -> list[str]:
    """Return the lines of a short traceback: the author's frames, and the number of library frames between them.

    If aion has raised the error and no frame of the author's code is involved, return only the error's message.
    """
    lines: list[str] = []
    chain = list(_chain(error))
    if isinstance(error, AionError) and not any(_is_authors(frame) for each in chain for frame in _frames(each)):
        return _last_lines(error)
    if any(_is_authors(frame) for each in chain for frame in _frames(each)):
        # Omit the exceptions that ADK has wrapped around the author's exception, because they add no information.
        chain = [each for each in chain if not _is_adks(each)]
    for number, each in enumerate(chain):
        if number:
            lines.append("which led to:")
        lines += _frame_lines(_frames(each))
        lines += _last_lines(each)
    return lines


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Return the chain of causes of this exception, beginning with the first cause and ending with this exception.

    The exceptions in an exception group, such as from an `asyncio.TaskGroup`, count as causes of the group.
    """
    seen: list[BaseException] = []
    left: list[BaseException] = [error]
    while left:
        current = left.pop()
        if any(current is each for each in seen):
            continue
        seen.append(current)
        cause = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
        left += [cause] if cause is not None else []
        left += current.exceptions if isinstance(current, BaseExceptionGroup) else ()
    return reversed(seen)


def _is_adks(error: BaseException) -> bool:
    return f"{type(error).__module__}.".startswith("google.adk.") and not any(map(_is_authors, _frames(error)))


def _frames(error: BaseException) -> list[FrameSummary]:
    return list(traceback.extract_tb(error.__traceback__))


def _last_lines(error: BaseException) -> list[str]:
    texts = (text.rstrip("\n") for text in traceback.format_exception_only(error))
    # Escape control characters, because the text of an exception may come from a caller and could control the terminal.
    lines = [log.one_line(line) for text in texts for line in text.split("\n")]
    notes = [match["node"] for line in lines if (match := _NODE.fullmatch(line))]
    lines = [line for line in lines if not _NODE.fullmatch(line)]
    if notes:
        lines[-1] += f"  (in the node {notes[0]!r})"
    return lines


def _frame_lines(frames: list[FrameSummary]) -> Iterator[str]:
    authors = any(_is_authors(frame) for frame in frames)
    for is_authors, group in groupby(frames, _is_authors):
        some = list(group)
        if is_authors:
            yield from (line for frame in some for line in _shown(frame))
            continue
        # If no frame is of the author's code, show the last frame, which has raised the exception.
        shown = [] if authors else some[-1:]
        hidden = some[: len(some) - len(shown)]
        if hidden:
            yield f"… {len(hidden)} frame{'s' if len(hidden) > 1 else ''} of {', '.join(_packages(hidden))}"
        yield from (line for frame in shown for line in _shown(frame))


def _shown(frame: FrameSummary) -> list[str]:
    where = f'File "{frame.filename}", line {frame.lineno}, in {frame.name}'
    return [where, f"  {frame.line}"] if frame.line else [where]


_NAMES = ("aion_core", "aion_tools", "handlers")
"""Names of aion's own loggers."""


def _is_authors(frame: FrameSummary) -> bool:
    return not package_of(frame.filename)


def _packages(frames: list[FrameSummary]) -> list[str]:
    return list(dict.fromkeys(package_of(frame.filename) for frame in frames))
