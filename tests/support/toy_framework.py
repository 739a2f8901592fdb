"""Agent framework that only an added entry in the registry makes known."""

from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest

from aion_core.engine.agent import Agent, Emission, Reply, TurnRequest
from aion_core.engine.agent_profile import UNKNOWN, AgentProfile
from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.frameworks import FRAMEWORKS, AgentDependencies, Framework
from aion_core.loading.objects.loaded import LoadedObject
from aion_core.protocol.types import Message, Part, Role
from tests.support.isolated import isolated_imports

TOY = Framework(
    title="a toy",
    adapter=__name__,
    classes=(("toyframe", "Toy"),),
    objects="a Toy",
    remedy="Fix the toy.",
    imports=("toyframe",),
    scanned=("toyframe",),
    constructors=frozenset({"Toy"}),
    distribution="toy-frame",
    missing=("toyframe",),
)


class ToyAgent:
    """Adapter of a toy framework: it answers with the toy's text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def load(self) -> None:
        """See `Agent.load`."""

    def profile(self) -> AgentProfile:
        """See `Agent.profile`."""
        return UNKNOWN

    async def run(self, request: TurnRequest) -> AsyncGenerator[Emission, None]:
        """See `Agent.run`."""
        yield Reply(Message(role=Role.ROLE_AGENT, message_id="m-toy", parts=[Part(text=self._text)]))


def build_agent(loaded: LoadedObject, config: AgentConfig, dependencies: AgentDependencies) -> Agent:
    """Return the adapter for a toy agent."""
    return ToyAgent(loaded.agent.text)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Project with an agent of a framework that only an added entry in the registry makes known."""
    monkeypatch.setitem(FRAMEWORKS, "toy", TOY)
    (tmp_path / "toyframe").mkdir()
    (tmp_path / "toyframe" / "__init__.py").write_text("class Toy:\n    text = 'Hello from a toy.'\n")
    (tmp_path / "agent.py").write_text("from toyframe import Toy\n\nmine = Toy()\n")
    (tmp_path / "aion.yaml").write_text("aion: {agents: {toy: {path: agent.py, description: Answers with a text.}}}\n")
    with isolated_imports(tmp_path):
        yield tmp_path
