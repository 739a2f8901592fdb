"""All sources of an agent's card beside aion.yaml, in order of precedence."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from aion_core.engine.agent_profile import AgentProfile
from aion_core.loading.card_sources.aion_use import uses_aion
from aion_core.loading.card_sources.card_file import read_card_file
from aion_core.loading.card_sources.declared_cards import card_of_module
from aion_core.loading.card_sources.texts import first_paragraph, project_description
from aion_core.loading.discovery.agent_ids import GENERIC_NAMES
from aion_core.loading.frameworks import FRAMEWORKS
from aion_core.loading.objects.loaded import LoadedObject, framework_of_loaded
from aion_core.protocol.card import first_of
from aion_core.protocol.types import AgentCard


def full_profile(
    found: LoadedObject, said: AgentProfile, folder: Path, roots: Sequence[Path] = (), *, is_only: bool = True
) -> AgentProfile:
    """Return the profile of a loaded agent with all sources of its card.

    `said` is what the adapter of the agent's framework knows. `is_only` is True for the only agent of a project, which
    the project's own description then describes.
    """
    # What can start the agent follows from its code, whatever the author's card promises.
    input_modes = AgentCard(default_input_modes=said.card.default_input_modes)
    declared = found.card or card_of_module(found.module)
    layers = [input_modes, declared, _card_file(found), without_generic_name(said.card), _docstring(found)]
    if is_only:
        layers.append(AgentCard(description=project_description(folder)))
    return replace(
        said,
        card=first_of(layers),
        uses_aion_extensions=said.uses_aion_extensions or uses_aion(found.module, [folder, *roots]),
    )


def without_generic_name(card: AgentCard) -> AgentCard:
    """Return the card without a name that many agents have, such as `root_agent`: the agent's id tells more."""
    if card.name not in GENERIC_NAMES:
        return card
    named = AgentCard()
    named.CopyFrom(card)
    named.name = ""
    return named


def _card_file(found: LoadedObject) -> AgentCard:
    name = FRAMEWORKS[framework].card_file if (framework := framework_of_loaded(found.agent)) else ""
    file = found.agent if isinstance(found.agent, Path) else getattr(found.module, "__file__", None)
    return read_card_file(Path(file).parent / name) if name and file else AgentCard()


def _docstring(found: LoadedObject) -> AgentCard:
    """Return a card with the docstring of the agent's function or class, or else of its module."""
    texts = (found.docstring, _own_docstring(found.agent), getattr(found.module, "__doc__", None))
    return AgentCard(description=next(filter(None, map(first_paragraph, texts)), ""))


def _own_docstring(agent: Any) -> str | None:
    # A class of the author has a docstring of its own, which `getdoc` would not tell from an inherited one.
    docstring: str | None = vars(type(agent)).get("__doc__")
    return docstring if not type(agent).__module__.startswith(_FRAMEWORKS) else None


_FRAMEWORKS = ("langgraph", "langchain", "google.", "a2a.", "aion_core.", "pathlib", "builtins")
"""Module name prefixes of classes whose docstrings describe the framework, not the agent."""
