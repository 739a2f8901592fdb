"""A deployment's resources, asked of AWS: table, bucket, queues, key, secrets."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from aion_core.agents.config import DeploymentConfig
from aion_core.agents.config_sections import SECRETS_MANAGER, SecretSource
from aion_core.agents.environment import template_parameters
from aion_core.cli.checks.check import Check, failed, ok, warning
from aion_core.cli.sentences import is_forbidden, sentence
from aion_core.errors import AionError, ConfigurationError, StoreError

if TYPE_CHECKING:
    from aion_core.aws.client import AwsClient

DEPLOY = "Deploy the template again, with `aion deploy`."
QUEUES = {"task queue": "AION_TASK_QUEUE_URL", "push queue": "AION_PUSH_QUEUE_URL"}
SECRETS = {"users": "AION_BASIC_USERS_SECRET", "card key": "AION_CARD_KEY_SECRET"}


async def resources(environ: Mapping[str, str]) -> AsyncIterator[Check]:
    """Look at each resource that the environment names; one that is not named is said not to have been looked at."""
    from aion_core.aws.client import AwsClient

    with ThreadPoolExecutor(4) as executor:

        def client(service: str) -> "AwsClient":
            return AwsClient(service, executor)

        looks: list[tuple[str, str, Callable[[str], Awaitable[Check]]]] = [
            ("table", "AION_TABLE", lambda name: _table(client("dynamodb"), name)),
            ("table's backup", "AION_TABLE", lambda name: _recovery(client("dynamodb"), name)),
            ("bucket", "AION_BUCKET", lambda name: _bucket(client("s3"), name)),
            *(
                (name, variable, lambda url, name=name: _queue(client("sqs"), name, url))
                for name, variable in QUEUES.items()
            ),
            ("key", "AION_KMS_KEY", lambda key: _key(client("kms"), key)),
        ]
        for name, variable, look in looks:
            yield await _looked(name, environ.get(variable, ""), variable, look)
        for name, variable in SECRETS.items():
            if arn := environ.get(variable):
                secret = client("ssm" if ":ssm:" in arn else "secretsmanager")
                yield await _looked(name, arn, variable, lambda arn, name=name: _secret(secret, name, arn))  # type: ignore[misc]  # noqa: B023  # called at once


async def _looked(name: str, value: str, variable: str, look: Callable[[str], Awaitable[Check]]) -> Check:
    from aion_core.aws.client import NoSuchObject

    if not value:
        return warning(name, f"It was not looked at: nothing names it ({variable}).", "Say --stack.")
    try:
        return await look(value)
    except StoreError as error:
        if is_forbidden(error):
            return warning(name, f"{value}: {sentence(error)}", "Ask as somebody who may look at it.")
        return failed(name, f"{value}: {sentence(error)}", DEPLOY)
    except NoSuchObject:
        return failed(name, f"{value} is not there.", DEPLOY)
    except AionError as error:
        return failed(name, str(error), DEPLOY)


async def _table(dynamodb: "AwsClient", name: str) -> Check:
    from aion_core.aws.health import table_problems

    found = await table_problems(dynamodb, name)
    if found:
        return failed("table", f"{name}: {'; '.join(found)}.", DEPLOY)
    return ok("table", f"{name} is there, with its indexes and its time to live.")


async def _recovery(dynamodb: "AwsClient", name: str) -> Check:
    from aion_core.aws.health import recovers

    if await recovers(dynamodb, name):
        return ok("table's backup", f"{name} can be restored to each second of the last 35 days.")
    said = f"{name} cannot be restored to a point in time."
    return warning("table's backup", said, "Deploy the template again: it turns that on.")


async def _bucket(s3: "AwsClient", name: str) -> Check:
    from aion_core.aws.health import bucket_problems

    found = await bucket_problems(s3, name)
    if found:
        return warning("bucket", f"{name}: {'; '.join(found)}.", DEPLOY)
    return ok("bucket", f"{name} is there, and keeps versions.")


async def _queue(sqs: "AwsClient", name: str, url: str) -> Check:
    from aion_core.aws.queues import SQSDeadLetters, queue_state

    state = await queue_state(sqs, url)
    letters = SQSDeadLetters(sqs, queue_url=url)
    try:
        dead = await queue_state(sqs, await letters.url())
    except ConfigurationError as error:
        return failed(name, str(error), DEPLOY)
    said = f"{state.waiting} messages wait, {state.in_flight} are in flight, {dead.waiting} lie in its dead letters."
    if dead.waiting:
        word = "task" if name == "task queue" else "push"
        return warning(name, said, f"See `aion dlq list --queue {word}`.")
    return ok(name, said)


async def _key(kms: "AwsClient", key: str) -> Check:
    from aion_core.aws.health import key_state

    state = await key_state(kms, key)
    if state != "Enabled":
        do = "Cancel its deletion or enable it, now: without it no session and no webhook can be read."
        return failed("key", f"{key} is {state}.", do)
    return ok("key", f"{key} is enabled.")


async def _secret(secrets: "AwsClient", name: str, arn: str) -> Check:
    from aion_core.aws.health import parameter_is_encrypted, secret_is_deleted

    if ":ssm:" in arn:
        if await parameter_is_encrypted(secrets, arn):
            return ok(name, f"{arn} is there.")
        return warning(name, f"{arn} is no SecureString: it lies there in the clear.", "Put it anew as a SecureString.")
    if await secret_is_deleted(secrets, arn):
        return failed(name, f"{arn} is about to be deleted.", "`aws secretsmanager restore-secret`.")
    return ok(name, f"{arn} is there.")


async def agent_secrets(declared: DeploymentConfig, environ: Mapping[str, str]) -> AsyncIterator[Check]:
    """Look whether each secret that aion.yaml names is there, and whether the stack's roles may read it."""
    from aion_core.aws.client import AwsClient

    with ThreadPoolExecutor(1) as executor:
        for variable, source in declared.secrets.items():
            yield await _agent_secret(AwsClient(source.service, executor), variable, source, declared, environ)


async def _agent_secret(
    calls: "AwsClient", variable: str, source: SecretSource, declared: DeploymentConfig, environ: Mapping[str, str]
) -> Check:
    from aion_core.aws.health import parameter_arn, secret_arn

    name = f"secret of {variable}"
    try:
        arn = await (secret_arn if source.service == SECRETS_MANAGER else parameter_arn)(calls, source.name)
    except StoreError as error:
        if is_forbidden(error):
            return warning(name, f"{source}: {sentence(error)}", "Ask as somebody who may look at it.")
        do = "Create it in this region, or mend its name in aion.yaml."
        return failed(name, f"{source}: {sentence(error)}", do)
    if not any(fnmatchcase(arn, given) for given in environ.get("AION_AGENT_SECRETS", "").split(",")):
        # The key's ARN has the place of all the rest.
        _, _, _, region, account, *_ = environ.get("AION_KMS_KEY", "arn:aws:kms:::").split(":")
        wanted = template_parameters(declared, region, account)["AgentSecrets"]
        said = f"{arn} is not in the stack's AgentSecrets: the functions that run agents do not start."
        return failed(name, said, f"Deploy with 'AgentSecrets={wanted}'.")
    return ok(name, f"{arn} is there, and the roles may read it.")
