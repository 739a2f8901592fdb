"""Code of an agent's author with type errors. Each wrong line names the expected error of mypy."""

from a2a.types import Message, Task
from langgraph.runtime import Runtime
from langgraph.types import StreamWriter

from aion.langgraph import AionContext
from aion.langgraph.stream import emit_data, emit_file, emit_message, emit_task_metadata
from aion.shared.types import A2AOutbox


async def node(state: object, runtime: Runtime[AionContext], writer: StreamWriter) -> None:
    print(runtime.context.message.text)  # wrong: union-attr
    print(runtime.context.mesage)  # wrong: attr-defined
    runtime.context.thread.reply("Hello")  # wrong: unused-coroutine
    await runtime.context.thread.reply(7)  # wrong: arg-type
    await runtime.context.thread.history(limit="all")  # wrong: arg-type
    print(runtime.context.event.kind == "mesage")  # wrong: comparison-overlap
    emit_file(writer, url="https://example.com/report.pdf")  # wrong: call-arg
    emit_file(writer, "https://example.com/report.pdf", mime_type="a/b")  # wrong: call-arg
    emit_data(writer, {}, nam="analysis")  # wrong: call-arg
    emit_message(writer, "Processing complete")  # wrong: arg-type
    emit_task_metadata(writer, ["progress"])  # wrong: arg-type
    A2AOutbox(message=Task())  # wrong: arg-type
    A2AOutbox(mesage=Message())  # wrong: call-arg
