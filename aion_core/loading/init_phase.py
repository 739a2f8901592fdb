"""Loading of all agents at the start of a Lambda environment."""

import logging
import threading
from collections.abc import Mapping

from aion_core.engine.agent import Agent
from aion_core.errors import ConfigurationError

logger = logging.getLogger(__name__)

INIT_SECONDS = 6.0
"""Time for loading agents in Lambda's init phase. The phase has 10 s, and the imports of the app come before."""


def load_agents(agents: Mapping[str, Agent], results: dict[str, Exception | None]) -> None:
    """Load the agents one after another. Log an error for each agent that cannot be loaded.

    Add each agent's id to `results`, with the error or None.
    """
    for agent_id, agent in agents.items():
        failure: Exception | None = None
        try:
            agent.load()
        except ConfigurationError as error:
            logger.error("%s Its turns will fail until this is fixed.", error)
            failure = error
        except Exception as error:
            logger.exception("An agent cannot be loaded; its turns will fail until its code is fixed.")
            failure = error
        results[agent_id] = failure


def load_in_init(agents: Mapping[str, Agent], seconds: float | None = INIT_SECONDS, *, fails: bool = True) -> None:
    """Load the agents in a thread, and wait for at most `seconds`. A slower import continues in the background.

    If `seconds` is None, wait for all agents. Raise the first error if all agents have failed to load, unless `fails`
    is False.
    """
    results: dict[str, Exception | None] = {}
    # Use a daemon thread, so that an import that hangs does not keep the process running.
    thread = threading.Thread(target=load_agents, args=(agents, results), name="agents", daemon=True)
    thread.start()
    thread.join(seconds)
    if loading := [agent_id for agent_id in agents if agent_id not in results]:
        # Name the agent that is being loaded, because the turns of the following agents wait for it too.
        logger.warning(
            "Loading the agents takes longer than %s s; the first turns wait for the rest.",
            seconds,
            extra={"agent": loading[0]},
        )
    elif fails and (failures := [each for each in results.values() if each]) and len(failures) == len(agents):
        raise failures[0]
