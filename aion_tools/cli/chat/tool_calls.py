"""Tool calls of an answer, each as one line, from the trace of this folder's `aion dev`."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from aion_core.log import one_line
from aion_core.trace.line import duration_text
from aion_core.trace.step import Kind, Step

if TYPE_CHECKING:
    import httpx

POLL_SECONDS = 0.15
"""Pause between two looks at the trace of a running turn."""

LAST_LOOKS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3)
"""Pauses in seconds before the looks at the trace of an ended turn, which is written just after the turn's end."""


_AGENT = re.compile(r"/agents/[^/]+$")


class ToolCalls:
    """Reader of the tool calls of tasks. It shows each once. A server without a trace is asked once."""

    def __init__(self, http: "httpx.AsyncClient", url: str) -> None:
        """`url` is the agent's. Without one, as for a server whose trace nobody may read, there is nothing to show."""
        self._http, self._url = http, url
        self._seen: set[tuple[str, int, int]] = set()

    @asynccontextmanager
    async def shown(self, task_id: Callable[[], str], show: Callable[[Step], None]) -> AsyncIterator[None]:
        """Within the block, show each call that ends. `task_id` returns the id of the running task, or ""."""
        following = asyncio.create_task(self._follow(task_id, show))
        try:
            yield
        finally:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following

    async def show_rest(self, task_id: str, show: Callable[[Step], None]) -> None:
        """Show the calls of the ended turn that are not shown yet. It takes a moment, until its trace is stored."""
        for pause in LAST_LOOKS:
            await asyncio.sleep(pause)
            if await self._look(task_id, show):
                return

    async def _follow(self, task_id: Callable[[], str], show: Callable[[Step], None]) -> None:
        while self._url:
            await asyncio.sleep(POLL_SECONDS)
            if found := task_id():
                await self._look(found, show)

    async def _look(self, task_id: str, show: Callable[[Step], None]) -> bool:
        """Show the calls that have ended since the last look. Return True if there is nothing to wait for."""
        import httpx
        import msgspec
        from a2a.client.errors import A2AClientError

        from aion_core.agent_client.documents import document_of

        if not self._url or not task_id:
            return True
        try:
            if not _AGENT.search(self._url):
                # The turns of the agent at the root are below its own path.
                features = await document_of(self._http.get(f"{self._url}/console/features.json"))
                self._url += f"/agents/{features.raise_for_status().json()['agent']}"
            answer = await document_of(self._http.get(f"{self._url}/console/turns", params={"taskId": task_id}))
            tries = answer.raise_for_status().json()[task_id]["tries"]
            steps = [msgspec.convert(each["steps"], list[Step]) for each in tries]
        except httpx.HTTPStatusError:
            self._url = ""  # the server stores no trace
            return True
        except (httpx.HTTPError, A2AClientError, ValueError, KeyError, TypeError):
            return False
        for fence, each in zip((int(each["fence"]) for each in tries), steps, strict=True):
            for step in each:
                key = (task_id, fence, step.id)
                if step.kind is Kind.TOOL and step.ms is not None and key not in self._seen:
                    self._seen.add(key)
                    show(step)
        return bool(steps and steps[-1] and steps[-1][0].ms is not None)


def line_of_call(step: Step, width: int) -> str:
    """Return the call of a tool as one line of at most `width` characters, but for a long name."""
    took = f"  {duration_text(step.ms)}" if step.ms is not None else ""
    failed = f"✗ {step.error} " if step.error not in ("", "_OTHER") else "✗ " if step.error else ""
    head, arrow = f"· {one_line(step.name)}(", f") → {failed}" if step.result or failed else ")"
    room = max(0, width - len(head) - len(arrow) - len(took))
    result = one_line(" ".join(step.result.split()))
    arguments = _fitted(_arguments(step.arguments), max(room - len(result), room // 2))
    return f"{head}{arguments}{arrow}{_fitted(result, room - len(arguments))}{took}"


def _arguments(text: str) -> str:
    """Return the arguments as in a call in Python; as they are, if they are no JSON object or were cut."""
    try:
        given: Any = json.loads(text)
    except ValueError:
        given = None
    shown = text
    if isinstance(given, dict):
        shown = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in given.items())
    return one_line(" ".join(shown.split()))


def _fitted(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: max(0, room - 1)]}…"
