"""What stands before the function, and whether it goes together with what is declared. Pure.

API Gateway and a Function URL either check AWS signatures themselves (AWS_IAM), or let everybody through to the
function (NONE). What they enforce has to be declared, and what is declared must be possible through them.
"""

from collections.abc import Collection, Mapping

from aion_core.auth.declaration import AwsIam, Requirement, Security
from aion_core.errors import ConfigurationError

SIGNED, OPEN = "AWS_IAM", "NONE"

BY_IAM = Security({"aws_iam": AwsIam()}, ({"aws_iam": frozenset()},))
"""What is in force where nothing is declared and every front asks for signatures: the signer is the caller."""


def settled(
    securities: Mapping[str, Security], agent_ids: Collection[str], entrypoints: Collection[str]
) -> dict[str, Security]:
    """Return who may call each agent behind these fronts; none are named where this is not the template's function.

    Raises ConfigurationError where nobody would be asked who they are, or somebody is promised what cannot be.
    """
    if not securities:
        if entrypoints and set(entrypoints) == {SIGNED}:
            return dict.fromkeys(agent_ids, BY_IAM)
        raise ConfigurationError(
            "aion.yaml declares no `security`, and nothing else would ask callers who they are. Declare it "
            "there, or deploy with ApiAuthorizer and FunctionUrlAuth asking for AWS_IAM."
        )
    for agent_id, security in securities.items():
        _check(agent_id, security, set(entrypoints))
    return dict(securities)


def _check(agent_id: str, security: Security, entrypoints: set[str]) -> None:
    by_iam = [_asks_for_iam(security, requirement) for requirement in security.require]
    if SIGNED in entrypoints and (not any(by_iam) or (entrypoints == {SIGNED} and not all(by_iam))):
        raise ConfigurationError(
            f"aion.agents.{agent_id} can be called without AWS signatures, as aion.yaml says, and the front before it "
            "asks for them. Deploy with ApiAuthorizer NONE, or require a scheme of type aws-iam."
        )
    if OPEN in entrypoints and (all(by_iam) or (entrypoints == {OPEN} and any(by_iam))):
        raise ConfigurationError(
            f"aion.agents.{agent_id} requires AWS signatures, as aion.yaml says, and the front before it checks none. "
            "Deploy with ApiAuthorizer AWS_IAM, or require another scheme."
        )


def _asks_for_iam(security: Security, requirement: Requirement) -> bool:
    return any(isinstance(security.schemes[name], AwsIam) for name in requirement)
