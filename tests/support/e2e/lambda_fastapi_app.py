"""FastAPI app with a streamed response, for the Lambda runtime loop."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from starlette.background import BackgroundTask

from tests.support.e2e.gates import gate


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, str]]:
    yield {"greeting": "hello"}
    print("lifespan over")


app = FastAPI(lifespan=lifespan)


@app.get("/stream")
async def stream(request: Request) -> StreamingResponse:
    async def events() -> AsyncIterator[str]:
        yield f"data: {request.state.greeting}\n\n"
        await gate("second")
        for _ in range(100):
            yield f"data: {'x' * 1000}\n\n"
        await gate("finished")
        yield "data: bye\n\n"

    async def background() -> None:
        await gate("background")

    return StreamingResponse(events(), media_type="text/event-stream", background=BackgroundTask(background))
