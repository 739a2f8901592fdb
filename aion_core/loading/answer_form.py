"""Place of an agent's answer in its task: by `answer` in aion.yaml, or else as the agent's own server has it."""

from collections.abc import Sequence
from pathlib import Path

from aion_core.engine.agent_options import AnswerAs
from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.frameworks import FRAMEWORKS
from aion_core.loading.importing.places import LANGGRAPH_JSON, agent_files, import_roots


def answer_form(config: AgentConfig, folder: Path, roots: Sequence[Path] = ()) -> AnswerAs:
    """Return the place of the agent's answer. `folder` is the project's, `roots` are its further folders for imports.

    LangGraph's server and ADK's answer with artifacts. A project that comes with the file of one of them (a
    langgraph.json, or an agent.json beside the agent) has clients that look there. Other agents answer with a message.
    """
    if config.answer is not None:
        return config.answer
    is_served = (folder / LANGGRAPH_JSON).is_file() or _is_served_by_adk(config, folder, roots)
    return AnswerAs.ARTIFACT if is_served else AnswerAs.MESSAGE


def _is_served_by_adk(config: AgentConfig, folder: Path, roots: Sequence[Path]) -> bool:
    files = agent_files(config.path.partition(":")[0], import_roots(folder, roots))
    places = {file.parent for file in files if (file.parent / FRAMEWORKS["adk"].card_file).is_file()}
    if not places:
        return False
    # Import late, because few projects have such a file.
    from aion_core.loading.discovery.adk_folders import is_adk_folder

    return any(map(is_adk_folder, places))
