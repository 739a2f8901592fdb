"""Start message of `aion sam-local`: where the agents are, and what differs from AWS."""

from collections.abc import Mapping

from aion_core.loading.aion_yaml.agent import AgentConfig, default_agent
from aion_tools.dev.greeting import STOPS, example_request
from aion_tools.sam_local.reach import LOOPBACK
from aion_tools.sam_local.server import Running

DIFFERENCES = """\
Unlike on AWS:
- A function handles one request at a time, and others wait. Its first request starts a container (5 to 10 seconds).
- A stream arrives whole, at its end.
- A request of 6 MB or more fails with 502, and a larger response with 500.
- There is no IAM: nobody signs requests, and a permission that a role lacks does not show.
- The agents' own calls to AWS reach the emulated one, which has DynamoDB, S3, SQS and KMS."""


def greeting(agents: Mapping[str, AgentConfig], running: Running) -> str:
    """Return the start message, with a curl command for the default agent."""
    base_url, lines = running.base_url, []
    at_root = default_agent(agents)
    for agent_id, agent in agents.items():
        places = [f"{base_url}/agents/{agent_id}/"]
        if agent_id == at_root:
            places.insert(0, f"{base_url}/")
        lines.append(f"{agent.name or agent_id} is available at {' and '.join(places)}")
    return "\n".join(
        [
            *lines,
            f"Agent card: {base_url}/.well-known/agent-card.json",
            f"State is in the emulated AWS at {running.endpoint}, until the end of this command.",
            webhooks(running),
            "",
            "Send a message:",
            "",
            *example_request(agents[at_root], base_url),
            "",
            DIFFERENCES,
            "",
            "Edits need a new start. " + STOPS,
        ]
    )


def webhooks(running: Running) -> str:
    """Return the sentence on the address of a webhook on this machine."""
    reach = running.reach
    address = f"register http://{reach.name}:PORT/"
    if reach.host == LOOPBACK:
        return f"For a webhook on this machine, {address}."
    return (
        f"For a webhook on this machine, {address} and listen on {reach.host} or 0.0.0.0, because {LOOPBACK} in a container is "
        "the container itself."
    )
