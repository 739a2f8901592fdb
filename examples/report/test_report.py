"""Progress reports in the stream, and the answer as a data artifact."""

from pathlib import Path

from a2a.types import StreamResponse
from google.protobuf.json_format import MessageToDict

from aion_tools.testing import serve


def progress_of(event: StreamResponse) -> float | None:
    return MessageToDict(event.status_update).get("metadata", {}).get("progress")


async def test_agent_streams_progress_and_returns_report_as_data() -> None:
    async with serve(Path(__file__).with_name("aion.yaml")) as client:
        reply = await client.ask("One word. And two more. And one.")
    assert reply.text == "Sentences: 3. Words: 7."
    assert [found for event in reply.events if (found := progress_of(event)) is not None] == [33, 67, 100]
    assert reply.task is not None
    (report,) = reply.task.artifacts
    assert report.name == "Report"
    data = MessageToDict(report.parts[0])["data"]
    assert (data["sentences"], data["words"]["and"]) == (3, 2)
