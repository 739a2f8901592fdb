"""Check, before a deployment, that its code can restore the state of the tasks that wait for an answer."""

import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from aion_core.errors import ConfigurationError, StoreError
from aion_tools.cli.checks import CheckResult, warning

if TYPE_CHECKING:
    from aion_core.state.langgraph.class_record import StoredClass
    from aion_core.state.langgraph.thread_items import StoredCheckpoint
    from aion_core.table.keys import ContextKey
    from aion_tools.cli.checks.restorable_classes import Restorable
    from aion_tools.deploy.cloudformation import CloudFormationStack
    from aion_tools.operator.waiting_tasks import WaitingState, WaitingTasks

LIMIT = 1000
"""Number of waiting tasks whose state is read: those with the newest questions, which clients are likely to answer."""
READERS = 16
"""Number of concurrent requests to the table and the bucket."""
LOAD_SECONDS = 300
"""Longest time to load the agents."""
NAME = "waiting tasks"


def check_waiting_tasks(stack: "CloudFormationStack", config: Path) -> tuple[str, list[CheckResult]]:
    """Return what was compared, and a warning for each class in waiting tasks that the project's code does not have.

    `config` is the project's aion.yaml, or its folder. The state of at most LIMIT tasks is read. No object of it is
    constructed, and the agents are loaded in another process. If something cannot be read, the text says so.
    """
    from aion_tools.deploy import cloudformation

    try:
        outputs = cloudformation.application(stack).outputs
        if "TableName" not in outputs:
            return "the stack has no table yet", []
        return asyncio.run(_compared(outputs["TableName"], outputs.get("BucketName", ""), config))
    except StoreError as error:
        needs = "It needs dynamodb:Scan of the index by_context, dynamodb:Query, and s3:GetObject."
        return f"their state was not compared with this version's code ({error}). {needs}", []
    except ConfigurationError as error:
        return f"their state was not compared with this version's code: {error}", []


async def _compared(table: str, bucket: str, config: Path) -> tuple[str, list[CheckResult]]:
    # Import late, because other commands read no table.
    from aion_core.aws.blobs import S3Blobs
    from aion_core.aws.client import AwsClient
    from aion_core.aws.dynamodb_table import DynamoDBTable
    from aion_core.clock import SystemClock
    from aion_tools.deploy import aws
    from aion_tools.operator.waiting_tasks import WaitingState, waiting_tasks

    clock = SystemClock()
    with ThreadPoolExecutor(READERS) as executor:
        dynamodb = AwsClient("dynamodb", executor, client=aws.client_of("dynamodb"))
        blobs = S3Blobs(AwsClient("s3", executor), bucket=bucket)
        state = WaitingState(DynamoDBTable(dynamodb, name=table), blobs, clock)
        waiting = await waiting_tasks(dynamodb, table, clock)
        contexts = waiting.newest(LIMIT)
        stored = dict(zip(contexts, await asyncio.gather(*map(state.checkpoints, contexts)), strict=True))
        agents = await asyncio.to_thread(_loaded, config, stored)
        lost: Counter[tuple[str, StoredClass]] = Counter()
        for context, checkpoints in stored.items():
            for named in await _lost(state, checkpoints, agents.get(context.agent)):
                lost[context.agent, named] += waiting.contexts[context]
    warnings = [_warning(agents[agent], agent, named, tasks) for (agent, named), tasks in sorted(lost.items())]
    return _summary(waiting, contexts, len(warnings)), warnings


def _summary(waiting: "WaitingTasks", contexts: Sequence["ContextKey"], lost: int) -> str:
    tasks, read = sum(waiting.contexts.values()), sum(waiting.contexts[context] for context in contexts)
    if tasks == 0:
        return "none"
    text = f"{tasks} read" if read == tasks else f"the newest {read} of {tasks} read"
    if not waiting.is_complete:
        text += ", and the table may have more"
    return f"{text}, and this version lacks {lost} class{'es' * (lost > 1)} of their state" if lost else text


async def _lost(
    state: "WaitingState", checkpoints: Sequence["StoredCheckpoint"], agent: "Restorable | None"
) -> set["StoredClass"]:
    """Return the classes in channels of the graph that the agent's state does not have."""
    from aion_tools.operator.waiting_tasks import classes_of

    return {
        named
        for named in (agent.missing if agent is not None else ())
        for checkpoint in checkpoints
        if named in classes_of(checkpoint)
        for channel in await state.channels_with(checkpoint, named)
        if agent is not None and agent.has_channel(checkpoint.place.ns, channel)
    }


def _warning(agent: "Restorable", agent_id: str, named: "StoredClass", tasks: int) -> CheckResult:
    have = f"{tasks} tasks of {agent_id} wait" if tasks > 1 else f"1 task of {agent_id} waits"
    message = f"{have} for an answer with {named} in the state, which this version's state does not have. An answer fails the task."
    return warning(NAME, message, agent.missing[named])


def _loaded(config: Path, stored: Mapping["ContextKey", Sequence["StoredCheckpoint"]]) -> Mapping[str, "Restorable"]:
    """Return what the agents' states have of the stored classes, by agent. Raises ConfigurationError."""
    from aion_tools.operator.waiting_tasks import classes_of

    wanted: dict[str, set[StoredClass]] = {}
    for context, checkpoints in stored.items():
        for checkpoint in checkpoints:
            if named := classes_of(checkpoint):
                wanted.setdefault(context.agent, set()).update(named)
    if not wanted:
        return {}
    # Import late, because only a project with LangGraph has it.
    from aion_tools.cli.checks import restorable_classes
    from aion_tools.cli.checks.local import check_environment

    variables, _ = check_environment(config)
    with TemporaryDirectory() as folder:
        output = Path(folder) / "restorable.json"
        try:
            subprocess.run(  # noqa: S603 - no shell
                [sys.executable, "-P", "-m", restorable_classes.__name__, config, output],
                input=restorable_classes.question(wanted),
                env={**os.environ, **variables},
                capture_output=True,
                timeout=LOAD_SECONDS,
                check=True,
            )
        except subprocess.SubprocessError as error:
            lines = (getattr(error, "stderr", None) or b"").decode(errors="replace").splitlines() or [str(error)]
            raise ConfigurationError(f"the agents could not be loaded in another process: {lines[-1]}") from error
        return restorable_classes.answer(output.read_bytes())
