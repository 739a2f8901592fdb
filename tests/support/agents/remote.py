"""Agent that other agents call. The words of the task's first message say what it does."""

import asyncio
import json
import os
from pathlib import Path

from a2a.helpers.proto_helpers import new_task_from_user_message, new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Message, Part, Role, TaskState
from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Value

NOTES = "REMOTE_NOTES"
"""Variable with the file to which each run writes its task's id and its text."""


class RemoteExecutor(AgentExecutor):
    """Executor for `say …`, `ask` and `ask twice`, `authorize`, `fail`, `reject`, `cancel`, `file`, `data`, `request`, `work …`."""

    fumbled = False

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        if context.get_user_input() == "greet":
            # Answer with a message in place of a task.
            await event_queue.enqueue_event(new_text_message("Hello."))
            return
        task = context.current_task
        if task is None:
            task = new_task_from_user_message(context.message)
            task.id, task.context_id = context.task_id or task.id, context.context_id or task.context_id
            await event_queue.enqueue_event(task)
        if notes := os.environ.get(NOTES):
            with Path(notes).open("a") as file:
                file.write(f"{task.id} {context.get_user_input()}\n")
        answers = [message for message in task.history if message.role == Role.ROLE_USER]
        said = {message.message_id: message.parts[0].text for message in [*answers, context.message]}
        word, _, rest = next(iter(said.values())).partition(" ")
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        await getattr(self, f"_{word}")(updater, rest, list(said.values())[1:], context)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()

    async def _say(self, updater: TaskUpdater, rest: str, *_: object) -> None:
        await updater.complete(updater.new_agent_message([Part(text=f"{rest}!")]))

    async def _ask(self, updater: TaskUpdater, rest: str, answers: list[str], *_: object) -> None:
        if len(answers) < (2 if rest == "twice" else 1):
            await updater.requires_input(updater.new_agent_message([Part(text=f"Question {len(answers) + 1} {rest}?")]))
        else:
            await updater.complete(updater.new_agent_message([Part(text=f"Heard {' and '.join(answers)}.")]))

    async def _authorize(self, updater: TaskUpdater, rest: str, answers: list[str], *_: object) -> None:
        if answers:
            await updater.complete(updater.new_agent_message([Part(text="Authorized.")]))
        else:
            await updater.requires_auth(updater.new_agent_message([Part(text="Log in first.")]))

    async def _await(self, updater: TaskUpdater, rest: str, answers: list[str], *_: object) -> None:
        """Wait for an authorization outside of A2A, then go on."""
        await updater.requires_auth(updater.new_agent_message([Part(text="Log in there.")]))
        await asyncio.sleep(0.5)
        await updater.complete(updater.new_agent_message([Part(text="Seen your login.")]))

    async def _fail(self, updater: TaskUpdater, rest: str, *_: object) -> None:
        await updater.failed(updater.new_agent_message([Part(text="The lake is dry.")]))

    async def _fumble(self, updater: TaskUpdater, rest: str, *_: object) -> None:
        """Fail in the first run of the process only."""
        if self.fumbled:
            await updater.complete(updater.new_agent_message([Part(text="Got it.")]))
        else:
            self.fumbled = True
            await updater.failed()

    async def _reject(self, updater: TaskUpdater, rest: str, *_: object) -> None:
        await updater.reject(updater.new_agent_message([Part(text="Not on Sundays.")]))

    async def _cancel(self, updater: TaskUpdater, rest: str, *_: object) -> None:
        await updater.cancel()

    async def _file(self, updater: TaskUpdater, rest: str, *_: object) -> None:
        await updater.add_artifact(
            [Part(raw=b"a map", media_type="image/png", filename="map.png")], artifact_id="map", name="map"
        )
        await updater.complete(updater.new_agent_message([Part(text="Here is the map.")]))

    async def _chat(self, updater: TaskUpdater, rest: str, *_: object) -> None:
        """Say everything before the end, with a file."""
        parts = [Part(text="See this."), Part(raw=b"a sketch", media_type="image/png", filename="sketch.png")]
        await updater.update_status(TaskState.TASK_STATE_WORKING, updater.new_agent_message(parts))
        await updater.complete()

    async def _data(self, updater: TaskUpdater, rest: str, *_: object) -> None:
        data = Value()
        data.struct_value.update({"degrees": 21})
        await updater.add_artifact([Part(text="Warm."), Part(data=data)], artifact_id="measured")
        await updater.complete()

    async def _request(self, updater: TaskUpdater, rest: str, answers: list[str], context: RequestContext) -> None:
        metadata = {key: value for key, value in context.metadata.items() if not key.startswith("aion:")}
        said = {"metadata": metadata, "message": MessageToDict(context.message or Message())}
        await updater.complete(updater.new_agent_message([Part(text=json.dumps(said))]))

    async def _hold(self, updater: TaskUpdater, rest: str, answers: list[str], *_: object) -> None:
        """Work until a file exists; then ask first, if the text says so."""
        path, *asks = rest.split()
        while not Path(path).exists():
            await asyncio.sleep(0.01)
        if asks and not answers:
            await updater.requires_input(updater.new_agent_message([Part(text="Which?")]))
        else:
            said = f"Held for {answers[0]}." if answers else "Held."
            await updater.complete(updater.new_agent_message([Part(text=said)]))

    async def _work(self, updater: TaskUpdater, rest: str, *_: object) -> None:
        for step in range(int(rest)):
            await updater.update_status(
                TaskState.TASK_STATE_WORKING, updater.new_agent_message([Part(text=f"Step {step}.")])
            )
            await asyncio.sleep(0.5)
        await updater.complete(updater.new_agent_message([Part(text=f"Worked {rest} steps.")]))
