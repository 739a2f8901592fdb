"""Composition of the development console: what it adds to the app of the agents."""

import os
import signal
from functools import partial
from importlib.resources import files

from starlette.middleware import Middleware

from aion_core.bootstrap.turns import TurnServices
from aion_core.settings import Settings
from aion_core.web.additions import AppAdditions
from aion_tools.dev.console.receiver import ReceiverMiddleware, WebhookReceiver
from aion_tools.dev.console.requests import DevelopmentConsole, console_routes
from aion_tools.dev.console.turns import TurnViews


def console_additions(settings: Settings, turns: TurnServices) -> AppAdditions:
    """Return the console's routes, its webhook receiver, and the features and scripts of its page.

    Return no additions for a template without push notifications.
    """
    push = turns.stores.push
    if push is None:
        return AppAdditions()
    receiver = WebhookReceiver(settings.push_receiver)
    views = TurnViews(turns.stores.resources.table, turns.clock)
    console = DevelopmentConsole(receiver, turns.stores.tasks, push.configs, push.queue, views, kill_process)
    return AppAdditions(
        agent_routes=partial(console_routes, console),
        middleware=[Middleware(ReceiverMiddleware, receiver=receiver)],
        console_features={"development": True, "receiver": receiver.url},
        console_files=[*files("aion_tools.dev.console").joinpath("static").iterdir()],
    )


def kill_process() -> None:
    """End this process at once, as a crash would: no turn is handed off and no stream is closed."""
    os.kill(os.getpid(), signal.SIGKILL)
