"""Loading of agents at the start of a Lambda environment."""

import logging
import threading
from collections.abc import Sequence

from aion_core.errors import ConfigurationError
from aion_core.ports import Agent

logger = logging.getLogger(__name__)

INIT_SECONDS = 6.0
"""Time for loading agents in Lambda's init phase. The phase has 10 s, and the imports of the app come before."""


def load_agents(agents: Sequence[Agent]) -> list[Exception]:
    """Load the agents one after another. Log an error for each agent that cannot be loaded, and return the errors."""
    failures: list[Exception] = []
    for agent in agents:
        try:
            agent.load()
        except ConfigurationError as error:
            logger.error("%s Its turns will fail until this is fixed.", error)
            failures.append(error)
        except Exception as error:
            logger.exception("An agent cannot be loaded; its turns will fail until its code is fixed.")
            failures.append(error)
    return failures


def load_in_init(agents: Sequence[Agent], seconds: float | None = INIT_SECONDS, *, fails: bool = True) -> None:
    """Load the agents in a thread, and wait for at most `seconds`. A slower import continues in the background.

    If `seconds` is None, wait for all agents. Raise the first error if all agents have failed to load, unless `fails`
    is False.
    """
    failures: list[Exception] = []
    # Use a daemon thread, so that an import that hangs does not keep the process running.
    thread = threading.Thread(target=lambda: failures.extend(load_agents(agents)), name="agents", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        logger.warning("Loading the agents takes longer than %s s; the first turns wait for the rest.", seconds)
    elif fails and failures and len(failures) == len(agents):
        raise failures[0]
