"""Auth policies of a deployment: those that aion.yaml declares, AWS signatures, or no authentication at all. Pure."""

from collections.abc import Collection, Mapping

from aion_core.auth.policy import AuthPolicy
from aion_core.auth.schemes.aws_iam import AwsIamScheme
from aion_core.errors import ConfigurationError

SIGNED, OPEN = "AWS_IAM", "NONE"
"""Authorizers of an HTTP entry point. With `SIGNED` AWS verifies signatures, with `OPEN` it forwards all requests."""

_IAM_POLICY = AuthPolicy({"aws_iam": AwsIamScheme()}, ({"aws_iam": frozenset()},))
"""Policy of an aion.yaml without `security` if all HTTP entry points verify signatures. The signer is the caller."""


def policies_in_force(
    declared: Mapping[str, AuthPolicy],
    agent_ids: Collection[str],
    authorizers: Collection[str],
    *,
    is_off: bool,
    is_temporary: bool,
) -> dict[str, AuthPolicy]:
    """Return the policy that the callers of each agent have to fulfil; {} admits every caller without authentication.

    Callers are not authenticated in two cases only:

    - The operator has turned authentication off (`is_off`). Then the server admits callers on its own machine only, and
      a deployed function refuses to start.
    - aion.yaml declares no policy, and the store ends with the process (`is_temporary`), as in tests.

    Otherwise each agent has its declared policy. Without declared policies, AWS signatures are required if every HTTP
    entry point verifies them. `authorizers` has the authorizers of the deployment's entry points; it is empty outside of
    the template's function. Raises ConfigurationError if nobody would authenticate callers, or if no caller could fulfil
    a policy.
    """
    if is_off or (is_temporary and not declared):
        return {}
    if not declared:
        if authorizers and set(authorizers) == {SIGNED}:
            return dict.fromkeys(agent_ids, _IAM_POLICY)
        raise ConfigurationError(
            "aion.yaml declares no `security`, so nobody would authenticate callers. Declare it there, or deploy with "
            "ApiAuthorizer and FunctionUrlAuth set to AWS_IAM."
        )
    for agent_id, policy in declared.items():
        _check_entrypoints(agent_id, policy, set(authorizers))
    return dict(declared)


def admits_own_machine_only(*, is_off: bool) -> bool:
    """Return True if the server admits callers on its own machine only, so that no other machine can use it.

    That is so if the operator has turned authentication off (`is_off`). A server without policies and with a temporary
    store, as in tests, may be called under any host name.
    """
    return is_off


def _check_entrypoints(agent_id: str, policy: AuthPolicy, authorizers: set[str]) -> None:
    by_aws = [any(policy.schemes[name].verified_by_aws for name in requirement) for requirement in policy.require]
    if SIGNED in authorizers and (not any(by_aws) or (authorizers == {SIGNED} and not all(by_aws))):
        raise ConfigurationError(
            f"aion.agents.{agent_id} accepts requests without AWS signatures, and the HTTP entry point requires signatures. "
            "Deploy with ApiAuthorizer NONE, or require a scheme of type aws-iam."
        )
    if OPEN in authorizers and (all(by_aws) or (authorizers == {OPEN} and any(by_aws))):
        raise ConfigurationError(
            f"aion.agents.{agent_id} requires AWS signatures, and the HTTP entry point does not verify signatures. "
            "Deploy with ApiAuthorizer AWS_IAM, or require another scheme."
        )
