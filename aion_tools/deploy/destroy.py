"""Deletion of a deployment's stack and, on request, its retained resources. A second run continues a failed run."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from aion_core.errors import ConfigurationError
from aion_tools.deploy import cloudformation, images
from aion_tools.deploy.aws import call, client_of, listed
from aion_tools.deploy.cloudformation import (
    APPLICATION,
    NESTED,
    PAUSE_SECONDS,
    CloudFormationStack,
    Resource,
    StackEvent,
)
from aion_tools.deploy.errors import AwsRefused, DeployError
from aion_tools.deploy.logs import FUNCTIONS, group

MOST_FAILURES = 4
OWN = {"ApiFunction", "TaskFunction", "SweepFunction", "State"}
"""Logical ids in every aion template. A stack without these ids belongs to another program and is not deleted."""
_STATE = ("State/", f"{APPLICATION}/State/")
"""Paths of the nested stack with a deployment's data. `--data` deletes no other resource that a project retains."""
EARLIER = 5
"""Number of earlier stacks of the same name searched for retained resources."""

TABLE, BUCKET, KEY = "AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::KMS::Key"
LOG_GROUP = "AWS::Logs::LogGroup"
KINDS = {TABLE: "table", BUCKET: "bucket", KEY: "key", LOG_GROUP: "log group"}
KEY_DAYS = 30
"""Days until AWS deletes the key. Until then `aws kms cancel-key-deletion` restores it."""
_BATCH = 1000


@dataclass(frozen=True)
class RetainedResource:
    """A table, bucket, key or log group that the deletion of its stack retains."""

    type: str
    name: str

    @property
    def kind(self) -> str:
        """Kind of the resource as a word for people, such as `log group`."""
        return KINDS[self.type]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True)
class DestroyPlan:
    """Plan of the deletion of a deployment, with its existing resources."""

    name: str
    stack: CloudFormationStack | None
    """Existing stack of this name. None if it is already deleted."""
    retained: Sequence[RetainedResource]
    """Retained resources of the last stack of this name, existing or deleted."""
    log_groups: Sequence[RetainedResource]
    earlier: Sequence[RetainedResource] = field(default=())
    """Retained resources of earlier stacks of this name. They are printed, but never deleted."""
    of_project: Sequence[Resource] = field(default=())
    """Resources of the project's own template.yaml, whose deletion policies decide on them."""
    repositories: CloudFormationStack | None = None
    """Stack with the repositories of the functions' images. It is deleted with the stack."""

    @property
    def is_empty(self) -> bool:
        """True if no stack, retained resource or log group is left to delete."""
        return not (self.stack or self.repositories or self.retained or self.log_groups)


def plan(name: str) -> DestroyPlan:
    """Find the existing resources of a stack by its name.

    Raises ConfigurationError for an unknown stack, or for a stack of another program.
    """
    existing, gone = cloudformation.find(name), cloudformation.deleted(name)
    if existing is None and not gone:
        raise ConfigurationError(
            f"There is no stack {name!r} in this account and region, nor was there one in the last 90 days. Check --region "
            "and --profile."
        )
    last, *before = [existing.id, *gone] if existing else gone
    if existing is not None and not _is_own(existing):
        raise ConfigurationError(f"The stack {name!r} is not an aion stack. Nothing was deleted.")
    there = list(cloudformation.resources(last)) if existing is not None else []
    own = of_resources(there)
    # Add the resources that an earlier, failed deletion of this stack has already retained.
    left = [
        each for each in of_resources(cloudformation.retained_by_deletion(last)) if each not in own and not owner(each)
    ]
    rest = [each for each in [*own, *left] if is_there(each)]
    earlier = [each for stack in before[:EARLIER] for each in of_resources(cloudformation.retained_by_deletion(stack))]
    others = [each for each in earlier if each not in rest and is_there(each) and not owner(each)]
    return DestroyPlan(name, existing, rest, log_groups(name), others, _of_project(there), images.repositories(name))


