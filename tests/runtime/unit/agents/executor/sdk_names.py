"""Program that runs lines of code under one version of the a2a-sdk, and prints those that it refuses.

`python sdk_names.py` reads {"setup": code, "lines": [code, …]} from stdin, and prints a JSON array of lines.
"""

import ast
import asyncio
import inspect
import json
import sys
from typing import Any


async def refused(setup: str, lines: list[str]) -> list[str]:
    """Return the lines that raise an exception, each of them run after the setup."""
    found = []
    for line in lines:
        names: dict[str, Any] = {}
        exec(setup, names)  # noqa: S102  # code of the tests
        try:
            code = compile(line, line, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            result = eval(code, names)  # noqa: S307  # code of the tests and the guide
            if inspect.isawaitable(result):
                await result
        except Exception:
            found.append(line)
    return found


if __name__ == "__main__":
    given = json.load(sys.stdin)
    print(json.dumps(asyncio.run(refused(given["setup"], given["lines"]))))
