"""Start message of the development server, with the agents' URLs and an example request."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from aion_core.errors import ContentTypeNotSupported
from aion_core.loading.agent_cards import DESCRIBE_IT, UNDESCRIBED, is_described, public_card
from aion_core.loading.aion_yaml.agent import AgentConfig, default_agent
from aion_core.loading.lazy_agent import LazyAgent
from aion_core.protocol.media_types import check_parts, modes_of
from aion_core.protocol.types import AgentCard, Part
from aion_tools.dev.data_folder import STORE
from aion_tools.dev.worker_task import WorkerTask
from aion_tools.shipped import shipped

STOPS = "Press Ctrl-C to stop."

HELLO = "Hello, who is there?"
"""Text of the example request."""


def example_agent(agents: Mapping[str, AgentConfig], failed: Collection[str]) -> str:
    """Return the id of the agent in the example request: the default agent or, if it failed, the first loaded one."""
    at_root = default_agent(agents)
    return min(agents, key=lambda agent_id: (agent_id in failed, agent_id != at_root))


def agents_greeting(
    task: WorkerTask,
    configs: Mapping[str, AgentConfig],
    agents: Mapping[str, LazyAgent],
    failures: Mapping[str, str],
    credentials: str,
) -> str:
    """Return the start message for these agents. `failures` and `credentials` are those of `greeting`."""
    said = {agent_id: agent.profile() for agent_id, agent in agents.items() if agent_id not in failures}
    called = example_agent(configs, failures)
    return greeting(
        configs,
        task.base_url,
        where_stored(task),
        credentials,
        failed=failures,
        per_turn=[agent_id for agent_id in said if agents[agent_id].is_per_turn],
        undescribed=[agent_id for agent_id in said if not is_described(agent_id, configs[agent_id], said[agent_id])],
        part=example_part(public_card(called, configs[called], said[called])) if called in said else None,
    )


def where_stored(task: WorkerTask) -> str:
    """Return a sentence about the server's store."""
    if task.store == "memory":
        return "State is stored in memory, until the next reload."
    if task.store == "sqlite":
        return f"State is stored in {_near(Path(task.data_folder) / STORE)} (SQLite)."
    template = Path(task.template)
    of = "template of aion-lambda" if template == shipped() / "template.yaml" else _near(template)
    return f"State is stored in an emulated AWS at {task.place[2]} ({of}), until the server stops."


def _near(path: Path) -> str:
    """Return the path as text. A path below the current folder becomes relative to it."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def greeting(
    agents: Mapping[str, AgentConfig],
    base_url: str,
    where: str,
    credentials: str = "",
    *,
    failed: Mapping[str, str] | None = None,
    per_turn: Collection[str] = (),
    undescribed: Collection[str] = (),
    part: Mapping[str, Any] | None = None,
) -> str:
    """Return the start message with the URLs of each agent, and a curl command for the default agent.

    `where` is a sentence about the store. `failed` has the reason for each agent not loaded, by agent id. `per_turn`
    has the ids of agents created by a factory in each turn, and `undescribed` those of agents whose cards have no
    description. `part` is the message of the curl command.
    """
    failed, lines = failed or {}, []
    at_root, called = default_agent(agents), example_agent(agents, failed)
    for agent_id, agent in agents.items():
        name = agent.name or agent_id
        if agent_id in failed:
            lines.append(f"{name} is not available: it could not be loaded (see above).")
            continue
        places = [f"{base_url}/agents/{agent_id}/"]
        if agent_id == at_root:
            places.insert(0, f"{base_url}/")
        lines.append(f"{name} is available at {' and '.join(places)}")
        if agent_id in per_turn:
            lines.append(f"{name} is created by its factory in each turn; the factory has not been called yet")
        if agent_id in undescribed:
            lines.append(f"{name} {UNDESCRIBED} {DESCRIBE_IT}")
    if called in failed:
        waits = f"The server at {base_url}/ is waiting for an edit. Until then, it refuses messages."
        key = [f"Send this header when an agent is loaded: {credentials}"] if credentials else []
        return "\n".join([*lines, waits, where, *key, "", STOPS])
    target = base_url if called == at_root else f"{base_url}/agents/{called}"
    return "\n".join(
        [
            *lines,
            f"Console for browsers: {base_url}/",
            f"Agent card: {target}/.well-known/agent-card.json",
            where,
            "",
            "Send a message:",
            "",
            *example_request(agents[called], target, credentials, part),
            "",
            STOPS,
        ]
    )


def example_part(card: AgentCard) -> dict[str, Any]:
    """Return the part of a message to try: a text, or the data of the card's first example for an agent that reads no text."""
    try:
        check_parts([Part(text=HELLO)], modes_of(card).takes)
    except ContentTypeNotSupported:
        for example in (example for skill in card.skills for example in skill.examples):
            try:
                return {"data": json.loads(example)}
            except ValueError:  # the example describes the data in words
                continue
    return {"text": HELLO}


def example_request(
    agent: AgentConfig, url: str, credentials: str = "", part: Mapping[str, Any] | None = None
) -> list[str]:
    """Return the lines of a curl command that sends a message to the agent at this URL.

    `credentials` is a header for the agent, or "". `part` is the message's part, by default a text.
    """
    required = ", ".join(each.uri for each in agent.capabilities.extensions if each.required)
    headers = filter(None, [credentials, f"A2A-Extensions: {required}" if required else ""])
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "SendStreamingMessage",
        "params": {"message": {"messageId": "m-1", "role": "ROLE_USER", "parts": [part or {"text": HELLO}]}},
    }
    # Escape the apostrophe, because it would end the shell's string.
    body = json.dumps(request).replace("'", "\\u0027")
    return [
        f"  curl -sN {url}/ -H 'Content-Type: application/json' \\",
        *(f"    -H '{header}' \\" for header in headers),
        f"    -d '{body}'",
    ]
