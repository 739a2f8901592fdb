"""Text of a function call, for people."""

import json
from collections.abc import Mapping
from typing import Any


def call_text(name: Any, args: Mapping[str, Any]) -> str:
    """Return the call as text, such as `mail(to="ada")`. Values are JSON; a value without a JSON form is its `str`."""
    shown = (f"{key}={json.dumps(value, default=str, ensure_ascii=False)}" for key, value in args.items())
    return f"{name}({', '.join(shown)})"
