"""Checks of a deployment's template parameters: those that AWS accepts, though the deployment does less than one expects."""

import asyncio
from collections.abc import Iterator, Mapping

from aion_core.delegation.callback_address import problem_of
from aion_core.errors import StoreError
from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.aion_yaml.remotes import RemoteConfig
from aion_tools.cli.chat.endpoint import stack_url
from aion_tools.cli.checks import CheckResult, warning

POLICIES = 10
"""Managed policies that IAM permits for a role unless one asks for more."""
OF_BEDROCK = 2
"""Managed policies of the template for BedrockModels."""
_PAGE = "docs/deploy.md#streaming"


def check_parameters(
    parameters: Mapping[str, str],
    region: str,
    agents: Mapping[str, AgentConfig],
    remotes: Mapping[str, RemoteConfig],
) -> Iterator[CheckResult]:
    """Yield a warning for each parameter with an effect that its deployment does not show.

    `parameters` are those of the stack with the functions. A missing one has its default. `remotes` are the remote agents
    of aion.yaml.
    """
    yield from _function_url(parameters)
    yield from _region(region)
    yield from _policies(parameters)
    yield from _cors(parameters, agents)
    yield from _callbacks(parameters, remotes)


async def check_stack_parameters(
    name: str, agents: Mapping[str, AgentConfig], remotes: Mapping[str, RemoteConfig]
) -> list[CheckResult]:
    """Check the parameters of a deployed stack. Return no result for a stack that cannot be read: `check_stack` reports it."""
    from aion_tools.deploy import cloudformation

    try:
        stack = await asyncio.to_thread(cloudformation.find, name)
        application = await asyncio.to_thread(cloudformation.application, stack) if stack is not None else None
    except StoreError:
        return []
    if application is None:
        return []
    return list(check_parameters(application.parameters, application.id.split(":")[3], agents, remotes))


def _function_url(parameters: Mapping[str, str]) -> Iterator[CheckResult]:
    if parameters.get("FunctionUrlAuth", "OFF") != "OFF" and parameters.get("SubnetIds"):
        message = (
            "The Function URL may send a stream whole at its end, since SubnetIds puts the function into a VPC. AWS's guide "
            'says: "Lambda function URLs do not support response streaming within a VPC environment."'
        )
        next_step = (
            "After the deployment, `aion doctor` with the Function URL shows it. Clients may use the REST API or DomainName "
            f"instead, which stream in any case ({_PAGE})."
        )
        yield warning("function url", message, next_step)


def _region(region: str) -> Iterator[CheckResult]:
    from aion_tools.deploy.aws import COMMERCIAL, partition_of

    if partition_of(region) != COMMERCIAL:
        # https://aws.amazon.com/about-aws/whats-new/2026/04/aws-lambda-response-streaming
        message = (
            f"{region} may send streams whole at their end. AWS announced Lambda's response streaming for all commercial "
            "Regions (7 April 2026), and this is none of them."
        )
        next_step = (
            f"Look it up at builder.aws.com/build/capabilities, or try it: `aion doctor URL` shows it ({_PAGE})."
        )
        yield warning("region", message, next_step)


def _policies(parameters: Mapping[str, str]) -> Iterator[CheckResult]:
    given = [each for each in parameters.get("AgentPolicyArns", "").split(",") if each]
    count = len(given) + (OF_BEDROCK if parameters.get("BedrockModels") else 0)
    if count > POLICIES:
        of_bedrock = f", {OF_BEDROCK} of them for BedrockModels" if parameters.get("BedrockModels") else ""
        message = f"The roles of functions with agents get {count} managed policies{of_bedrock}. By default IAM permits {POLICIES}."
        next_step = 'Merge policies, or ask AWS for more (Service Quotas, IAM, "Managed policies per role").'
        yield warning("policies", message, next_step)


def _cors(parameters: Mapping[str, str], agents: Mapping[str, AgentConfig]) -> Iterator[CheckResult]:
    permitting = [agent_id for agent_id, agent in agents.items() if agent.cors and agent.cors.origins]
    if permitting and "NONE" not in (parameters.get("ApiAuthorizer"), parameters.get("FunctionUrlAuth")):
        message = f"Web pages cannot call {', '.join(permitting)}, since AWS refuses preflight requests, which have no signature."
        next_step = "Deploy with --parameter ApiAuthorizer=NONE, and declare callers under `security` in aion.yaml."
        yield warning("cors", message, next_step)


def _callbacks(parameters: Mapping[str, str], remotes: Mapping[str, RemoteConfig]) -> Iterator[CheckResult]:
    from aion_tools.deploy.parameters import KNOWN_LATER

    names = [name for name, remote in remotes.items() if remote.callback]
    base_url = stack_url(parameters, outputs={})
    if names and KNOWN_LATER not in base_url and (problem := problem_of(base_url)):
        message = f"aion.remotes.{', '.join(names)} has `callback: on`, but {problem}"
        yield warning(
            "callbacks", message, "Until then, the tasks of these agents are polled (docs/waiting.md#callbacks)."
        )
