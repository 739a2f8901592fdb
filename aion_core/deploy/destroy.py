"""Deletes a deployment: its stack, and, if asked to, what outlives the stack. A second run goes on where one failed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from aion_core.deploy import kept, stacks
from aion_core.deploy.aws import call, client_of
from aion_core.deploy.errors import DeployError
from aion_core.deploy.kept import Kept
from aion_core.deploy.stacks import PAUSE_SECONDS, Event, Stack
from aion_core.errors import ConfigurationError

MOST_FAILURES = 4
OWN = {"ApiFunction", "TaskFunction", "SweepFunction", "State"}
"""Resources that every template of aion has; stacks without them belong to other programs and are refused."""
EARLIER = 5
"""Number of earlier stacks of the same name to search."""


@dataclass(frozen=True)
class Plan:
    """Resources of a deployment that exist."""

    name: str
    stack: Stack | None
    """None if it is deleted already."""
    kept: Sequence[Kept]
    """Retained resources of the last stack of this name, living or deleted."""
    log_groups: Sequence[Kept]
    earlier: Sequence[Kept] = field(default=())
    """Retained resources of earlier stacks of this name; listed, never deleted."""

    @property
    def is_empty(self) -> bool:
        """True if nothing is left."""
        return self.stack is None and not self.kept and not self.log_groups


def plan(name: str) -> Plan:
    """Return what is there of the stack of this name; raises ConfigurationError if there never was one, or it is not aion's."""
    living, gone = stacks.find(name), stacks.deleted(name)
    if living is None and not gone:
        raise ConfigurationError(
            f"There is no stack {name!r} in this account and region, and was none in the last 90 days. --region and "
            "--profile say where to look."
        )
    last, *before = [living.id, *gone] if living else gone
    if living is not None and not stacks.names(living.id) >= OWN and living.status != "REVIEW_IN_PROGRESS":
        raise ConfigurationError(f"The stack {name!r} is none of aion's. Nothing was deleted.")
    own = kept.of_resources(stacks.resources(last)) if living is not None else []
    # A deletion that stopped half way has left resources behind already.
    left = [each for each in kept.of_resources(stacks.skipped(last)) if each not in own and not kept.owner(each)]
    rest = [each for each in [*own, *left] if kept.is_there(each)]
    earlier = [each for stack in before[:EARLIER] for each in kept.of_resources(stacks.skipped(stack))]
    others = [each for each in earlier if each not in rest and kept.is_there(each) and not kept.owner(each)]
    return Plan(name, living, rest, kept.log_groups(name), others)


def check(planned: Plan, *, data: bool) -> None:
    """Raise DeployError, before anything is deleted, for what AWS would refuse half way."""
    stack = planned.stack
    if stack is not None and stack.is_protected:
        raise DeployError(
            f"The stack {stack.name} has termination protection. Nothing was deleted.",
            do=f"aws cloudformation update-termination-protection --no-enable-termination-protection --stack-name {stack.name}",
        )
    if stack is not None and stack.is_changing and stack.status != "DELETE_IN_PROGRESS":
        raise DeployError(
            f"The stack {stack.name} is {stack.status}: an operation is under way. Nothing was deleted.",
            do="Wait until it is over, and run the command again.",
        )
    for each in planned.kept if data else ():
        if kept.is_protected(each):
            raise DeployError(
                f"The {each} has deletion protection. Nothing was deleted.",
                do=f"aws dynamodb update-table --no-deletion-protection-enabled --table-name {each.name}",
            )


def delete_stack(stack: Stack, tell: Callable[[Event], None], *, pause: float = PAUSE_SECONDS) -> None:
    """Delete the stack and wait until it is gone; raises DeployError with what CloudFormation could not delete."""
    since = stacks.last_event(stack.id)
    call(client_of("cloudformation").delete_stack, StackName=stack.id)
    after = stacks.settled(stack.id, since, tell, pause=pause)
    if after.status != "DELETE_COMPLETE":
        failed = [str(event) for event in stacks.failures(stack.id, since)]
        raise DeployError(
            f"The stack {stack.name} could not be deleted; it is {after.status} now.",
            lines=failed[:MOST_FAILURES],
            do="Remove what holds it, and run the command again; it goes on from here.",
        )
