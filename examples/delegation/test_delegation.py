"""Planner that delegates to the weather agent, with and without signatures."""

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import httpx
import pytest
import yaml
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from aion_core.bootstrap import build_app
from aion_core.settings import Settings
from aion_tools.testing import ENVIRONMENT, serve
from tests.support.e2e.rest_api import CALLER, REGION, signer_of
from tests.support.listening import free_port, listening

HERE = Path(__file__).parent


async def as_api_gateway(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    """Refuse a request without a valid AWS signature, as API Gateway does."""
    if signer_of(request, await request.body()) is None:
        return JSONResponse({"message": "Missing Authentication Token"}, 403)
    return await call_next(request)


@pytest.fixture
def planner() -> Path:
    """Return the aion.yaml of the planner."""
    return HERE / "planner" / "aion.yaml"


@pytest.fixture(params=["open", "signed", "slow"])
def weather(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Serve the weather agent on a real socket, and configure the planner with its URL."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    config = str(HERE / "weather" / "aion.yaml")
    environ = {**ENVIRONMENT, "AION_CONFIG": config, "AION_BASE_URL": url}
    if request.param == "slow":
        # Let the weather agent respond before its task has ended, so that the planner must follow the task.
        environ["AION_BLOCKING_WAIT"] = "0.001"
    app = build_app(Settings.from_environ(environ))
    for name, value in {**CALLER, "WEATHER_URL": url}.items():
        monkeypatch.setenv(name, value)
    if request.param == "signed":
        app.add_middleware(BaseHTTPMiddleware, dispatch=as_api_gateway)
    with listening(app, port=port):
        yield url


@pytest.fixture
def signing_planner(planner: Path, tmp_path: Path) -> Path:
    """Return an aion.yaml of the planner that signs its requests to the weather agent."""
    declared = yaml.safe_load(planner.read_text())
    declared["aion"]["remotes"]["weather"] |= {"scheme": "sigv4", "region": REGION}
    (tmp_path / "agent.py").write_text((HERE / "planner" / "agent.py").read_text())
    path = tmp_path / "aion.yaml"
    path.write_text(yaml.safe_dump(declared))
    return path


async def test_planner_answers_with_help_of_weather_agent(weather: str, signing_planner: Path) -> None:
    async with serve(signing_planner) as client:
        reply = await client.ask("Plan a day in Rome.")
    assert (reply.state, reply.text) == ("completed", "It is sunny in Rome. Go to the beach.")


async def test_planner_forwards_questions_of_weather_agent(weather: str, signing_planner: Path) -> None:
    async with serve(signing_planner) as client:
        reply = await client.ask("Plan a day.")
        for answer in ("Paris", "Oslo"):
            assert (reply.state, reply.text) == ("input-required", "Which city: Rome, Oslo, London?")
            assert reply.task is not None
            reply = await client.ask(answer, task_id=reply.task.id, context_id=reply.context_id)
    assert (reply.state, reply.text) == ("completed", "It is snowy in Oslo. Go skiing.")


@pytest.mark.parametrize("weather", ["open"], indirect=True)
async def test_planner_sends_each_message_to_weather_agent_once(weather: str, planner: Path) -> None:
    """Run the planner's node three times in one task: the weather agent gets each message only once."""
    async with serve(planner) as client:
        reply = await client.ask("Plan a day.")
        for answer in ("Paris", "Oslo"):
            assert reply.task is not None
            reply = await client.ask(answer, task_id=reply.task.id, context_id=reply.context_id)
    async with httpx.AsyncClient(headers={"A2A-Version": "1.0"}) as http:
        listed = (await http.get(f"{weather}/tasks", params={"historyLength": 100})).json()["tasks"]
    assert [
        [message["parts"][0]["text"] for message in task["history"] if message["role"] == "ROLE_USER"]
        for task in listed
    ] == [["Plan a day.", "Paris", "Oslo"]]


@pytest.mark.parametrize("weather", ["signed"], indirect=True)
async def test_weather_agent_refuses_unsigned_request(weather: str, planner: Path) -> None:
    async with serve(planner) as client:
        reply = await client.ask("Plan a day in Rome.")
    assert reply.state == "failed"
    assert reply.text.startswith("The agent weather has refused the message: it answers with HTTP status 403.")
