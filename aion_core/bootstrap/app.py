"""Composition of ApiFunction: the web app, agent cards and authentication."""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from fastapi import FastAPI
from uuid_utils import reseed_rng

from aion_core.auth.deployment import admits_own_machine_only
from aion_core.auth.policy import AuthPolicy
from aion_core.bootstrap.auth import build_auth_policies, build_authenticators
from aion_core.bootstrap.cors import build_cors_policies
from aion_core.bootstrap.secrets import card_key, card_signer
from aion_core.bootstrap.telemetry import Telemetry
from aion_core.bootstrap.turns import TurnServices, answer_forms, build_turn_services
from aion_core.bootstrap.webhooks import webhook_policy
from aion_core.engine.admission.quotas import OpenTasks
from aion_core.engine.limits.limits import limits_in_force
from aion_core.engine.listing.conversations import Conversations
from aion_core.engine.listing.list_tasks import TaskLister
from aion_core.engine.service import TaskService
from aion_core.loading.agent_cards import extended_card, public_card, reads_aion_extensions
from aion_core.loading.aion_yaml.agent import default_agent
from aion_core.loading.init_phase import load_in_init
from aion_core.loading.lazy_agent import AgentReplies
from aion_core.push.configs import PushRegistry
from aion_core.settings import DEFAULT_BASE_URL, Settings
from aion_core.web.additions import AppAdditions
from aion_core.web.app import build_app as build_web_app
from aion_core.web.app_parts import Access, CallerLimits, Instruments, ServedAgent, SharedServices
from aion_core.web.callbacks import callback_route
from aion_core.web.cards.agent_cards import AgentCards
from aion_core.web.cards.publication import CardPublisher
from aion_core.web.lifespan import Lifecycle

if TYPE_CHECKING:
    from aion_core.local.memory.queues import MemoryWorkQueue

logger = logging.getLogger(__name__)

LOCAL_RUN = (
    "This is a local run: the tasks are in the memory of this container, and end with it. Other requests wait until a turn "
    "has ended, streams arrive as a whole, and there are no webhooks. `aion sam-local` has queues and webhooks."
)
"""First log message of a function with its store in memory."""

NO_LOCAL_PUSH = (
    "This local run sends no push notifications, because nothing runs between its requests. `aion sam-local` serves the "
    "agents with queues and webhooks."
)
"""Error message for requests about push notifications to a function with its store in memory."""

MakeAdditions = Callable[[Settings, TurnServices], AppAdditions]
"""Function from the settings and services of a process to what its server adds to the app."""


def build_app(settings: Settings, telemetry: Telemetry, additions: MakeAdditions | None = None) -> FastAPI:
    """Return the ASGI app. Raises ConfigurationError with the name of the setting or the line of aion.yaml."""
    if settings.only_in_invocations:
        logger.info(LOCAL_RUN)
    turns = build_turn_services(settings, telemetry)
    policies = build_auth_policies(turns.configs, settings)
    limits = limits_in_force(turns.limits, is_authenticated=bool(policies))
    limits_config = CallerLimits(limits, turns.stores.rate_limits(), turns.clock) if limits else None
    service = TaskService(
        turns.stores.tasks,
        turns.worker,
        turns.stores.work_queue,
        turns.clock,
        blocking_wait=None if settings.only_in_invocations else settings.blocking_wait,
        double_texting={agent_id: config.double_texting for agent_id, config in turns.configs.items()},
        replies=AgentReplies(turns.agents),
        answers=answer_forms(turns.configs),
        open_tasks=_open_tasks(turns, limits_config),
    )
    key = card_key(settings)
    # On Lambda, take the base URL from each event: CloudFormation cannot pass an API's URL to a function that the API
    # refers to.
    follows_entrypoint = settings.on_lambda and not settings.base_url
    push = _push_registry(settings, turns)
    tasks = turns.stores.tasks, turns.stores.task_list
    lister, conversations = TaskLister(*tasks), Conversations(*tasks)
    return build_web_app(
        SharedServices(
            service,
            lister,
            conversations,
            cards=CardPublisher(
                settings.base_url or DEFAULT_BASE_URL,
                follows_entrypoint=follows_entrypoint,
                sign=card_signer(key),
                keys=[key.public_jwk()] if key else [],
            ),
            push=push,
            limits=limits_config,
            callback_route=callback_route(turns.callbacks, turns.stores.rate_limits()) if turns.callbacks else None,
        ),
        _served_agents(settings, turns, policies, delivers=push is not None),
        default=default_agent(turns.configs),
        access=Access(
            authenticators=build_authenticators(policies, settings, turns.stores.api_keys, turns.clock),
            loopback_only=admits_own_machine_only(is_off=not settings.auth),
            cors=build_cors_policies(turns.configs, settings),
        ),
        lifecycle=Lifecycle(
            background_task=turns.background.run if turns.background else None,
            startup=partial(_start_on_lambda, settings, turns) if settings.on_lambda else None,
            leftover=cast("MemoryWorkQueue", turns.stores.work_queue).quiet if settings.only_in_invocations else None,
        ),
        instruments=Instruments(telemetry.metrics, telemetry.traces, telemetry.flush),
        console=settings.console,
        additions=additions(settings, turns) if additions else None,
    )


