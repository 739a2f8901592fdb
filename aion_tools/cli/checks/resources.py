"""Checks of a deployment's AWS resources, including stack, table, bucket, queues, key and secrets."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING

from aion_core.errors import AionError, ConfigurationError, StoreError
from aion_core.loading.aion_yaml.environment import SECRETS_MANAGER, SecretSource
from aion_core.loading.aion_yaml.reading import DeploymentConfig
from aion_core.table.schema import TTL_ATTRIBUTE
from aion_tools.cli.checks import CheckResult, failed, ok, repairs, warning
from aion_tools.cli.error_text import error_text, is_forbidden, is_missing
from aion_tools.deploy.agent_rights import template_parameters

if TYPE_CHECKING:
    from aion_core.aws.client import AwsClient

DEPLOY = "Deploy the template again, with `aion deploy`."
AGAIN = "Fix this, then run `aion doctor` again."
"""Next step after an error unrelated to the checked resource, such as expired credentials."""
_ALL_FAIL = ": all requests and turns fail."
"""End of the message about a table that DynamoDB does not serve."""
QUEUES = {"task queue": "AION_TASK_QUEUE_URL", "push queue": "AION_PUSH_QUEUE_URL"}
SECRETS = {"users": "AION_BASIC_USERS_SECRET", "card key": "AION_CARD_KEY_SECRET"}


async def check_stack(name: str) -> CheckResult:
    """Check that the last operation of the CloudFormation stack has succeeded."""
    from aion_tools.deploy import cloudformation, failures

    stack: cloudformation.CloudFormationStack | None = None
    try:
        stack = await asyncio.to_thread(cloudformation.find, name)
        failure = await asyncio.to_thread(failures.failure_of, stack) if stack is not None else None
    except StoreError as error:
        if stack is not None:
            # Events are read only of a stack whose last operation has failed.
            next_step = "Use credentials with permission to read its events." if is_forbidden(error) else AGAIN
            message = f"{name} is {stack.status}. Its events were not read: {error_text(error)}"
            return failed("stack", message, next_step)
        if is_forbidden(error):
            return warning("stack", f"{name}: {error_text(error)}", "Use credentials with permission to read it.")
        return failed("stack", f"{name}: {error_text(error)}", AGAIN)
    if stack is None:
        return ok("stack", f"{name} is deleted.")
    if failure is not None:
        was_rolled_back = stack.status == "UPDATE_ROLLBACK_COMPLETE"
        return (warning if was_rolled_back else failed)(
            "stack", " ".join([failure.what, *failure.lines]), failure.next_step
        )
    if stack.is_changing:
        next_step = "Wait until it ends, then run `aion doctor` again."
        return warning("stack", f"{name} is {stack.status}: an operation is in progress.", next_step)
    return ok("stack", f"{name} is {stack.status}.")


async def check_resources(environ: Mapping[str, str]) -> AsyncIterator[CheckResult]:
    """Check the table, bucket, queues, key and secrets named by environment variables.

    A resource whose environment variable is not set is reported as not checked.
    """
    from aion_core.aws.client import AwsClient

    with ThreadPoolExecutor(4) as executor:

        def client(service: str) -> "AwsClient":
            return AwsClient(service, executor)

        restore_table = repairs.RESTORE_TABLE.format
        checks: list[tuple[str, str, Callable[[str], Awaitable[CheckResult]], Callable[[str], str]]] = [
            ("table", "AION_TABLE", lambda name: _table(client("dynamodb"), name), restore_table),
            ("table's TTL", "AION_TABLE", lambda name: _ttl(client("dynamodb"), name), restore_table),
            ("table's backup", "AION_TABLE", lambda name: _recovery(client("dynamodb"), name), restore_table),
            ("bucket", "AION_BUCKET", lambda name: _bucket(client("s3"), name), repairs.CREATE_BUCKET.format),
            *(
                (name, variable, lambda url, name=name: _queue(client("sqs"), name, url), repairs.create_queue)
                for name, variable in QUEUES.items()
            ),
            ("key", "AION_KMS_KEY", lambda key: _key(client("kms"), key), repairs.CREATE_KEY.format),
        ]
        is_served = True
        for name, variable, check, repair in checks:
            # Report a deleted or archived table only once.
            if is_served or variable != "AION_TABLE":
                value = environ.get(variable, "")
                result = await checked(name, value, variable, check, repair(value))
                is_served = is_served and not result.message.endswith(_ALL_FAIL)
                yield result
        for name, variable in SECRETS.items():
            if arn := environ.get(variable):
                secret = client("ssm" if ":ssm:" in arn else "secretsmanager")
                yield await checked(name, arn, variable, partial(_secret, secret, name), repairs.CREATE_VALUE)


async def checked(
    name: str, value: str, variable: str, check: Callable[[str], Awaitable[CheckResult]], repair: str = ""
) -> CheckResult:
    """Return the result of a check of the resource `value`, or a result that explains why AWS refused the check.

    A resource without a name was not found in the environment variable `variable`, and is reported as not checked.
    `repair` is the next step if the resource does not exist.
    """
    from aion_core.aws.client import NoSuchObject

    if not value:
        return warning(name, f"Not checked: its name is unknown ({variable}).", "Give --stack.")
    try:
        return await check(value)
    except StoreError as error:
        if is_forbidden(error):
            return warning(name, f"{value}: {error_text(error)}", "Use credentials with permission to read it.")
        if repair and is_missing(error):
            return failed(name, f"{value} does not exist.", repair)
        return failed(name, f"{value}: {error_text(error)}", AGAIN)
    except NoSuchObject:
        return failed(name, f"{value} does not exist.", repair)
    except AionError as error:
        # The stack was deployed by an earlier version.
        return failed(name, str(error), DEPLOY)


async def _table(dynamodb: "AwsClient", name: str) -> CheckResult:
    from aion_tools.operator.health import table_health

    try:
        found = await table_health(dynamodb, name)
    except StoreError as error:
        if not is_missing(error):
            raise
        return failed("table", f"The table {name} does not exist{_ALL_FAIL}", repairs.RESTORE_TABLE.format(name))
    # DynamoDB also serves a table in the status UPDATING.
    if found.status not in ("ACTIVE", "UPDATING"):
        step = repairs.TABLE_STEPS.get(found.status, repairs.UNKNOWN_STATUS)
        next_step = step.format(table=name, key=found.key or "KEY", backup=found.backup or "ARN")
        return failed("table", f"The table {name} is {found.status}{_ALL_FAIL}", next_step)
    problems = [
        *(f"its index {index!r} is {status}" for index, status in found.unusable.items()),
        *(f"its index {each.name!r} does not have the keys {each.partition} and {each.sort}" for each in found.wrong),
        *(f"it has no index {each.name!r}" for each in found.missing),
    ]
    if not problems:
        return ok("table", f"{name} exists, with its indexes.")
    # DynamoDB creates or deletes one index at a time.
    if found.unusable:
        next_step = repairs.WAIT_FOR_INDEX
    elif found.wrong:
        next_step = repairs.delete_index(name, found.wrong[0])
    else:
        next_step = repairs.create_index(name, found.missing[0])
    return failed("table", f"{name}: {'; '.join(problems)}.", next_step)


async def _ttl(dynamodb: "AwsClient", name: str) -> CheckResult:
    from aion_tools.operator.health import expires

    if await expires(dynamodb, name):
        return ok("table's TTL", f"{name} deletes its expired items.")
    message = f"{name}: its items do not expire: its time to live must be the attribute {TTL_ATTRIBUTE!r}."
    return failed("table's TTL", message, repairs.SET_TTL.format(name))


async def _recovery(dynamodb: "AwsClient", name: str) -> CheckResult:
    from aion_tools.operator.health import recovers

    if await recovers(dynamodb, name):
        return ok("table's backup", f"{name} has point-in-time recovery for 35 days.")
    message = f"{name} has no point-in-time recovery."
    return warning("table's backup", message, repairs.SET_RECOVERY.format(name))


async def _bucket(s3: "AwsClient", name: str) -> CheckResult:
    from aion_tools.operator.health import bucket_problems

    found = await bucket_problems(s3, name)
    if found:
        return warning("bucket", f"{name}: {'; '.join(found)}.", repairs.SET_VERSIONING.format(name))
    return ok("bucket", f"{name} exists, with versioning.")


async def _queue(sqs: "AwsClient", name: str, url: str) -> CheckResult:
    from aion_tools.operator.health import queue_state
    from aion_tools.operator.sqs_dead_letters import SQSDeadLetters

    state = await queue_state(sqs, url)
    letters = SQSDeadLetters(sqs, queue_url=url)
    try:
        dead = await queue_state(sqs, await letters.url())
    except ConfigurationError as error:
        return failed(name, str(error), repairs.set_dead_letter_queue(url))
    except StoreError as error:
        if not is_missing(error):
            raise
        missing = (await letters.arn()).rpartition(":")[2]
        message = f"The dead letter queue {missing} of {url} does not exist."
        return failed(name, message, repairs.create_dead_letter_queue(missing))
    message = f"{state.waiting} messages waiting, {state.in_flight} in flight, {dead.waiting} in the dead letter queue."
    if dead.waiting:
        word = "task" if name == "task queue" else "push"
        return warning(name, message, f"See `aion dlq list --queue {word}`.")
    return ok(name, message)


async def _key(kms: "AwsClient", key: str) -> CheckResult:
    from aion_tools.operator.health import key_state

    state = await key_state(kms, key)
    # KMS also uses a key in the state Updating.
    if state in ("Enabled", "Updating"):
        return ok("key", f"{key} is enabled.")
    step = repairs.KEY_STEPS.get(state, repairs.UNKNOWN_KEY_STATE)
    message = f"{key} is {state}: sessions and webhooks cannot be decrypted without it."
    return failed("key", message, step.format(key=key))


async def _secret(secrets: "AwsClient", name: str, arn: str) -> CheckResult:
    from aion_tools.operator.health import parameter_is_encrypted, secret_is_deleted

    if ":ssm:" in arn:
        if await parameter_is_encrypted(secrets, arn):
            return ok(name, f"{arn} exists.")
        return warning(
            name, f"{arn} is not a SecureString: its value is not encrypted.", "Store it again as a SecureString."
        )
    if await secret_is_deleted(secrets, arn):
        return failed(
            name, f"{arn} is scheduled for deletion.", f"Run `aws secretsmanager restore-secret --secret-id {arn}`."
        )
    return ok(name, f"{arn} exists.")


async def check_agent_secrets(declared: DeploymentConfig, environ: Mapping[str, str]) -> AsyncIterator[CheckResult]:
    """Check for each secret named in aion.yaml that it exists and that the stack's roles may read it."""
    from aion_core.aws.client import AwsClient

    with ThreadPoolExecutor(1) as executor:
        for variable, source in declared.secrets.items():
            yield await _agent_secret(AwsClient(source.service, executor), variable, source, declared, environ)


