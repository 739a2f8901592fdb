"""Greeting of the development server, printed once it answers."""

import json
from collections.abc import Collection, Mapping

from aion_core.agents.config import AgentConfig, default_agent

STOPS = "Ctrl-C stops it."


def greeting(
    agents: Mapping[str, AgentConfig],
    base_url: str,
    where: str,
    credentials: str = "",
    *,
    failed: Mapping[str, str] | None = None,
    per_turn: Collection[str] = (),
) -> str:
    """Return where each agent answers, and what to say to the one at the root; `failed` ones do not answer.

    `per_turn` are the agents whose factory is called for each turn.
    """
    failed, lines = failed or {}, []
    at_root = default_agent(agents)
    answering = [agent_id for agent_id in agents if agent_id not in failed]
    for agent_id, agent in agents.items():
        name = agent.name or agent_id
        if agent_id in failed:
            lines.append(f"{name} does not answer, since it cannot be loaded: see above.")
            continue
        places = [f"{base_url}/agents/{agent_id}/"]
        if agent_id == at_root:
            places.insert(0, f"{base_url}/")
        lines.append(f"{name} answers at {' and '.join(places)}")
        if agent_id in per_turn:
            lines.append(f"{name}: its factory is called for each turn, and has not been called yet")
    if not answering:
        waits = f"The server at {base_url}/ waits for an edit; until then its tasks fail."
        return "\n".join([*lines, waits, where, "", STOPS])
    asked = base_url if at_root in answering else f"{base_url}/agents/{answering[0]}"
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "SendStreamingMessage",
        "params": {"message": {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "Hello, who is there?"}]}},
    }
    return "\n".join(
        [
            *lines,
            f"Card: {asked}/.well-known/agent-card.json",
            where,
            "",
            "Say something:",
            "",
            f"  curl -sN {asked}/ -H 'Content-Type: application/json' \\",
            *([f"    -H '{credentials}' \\"] if credentials else []),
            f"    -d '{json.dumps(request)}'",
            "",
            STOPS,
        ]
    )
