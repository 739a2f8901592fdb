"""Place of an agent's answer in its task: by `answer` in aion.yaml, or else as the agent's own server has it."""

from collections.abc import Sequence
from pathlib import Path

from aion_core.engine.agent_options import AnswerAs
from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.frameworks import FRAMEWORKS
from aion_core.loading.importing.places import LANGGRAPH_JSON, agent_files, import_roots

_CARD_FILES = tuple(framework.card_file for framework in FRAMEWORKS.values() if framework.card_file)


def answer_form(config: AgentConfig, folder: Path, roots: Sequence[Path] = ()) -> AnswerAs:
    """Return the place of the agent's answer. `folder` is the project's, `roots` are its further folders for imports.

    LangGraph's server and ADK's answer with artifacts. A project that comes with the file of one of them (a
    langgraph.json, or an agent.json beside the agent) has clients that look there. Other agents answer with a message.
    """
    if config.answer is not None:
        return config.answer
    files = agent_files(config.path.partition(":")[0], import_roots(folder, roots))
    served = [folder / LANGGRAPH_JSON, *(file.parent / name for file in files for name in _CARD_FILES)]
    return AnswerAs.ARTIFACT if any(file.is_file() for file in served) else AnswerAs.MESSAGE