def _is_own(stack: CloudFormationStack) -> bool:
    types = cloudformation.template_resource_types(cloudformation.application(stack).id)
    # After a failed creation the nested stack `Aion` or all resources are gone.
    is_project = types.get(APPLICATION) in (NESTED, "AWS::Serverless::Application")
    return types.keys() >= OWN or is_project or stack.status == "REVIEW_IN_PROGRESS"


def _of_project(resources: Sequence[Resource]) -> list[Resource]:
    """Return the existing resources that a project's template.yaml has beside the nested stack `Aion`."""
    if not any(each.path == APPLICATION and each.type == NESTED for each in resources):
        return []
    return [
        each
        for each in resources
        if "/" not in each.path and each.path != APPLICATION and each.status != "DELETE_COMPLETE"
    ]


def check(planned: DestroyPlan, *, data: bool) -> None:
    """Raise DeployError if AWS would refuse to delete a resource of the plan. Called before the first deletion."""
    stack = planned.stack
    if stack is not None and stack.is_protected:
        raise DeployError(
            f"The stack {stack.name} has termination protection. Nothing was deleted.",
            next_step=f"aws cloudformation update-termination-protection --no-enable-termination-protection --stack-name {stack.name}",
        )
    if stack is not None and stack.is_changing and stack.status != "DELETE_IN_PROGRESS":
        raise DeployError(
            f"The stack {stack.name} is {stack.status}: an operation is in progress. Nothing was deleted.",
            next_step="Wait for its end, then run the command again.",
        )
    for each in planned.retained if data else ():
        if is_protected(each):
            raise DeployError(
                f"The {each} has deletion protection. Nothing was deleted.",
                next_step=f"aws dynamodb update-table --no-deletion-protection-enabled --table-name {each.name}",
            )


def delete_stack(
    stack: CloudFormationStack, report: Callable[[StackEvent], None], *, pause: float = PAUSE_SECONDS
) -> None:
    """Delete the stack and wait until it is gone. Raises DeployError with the failures of its resources."""
    since = cloudformation.last_event(stack.id)
    call(client_of("cloudformation").delete_stack, StackName=stack.id)
    after = cloudformation.wait_until_settled(stack.id, since, report, pause=pause)
    if after.status != "DELETE_COMPLETE":
        failed = [str(event) for event in cloudformation.failures(stack.id, since)]
        raise DeployError(
            f"The stack {stack.name} could not be deleted; it is {after.status} now.",
            lines=failed[:MOST_FAILURES],
            next_step="Remove the cause and run the command again; it continues from here.",
        )


def of_resources(resources: Iterable[Resource]) -> list[RetainedResource]:
    """Return the data that the deletion of the stack retains or has retained, sorted by kind."""
    found = [
        RetainedResource(each.type, each.physical_id)
        for each in resources
        if each.type in KINDS
        and each.path.startswith(_STATE)
        and each.physical_id
        and (each.status == "DELETE_SKIPPED" or (each.is_retained and each.status != "DELETE_COMPLETE"))
    ]
    return sorted(set(found), key=lambda each: list(KINDS).index(each.type))


def log_groups(stack: str) -> list[RetainedResource]:
    """Return the log groups of the stack's functions that exist in CloudWatch."""
    client, found = client_of("logs"), []
    for function in FUNCTIONS:
        name = group(stack, function)
        named = listed(client, "describe_log_groups", "logGroups", logGroupNamePrefix=name)
        found += [RetainedResource(LOG_GROUP, name) for each in named if each["logGroupName"] == name]
    return found


def is_there(resource: RetainedResource) -> bool:
    """Return True if the resource exists on AWS and is not being deleted or scheduled for deletion."""
    try:
        match resource.type:
            case "AWS::DynamoDB::Table":
                table = call(client_of("dynamodb").describe_table, TableName=resource.name)["Table"]
                return bool(table["TableStatus"] != "DELETING")
            case "AWS::S3::Bucket":
                call(client_of("s3").head_bucket, Bucket=resource.name)
            case "AWS::KMS::Key":
                return bool(_key_state(resource.name) != "PendingDeletion")
            case _:
                pass
    except AwsRefused as error:
        if error.code in ("ResourceNotFoundException", "NotFoundException", "404", "NoSuchBucket"):
            return False
        raise
    return True