def _served_agents(
    settings: Settings, turns: TurnServices, policies: Mapping[str, AuthPolicy], *, delivers: bool
) -> dict[str, ServedAgent]:
    """Return each agent with its cards. `delivers` is True if the deployment delivers push notifications."""
    served = {}
    for agent_id, config in turns.configs.items():
        policy, agent = policies.get(agent_id), turns.agents[agent_id]
        cards = AgentCards(
            partial(public_card, agent_id, config, delivers=delivers, policy=policy),
            partial(extended_card, config=config, policy=policy),
            profile=agent.profile,
            known=agent.wait_until_known,
        )
        served[agent_id] = ServedAgent(
            agent,
            cards,
            reads_aion_extensions(config),
            no_push=NO_LOCAL_PUSH if settings.only_in_invocations and config.capabilities.push_notifications else "",
        )
    return served


def _open_tasks(turns: TurnServices, limits: CallerLimits | None) -> OpenTasks | None:
    """Return the service that limits each caller's open tasks; None if no limit on open tasks is configured."""
    if limits is None or (most := limits.limits.open_tasks_per_owner) is None:
        return None
    return OpenTasks(limits.counters, turns.stores.tasks, turns.clock, most=most, agents=turns.configs)


AFTER_RESTORE = "aion.after_restore"
"""Key in the lifespan state for the hooks to call after a restore. `aion_core.lambda_runtime.snapshot` has a copy of
this constant, because it must not import this module."""


REPEATABLE = "aion.repeatable"
"""Key in the lifespan state: a repeated request gets the first one's answer. `aion_core.lambda_runtime.rescue` has a copy."""


def _start_on_lambda(settings: Settings, turns: TurnServices) -> Mapping[str, Any]:
    """Load the agents in the init phase, and return the app's lifespan state.

    With SnapStart, wait for all agents; the state has the hooks to call after a restore.
    """
    if not settings.snap_start:
        load_in_init(turns.agents)
        return {REPEATABLE: True}
    # Import the conversion for A2A v0.3 before the snapshot. Otherwise the first v0.3 request after a restore would
    # wait for the import.
    import aion_core.web.v03.answers  # noqa: F401

    load_in_init(turns.agents, None)
    return {REPEATABLE: True, AFTER_RESTORE: (reseed_rng, turns.renew_secrets)}


def _push_registry(settings: Settings, turns: TurnServices) -> PushRegistry | None:
    """Return the registry of clients' push configs, or None if the deployment delivers no push notifications."""
    stores = turns.stores
    if stores.push is None or not stores.push.opens or settings.only_in_invocations:
        return None
    events = {agent_id: config.push.events for agent_id, config in turns.configs.items()}
    return PushRegistry(
        stores.push.configs,
        stores.push.queue,
        stores.tasks,
        stores.task_list,
        webhook_policy(settings),
        turns.clock,
        events=events,
        redacting=[agent_id for agent_id, config in turns.configs.items() if config.push.redact_secrets],
    )
