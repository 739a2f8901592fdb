"""Card of an agent as its author has written it, read without running the code, as keys for aion.yaml."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.card_sources.card_file import read_card_file
from aion_core.loading.card_sources.sources import without_generic_name
from aion_core.loading.card_sources.texts import first_paragraph, project_description
from aion_core.loading.discovery.discovered import Discovered
from aion_core.loading.discovery.python_files import agent_file
from aion_core.loading.discovery.statements import assigned_values, imports_of, last_name, top_level
from aion_core.loading.frameworks import FRAMEWORKS
from aion_core.loading.importing.places import agent_files, import_roots
from aion_core.loading.importing.syntax import parsed
from aion_core.protocol.card import first_of
from aion_core.protocol.types import AgentCard, AgentProvider, AgentSkill
from aion_tools.agent_code.imports import frameworks_of

_CLASSES: Mapping[str, Any] = {"AgentCard": AgentCard, "AgentSkill": AgentSkill, "AgentProvider": AgentProvider}
"""Classes of the a2a-sdk that a card in the code is made of."""

_NAMED_BY = ("compile", "create_agent", "create_react_agent", "create_deep_agent")
"""Functions whose keyword `name` is the name of a graph."""


def with_card_keys(found: Discovered) -> dict[str, AgentConfig]:
    """Return the discovered agents, each with the keys of its card that the code and the files beside it state."""
    roots = import_roots(found.folder, found.roots)
    return {
        agent_id: _with_keys(agent, first_of(_layers(agent.path, found.folder, roots, is_only=len(found.agents) == 1)))
        for agent_id, agent in found.agents.items()
    }


def _with_keys(agent: AgentConfig, card: AgentCard) -> AgentConfig:
    """Return the agent with the card's texts and skills. Its media types stay those that reach the code."""
    stated: dict[str, Any] = {
        "name": card.name,
        "description": card.description,
        "version": card.version,
        "documentation_url": card.documentation_url,
        "icon_url": card.icon_url,
        "provider": {"organization": card.provider.organization, "url": card.provider.url}
        if card.provider.url
        else None,
        "skills": [
            {
                "id": skill.id,
                "name": skill.name,
                "description": skill.description,
                "tags": list(skill.tags),
                "examples": list(skill.examples),
            }
            for skill in card.skills
        ],
    }
    given = agent.model_dump(exclude_defaults=True)
    for key, value in stated.items():
        try:
            # Keep only valid values, because an invalid one would make the whole file unusable.
            given = AgentConfig.model_validate({key: value, **given}).model_dump(exclude_defaults=True)
        except ValidationError:
            continue
    return AgentConfig.model_validate(given)


def _layers(path: str, folder: Path, roots: Sequence[Path], *, is_only: bool) -> Iterator[AgentCard]:
    place, _, name = path.partition(":")
    files = [file for file in agent_files(place, roots) if file.is_file()]
    modules = [_Module(file) for file in files if file.suffix == ".py"]
    beside = [*modules, *(each for file in files for each in _Module.servers_beside(file))]
    yield from (card for module in beside if (card := module.declared_card()) is not None)
    frameworks = frameworks_of(files[0], roots) if files else set()
    names = [FRAMEWORKS[each].card_file for each in frameworks if FRAMEWORKS[each].card_file]
    yield from (read_card_file(file.parent / name) for file in files[:1] for name in names)
    yield from (without_generic_name(module.agent_card(name)) for module in modules)
    yield from (AgentCard(description=first_paragraph(module.docstring)) for module in modules)
    if is_only:
        yield AgentCard(description=project_description(folder))


class _Module:
    """Syntax tree of a file, with the values of its names as far as they are literals."""

    def __init__(self, file: Path) -> None:
        self._file, self._tree = file, (tree := parsed(file))
        _, self._imported = imports_of(tree)
        # A card of the a2a-sdk's examples is made below `if __name__ == "__main__":`, or in a function.
        self._all = dict(assigned_values(ast.walk(tree)))
        self._top = dict(assigned_values(top_level(tree.body)))
        self.docstring = ast.get_docstring(tree)

    @classmethod
    def servers_beside(cls, file: Path) -> Iterator["_Module"]:
        """Yield the files beside an executor's file that start a server with it."""
        for name in ("__main__.py", "main.py", "server.py", "app.py"):
            if (beside := file.parent / name) != file:
                module = cls(beside)
                if file.stem in {each.rpartition(".")[2] for each in imports_of(module._tree)[0]}:
                    yield module

    def declared_card(self) -> AgentCard | None:
        """Return the first AgentCard that the file makes, or None."""
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Call) and last_name(node.func, self._imported) == "AgentCard":
                card = self._value(node)
                return card if isinstance(card, AgentCard) else None
        return None

    def agent_card(self, name: str) -> AgentCard:
        """Return what the statement that defines the agent says: a graph's name, an ADK agent's description."""
        name = name or self._only_agent()
        for node in top_level(self._tree.body):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == name:
                return AgentCard(description=first_paragraph(ast.get_docstring(node)))
        call = self._top.get(name)
        if isinstance(call, ast.Call) and last_name(call.func, self._imported) == "App":
            root = next((each.value for each in call.keywords if each.arg == "root_agent"), None)
            call = self._top.get(root.id) if isinstance(root, ast.Name) else root
        card = AgentCard()
        for each in _chain(call):
            values = {keyword.arg: self._value(keyword.value) for keyword in each.keywords if keyword.arg}
            if last_name(each.func, self._imported) in _NAMED_BY and isinstance(values.get("name"), str):
                card.name = values["name"]
            if isinstance(values.get("description"), str):
                card.description = values["description"]
        return card

    def _only_agent(self) -> str:
        found = agent_file(self._file)
        names = found.names if found is not None else ()
        return next((usual for usual in ("app", "root_agent", "graph") if usual in names), names[-1] if names else "")

    def _value(self, node: ast.expr | None, depth: int = 8) -> Any:
        """Return the value of an expression of literals, of names of literals, and of a card's classes; else None."""
        if isinstance(node, ast.Name) and depth:
            return self._value(self._all.get(node.id), depth - 1)
        if isinstance(node, ast.List | ast.Tuple) and depth:
            values = [self._value(each, depth - 1) for each in node.elts]
            return [value for value in values if value is not None]
        if isinstance(node, ast.Call) and depth:
            return self._made(node, depth)
        try:
            return ast.literal_eval(node) if node is not None else None
        except (ValueError, TypeError, SyntaxError, RecursionError):
            return None

    def _made(self, node: ast.Call, depth: int) -> Any:
        made_by = _CLASSES.get(last_name(node.func, self._imported))
        if made_by is None:
            return None
        made = made_by()
        for keyword in node.keywords:
            value = self._value(keyword.value, depth - 1)
            if keyword.arg and value is not None:
                try:
                    made.MergeFrom(made_by(**{keyword.arg: value}))
                except (TypeError, ValueError):  # a field of A2A 0.3, or a value that is no literal
                    continue
        return made


def _chain(call: ast.expr | None) -> Iterator[ast.Call]:
    """Yield the calls of a chain such as `StateGraph(State).add_node(…).compile(…)`, from the last to the first."""
    while isinstance(call, ast.Call):
        yield call
        call = call.func.value if isinstance(call.func, ast.Attribute) else None