async def _agent_secret(
    calls: "AwsClient", variable: str, source: SecretSource, declared: DeploymentConfig, environ: Mapping[str, str]
) -> CheckResult:
    from aion_tools.operator.health import parameter_arn, secret_arn

    name = f"secret of {variable}"
    try:
        arn = await (secret_arn if source.service == SECRETS_MANAGER else parameter_arn)(calls, source.name)
    except StoreError as error:
        if is_forbidden(error):
            return warning(name, f"{source}: {error_text(error)}", "Use credentials with permission to read it.")
        next_step = "Create it in this region, or fix its name in aion.yaml."
        return failed(name, f"{source}: {error_text(error)}", next_step if is_missing(error) else AGAIN)
    if not any(fnmatchcase(arn, given) for given in environ.get("AION_AGENT_SECRETS", "").split(",")):
        # Take region and account from the ARN of the deployment's KMS key, because no variable contains them.
        _, _, _, region, account, *_ = environ.get("AION_KMS_KEY", "arn:aws:kms:::").split(":")
        wanted = template_parameters(declared, region, account)["AgentSecrets"]
        message = f"{arn} is not in the stack's AgentSecrets parameter: the functions with agents do not start."
        return failed(name, message, f"Deploy with 'AgentSecrets={wanted}'.")
    return ok(name, f"{arn} exists, and the roles may read it.")
