"""What an operator's commands need of a deployment: its names, its stores, and what lies in its dead letter queues."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aion_core.bootstrap.stores import build_stores
from aion_core.clock import SystemClock
from aion_core.errors import ConfigurationError
from aion_core.ports import Agent, ApiKeys, Clock, PushBells, PushConfigs, TaskList, TaskStore
from aion_core.settings import Settings
from aion_core.tasks.runner import TaskRunner
from aion_core.tasks.service import TaskService
from aion_core.tasks.worker import Worker

if TYPE_CHECKING:
    from aion_core.aws.dead_letters import DeadLetters
    from aion_core.aws.erasure import Erasure
    from aion_core.aws.inspection import Inspection


@dataclass(frozen=True, slots=True)
class Operator:
    """What looks at a deployment's tasks, and ends them."""

    clock: Clock
    tasks: TaskStore
    task_list: TaskList
    service: TaskService
    push_configs: PushConfigs | None
    """None where the deployment tells nobody."""
    inspection: "Inspection"


@dataclass(frozen=True, slots=True)
class PushOperator:
    """What looks at a deployment's push notifications; it opens no secret."""

    clock: Clock
    configs: PushConfigs
    bells: PushBells | None
    """None where no queue is named: the sweep finds what is due."""
    task_list: TaskList
    inspection: "Inspection"


def stack_environment(stack: str) -> dict[str, str]:
    """Return the environment of the functions of a stack, by its name.

    Raises ConfigurationError where there is no such stack, StoreError where CloudFormation does not say.
    """
    from aion_core.aws.client import Calls
    from aion_core.aws.stacks import read_stack

    return read_stack(Calls("cloudformation", ThreadPoolExecutor(1)), stack)


def build_operator(settings: Settings) -> Operator:
    """Return what looks at the tasks of the deployment that the settings name."""
    from aion_core.aws.client import Calls
    from aion_core.aws.inspection import Inspection

    clock = SystemClock()
    stores = build_stores(settings, clock)
    worker = Worker(stores.tasks, TaskRunner(stores.tasks, _no_agent, clock, stores.bells), stores.bells, clock)
    service = TaskService(stores.tasks, worker, stores.bells, clock)
    inspection = Inspection(Calls("dynamodb", ThreadPoolExecutor(4)), clock, table=settings.table)
    configs = stores.push.configs if stores.push is not None else None
    return Operator(clock, stores.tasks, stores.task_list, service, configs, inspection)


def build_push_operator(environ: Mapping[str, str]) -> PushOperator:
    """Return what looks at the push notifications of a deployment, of which the table has to be known."""
    from datetime import timedelta

    from aion_core.aws.client import Calls
    from aion_core.aws.inspection import Inspection
    from aion_core.aws.push_configs import DynamoDBPushConfigs
    from aion_core.aws.queues import SQSPushBells
    from aion_core.aws.task_list import DynamoDBTaskList

    clock, executor, table = SystemClock(), ThreadPoolExecutor(4), environ["AION_TABLE"]
    dynamodb = Calls("dynamodb", executor)
    kept = timedelta(days=float(environ.get("AION_RETENTION_DAYS") or 30))
    queue = environ.get("AION_PUSH_QUEUE_URL")
    return PushOperator(
        clock,
        DynamoDBPushConfigs(dynamodb, None, clock, table=table, retention=kept),
        SQSPushBells(Calls("sqs", executor), queue_url=queue) if queue else None,
        DynamoDBTaskList(dynamodb, clock, table=table),
        Inspection(dynamodb, clock, table=table),
    )


def build_dead_letters(queue_url: str) -> "DeadLetters":
    """Return what lies in the dead letter queue behind the queue."""
    from aion_core.aws.client import Calls
    from aion_core.aws.dead_letters import DeadLetters

    return DeadLetters(Calls("sqs", ThreadPoolExecutor(1)), queue_url=queue_url)


def build_keys(table: str) -> ApiKeys:
    """Return where the API keys of the deployment with this table are."""
    from aion_core.aws.api_keys import DynamoDBApiKeys
    from aion_core.aws.client import Calls

    return DynamoDBApiKeys(Calls("dynamodb", ThreadPoolExecutor(4)), SystemClock(), table=table)


def build_erasure(environ: Mapping[str, str]) -> "Erasure":
    """Return what deletes owners from a deployment, of which the table and the bucket have to be known."""
    from datetime import timedelta

    from aion_core.aws.client import WORKERS, Calls
    from aion_core.aws.erasure import Erasure

    executor = ThreadPoolExecutor(WORKERS)
    return Erasure(
        Calls("dynamodb", executor),
        Calls("s3", executor),
        SystemClock(),
        table=environ["AION_TABLE"],
        bucket=environ["AION_BUCKET"],
        owner_of_key=owner_of_key,
        retention=timedelta(days=float(environ.get("AION_RETENTION_DAYS") or 30)),
    )


def owner_of_key(principal: str, tenant: str) -> str:
    """Return the owner of what is done with an API key of this principal and tenant."""
    from aion_core.auth.principal import API_KEY_ISSUER, Principal
    from aion_core.web.request_context import owner_in

    return owner_in(Principal(API_KEY_ISSUER, principal).owner, tenant)


def _no_agent(agent_id: str) -> Agent:
    """Load no agent: whoever looks at a task does not run it."""
    raise ConfigurationError(f"The agent {agent_id!r} is not run here.")
