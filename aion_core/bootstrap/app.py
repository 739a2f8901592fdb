"""Composition of ApiFunction: the web app, agent cards and authentication."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from fastapi import FastAPI
from uuid_utils import reseed_rng

from aion_core.bootstrap.auth import build_auth_policies, build_authenticators
from aion_core.bootstrap.cors import build_cors_policies
from aion_core.bootstrap.engine import Engine, build_engine
from aion_core.bootstrap.secrets import card_key, card_signer
from aion_core.bootstrap.telemetry import Telemetry
from aion_core.bootstrap.webhooks import webhook_policy
from aion_core.engine.admission.quotas import OpenTasks
from aion_core.engine.limits.limits import Limits
from aion_core.engine.listing.conversations import Conversations
from aion_core.engine.listing.listing import TaskLister
from aion_core.engine.service import TaskService
from aion_core.loading.aion_yaml.agent import default_agent
from aion_core.loading.cards import extended_card, public_card
from aion_core.loading.loader import AgentReplies
from aion_core.loading.loading import load_in_init
from aion_core.push.configs import PushRegistry
from aion_core.settings import DEFAULT_BASE_URL, Settings
from aion_core.web.app import CallerLimits, ServedAgent
from aion_core.web.app import build_app as build_web_app
from aion_core.web.cards import CardPublisher
from aion_core.web.console_api import DevelopmentConsole, kill_process
from aion_core.web.console_receiver import WebhookReceiver


def build_app(settings: Settings, telemetry: Telemetry) -> FastAPI:
    """Return the ASGI app. Raises ConfigurationError with the name of the setting or the line of aion.yaml."""
    engine = build_engine(settings, telemetry)
    policies = build_auth_policies(engine.configs, settings)
    # Apply no default limits without authentication, because then all callers would share the limits of one owner.
    limits = engine.limits or (Limits.default() if policies else None)
    limits_config = CallerLimits(limits, engine.stores.rate_limits(), engine.clock) if limits else None
    service = TaskService(
        engine.stores.tasks,
        engine.worker,
        engine.stores.work_queue,
        engine.clock,
        blocking_wait=settings.blocking_wait,
        double_texting={agent_id: config.double_texting for agent_id, config in engine.configs.items()},
        replies=AgentReplies(engine.agents),
        open_tasks=_open_tasks(engine, limits_config),
    )
    key = card_key(settings)
    base_url = settings.base_url or DEFAULT_BASE_URL
    # On Lambda, take the base URL from each event: CloudFormation cannot pass an API's URL to a function that the API
    # refers to.
    follows_entrypoint = settings.on_lambda and not settings.base_url
    default = default_agent(engine.configs)
    served = {}
    for agent_id, config in engine.configs.items():
        policy, at_root = policies.get(agent_id), agent_id == default
        delivers = engine.stores.push is not None and engine.stores.push.opens
        card = public_card(agent_id, config, base_url, at_root=at_root, delivers=delivers, policy=policy)
        agent = engine.agents[agent_id]
        served[agent_id] = ServedAgent(
            agent, card, extended_card(card, config, policy), partial(getattr, agent, "input_modes")
        )
    tasks = engine.stores.tasks, engine.stores.task_list
    lister, conversations = TaskLister(*tasks), Conversations(*tasks)
    app = build_web_app(
        service,
        lister,
        conversations,
        served,
        default=default,
        publisher=CardPublisher(base_url, follows_entrypoint=follows_entrypoint, sign=card_signer(key)),
        keys=[key.public_jwk()] if key else [],
        registry=_push_registry(settings, engine),
        authenticators=build_authenticators(policies, settings, engine.stores.api_keys, engine.clock),
        loopback_only=not settings.auth,
        cors=build_cors_policies(engine.configs, settings),
        console=_console(settings, engine),
        limits=limits_config,
        background_task=engine.background.run if engine.background else None,
        startup=partial(_start_on_lambda, settings, engine) if settings.on_lambda else None,
        metrics=telemetry.metrics,
        traces=telemetry.traces,
    )
    # Let the server of a single-process deployment find `background`, to hand off running turns before it stops.
    app.state.background = engine.background
    return app


def _console(settings: Settings, engine: Engine) -> bool | DevelopmentConsole:
    """Return the console's services under `aion dev`. Elsewhere return True if the settings enable its page."""
    if settings.console != "dev" or engine.stores.push is None:
        return settings.console != "off"
    push, receiver = engine.stores.push, WebhookReceiver(settings.console_receiver)
    return DevelopmentConsole(receiver, engine.stores.tasks, push.configs, push.queue, kill_process)


def _open_tasks(engine: Engine, limits: CallerLimits | None) -> OpenTasks | None:
    """Return the service that limits each caller's open tasks; None if no limit on open tasks is configured."""
    if limits is None or (most := limits.limits.open_tasks_per_owner) is None:
        return None
    return OpenTasks(limits.counters, engine.stores.tasks, engine.clock, most=most, agents=engine.configs)


AFTER_RESTORE = "aion.after_restore"
"""Key in the lifespan state for the hooks to call after a restore. `aion_core.lambda_runtime.snapshot` has a copy of
this constant, because it must not import this module."""


def _start_on_lambda(settings: Settings, engine: Engine) -> Mapping[str, Any] | None:
    """Load the agents in the init phase. With SnapStart, wait for all and return the hooks to call after a restore."""
    if not settings.snap_start:
        load_in_init(engine.agents)
        return None
    # Import the conversion for A2A v0.3 before the snapshot. Otherwise the first v0.3 request after a restore would
    # wait for the import.
    import aion_core.web.v03_operations  # noqa: F401

    load_in_init(engine.agents, None)
    return {AFTER_RESTORE: (reseed_rng, engine.renew_secrets)}


def _push_registry(settings: Settings, engine: Engine) -> PushRegistry | None:
    """Return the registry of clients' push configs, or None if the deployment delivers no push notifications."""
    stores = engine.stores
    if stores.push is None or not stores.push.opens:
        return None
    events = {agent_id: config.push.events for agent_id, config in engine.configs.items()}
    return PushRegistry(
        stores.push.configs,
        stores.push.queue,
        stores.tasks,
        stores.task_list,
        webhook_policy(settings),
        engine.clock,
        events=events,
    )
