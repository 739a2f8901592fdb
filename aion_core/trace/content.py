"""Arguments and results of steps as short texts without credentials. Pure, but for the known secrets of the process."""

import json
from typing import Any

from aion_core import log
from aion_core.protocol.text import utf8
from aion_core.redaction import without_credentials

LONGEST = 4_096
"""Most characters of one argument list or result."""

MARGIN = 1_024
"""Characters read beyond the limit, so that a credential across the limit is recognised before the cut."""

CUT = " …"
"""End of a text that was cut."""


def short_text(value: Any, longest: int = LONGEST) -> str:
    """Return the value as JSON, or a text as it is, cut after `longest` characters and without credentials.

    The cost doesn't depend on the size of a value that is cut, unless it is one long text within an object.
    """
    text = value if isinstance(value, str) else _json(value, longest + MARGIN)
    is_cut = len(text) > longest
    given = text[: longest + MARGIN]
    clean = without_credentials(str(log.without_secrets(utf8(given))))
    if not is_cut:
        return clean
    # The end of what was read may be half a credential, which nobody can recognise: leave it out, also if the redaction
    # has made the text shorter.
    end = len(clean) - MARGIN if len(given) == longest + MARGIN else len(clean)
    return clean[: max(0, min(longest, end))] + CUT


def _json(value: Any, longest: int) -> str:
    """Return the value as JSON, or its first characters if there are more than `longest`."""
    pieces, length = [], 0
    for piece in _ENCODER.iterencode(value):
        pieces.append(piece)
        length += len(piece)
        if length > longest:
            break
    return "".join(pieces)


_ENCODER = json.JSONEncoder(ensure_ascii=False, default=str, skipkeys=True)