def is_protected(resource: RetainedResource) -> bool:
    """Return True for a table with deletion protection."""
    if resource.type != TABLE:
        return False
    table = call(client_of("dynamodb").describe_table, TableName=resource.name)["Table"]
    return bool(table.get("DeletionProtectionEnabled"))


def owner(resource: RetainedResource) -> str:
    """Return the name of the existing stack to which this resource belongs, or "" if it belongs to no stack.

    A retained resource may belong to another stack now, into which an operator has imported it.
    """
    try:
        found = call(client_of("cloudformation").describe_stack_resources, PhysicalResourceId=resource.name)
    except AwsRefused as error:
        if error.code == "ValidationError":
            return ""
        raise
    # Ignore entries whose status begins with DELETE_, because they are from deleted stacks.
    existing = [each for each in found["StackResources"] if not each["ResourceStatus"].startswith("DELETE_")]
    return str(existing[0]["StackName"]) if existing else ""


def delete(resource: RetainedResource, report: Callable[[str], None]) -> str:
    """Delete the resource with its contents, and return a text about the result for the operator.

    Raises AwsRefused, or DeployError if S3 keeps an object.
    """
    match resource.type:
        case "AWS::DynamoDB::Table":
            client = client_of("dynamodb")
            call(client.delete_table, TableName=resource.name)
            client.get_waiter("table_not_exists").wait(
                TableName=resource.name, WaiterConfig={"Delay": 2, "MaxAttempts": 300}
            )
            return "deleted"
        case "AWS::S3::Bucket":
            emptied = empty(resource.name, report)
            call(client_of("s3").delete_bucket, Bucket=resource.name)
            return f"emptied of {emptied} versions, and deleted"
        case "AWS::KMS::Key":
            answer = call(client_of("kms").schedule_key_deletion, KeyId=resource.name, PendingWindowInDays=KEY_DAYS)
            return f"deleted on {answer['DeletionDate']:%Y-%m-%d}; `aws kms cancel-key-deletion` keeps it until then"
        case _:
            call(client_of("logs").delete_log_group, logGroupName=resource.name)
            return "deleted"


def empty(bucket: str, report: Callable[[str], None]) -> int:
    """Delete all versions, delete markers and unfinished uploads in the bucket. Return the number of versions."""
    s3, done = client_of("s3"), 0
    for batch in _batches(_versions(s3, bucket)):
        answer = call(s3.delete_objects, Bucket=bucket, Delete={"Objects": batch, "Quiet": True})
        if failed := answer.get("Errors"):
            raise DeployError(
                f"S3 keeps objects of {bucket}.",
                lines=[f"{each.get('Key')}: {each.get('Code')} {each.get('Message')}" for each in failed[:4]],
                next_step="An object lock or a bucket policy may protect them. Remove it and run the command again; it continues from here.",
            )
        done += len(batch)
        report(f"{done} versions deleted")
    for upload in listed(s3, "list_multipart_uploads", "Uploads", Bucket=bucket):
        call(s3.abort_multipart_upload, Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
    return done


def _versions(s3: Any, bucket: str) -> Iterator[dict[str, str]]:
    for kind in ("Versions", "DeleteMarkers"):
        for each in listed(s3, "list_object_versions", kind, Bucket=bucket):
            yield {"Key": each["Key"], "VersionId": each["VersionId"]}


def _batches(found: Iterator[dict[str, str]]) -> Iterator[list[dict[str, str]]]:
    # Yield a batch for deletion while pages are still to be read. This skips no version, because each page names the
    # next page's first key, not its number.
    batch: list[dict[str, str]] = []
    for each in found:
        batch.append(each)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _key_state(name: str) -> str:
    return str(call(client_of("kms").describe_key, KeyId=name)["KeyMetadata"]["KeyState"])
