"""Parts that the wiring gives to the app, grouped by purpose."""

from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct
from starlette.routing import Route

from aion_core.auth.authenticator import Authenticator
from aion_core.clock import Clock
from aion_core.engine.agent import Agent
from aion_core.engine.limits.limits import Limits
from aion_core.engine.limits.rate_limits import RateLimits
from aion_core.engine.listing.conversations import Conversations
from aion_core.engine.listing.list_tasks import TaskLister
from aion_core.engine.service import TaskService
from aion_core.push.configs import PushRegistry
from aion_core.telemetry import Metrics, NoopTraces, NullMetrics, Traces
from aion_core.web.cards.agent_cards import AgentCards
from aion_core.web.cards.publication import CardPublisher
from aion_core.web.middleware.cors import CorsPolicy


class ServedAgent(Struct, frozen=True):
    """Agent served by the app, with its cards."""

    agent: Agent
    cards: AgentCards
    reads_aion_extensions: bool = True
    """False to read extension data of requests as ordinary metadata and data parts."""
    no_push: str = ""
    """Error message for requests about push notifications if this process sends none, instead of the usual message."""


class CallerLimits(Struct, frozen=True):
    """Rate and stream limits for each caller, with the stored counters and the clock."""

    limits: Limits
    counters: RateLimits
    clock: Clock


class SharedServices(Struct, frozen=True):
    """Services that all agents share."""

    tasks: TaskService
    lister: TaskLister
    conversations: Conversations
    cards: CardPublisher = CardPublisher()
    """Publisher that adapts the cards to the base URL of a request."""
    push: PushRegistry | None = None
    """Registry of push configs. Without it no agent sends push notifications, even if its card declares them."""
    limits: CallerLimits | None = None
    callback_route: Route | None = None
    """Route of remote agents' callbacks, which checks their tokens itself. None if no remote agent is asked for them."""


class Access(Struct, frozen=True):
    """Rules about who may call the agents. By default everybody may, but no page of another origin."""

    authenticators: Mapping[str, Authenticator] | None = None
    """Authenticators of each agent's callers, by agent id. None admits every caller without authentication."""
    loopback_only: bool = False
    """True to admit only callers on this machine."""
    cors: Mapping[str, CorsPolicy] = {}
    """Policies of the agents that pages of other origins may call, by agent id."""


class Instruments(Struct, frozen=True):
    """Metrics and traces."""

    metrics: Metrics = NullMetrics()
    traces: Traces = NoopTraces()
    flush: Callable[[], Awaitable[None]] | None = None
    """Function to call after each request, and at the end. None to flush the metrics only."""
