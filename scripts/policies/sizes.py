"""Lengths of the template's IAM policies, for the longest names and lists that AWS permits in a deployment.

IAM refuses a policy that is too long when CloudFormation creates it, late in a deployment and from a nested stack.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from aion_tools.template.constraints import LONGEST_PARAMETER
from aion_tools.template.reader import MANAGED_POLICY, ROLE, Place, Template
from scripts.policies.deployment import resolved

ROLE_LIMIT = 10_240
"""Characters that IAM permits for the inline policies of a role together."""
POLICY_LIMIT = 6_144
"""Characters that IAM permits for a managed policy."""
# CloudFormation cuts a stack's name at 128 characters, and adds a logical id and a random end for the name of a resource.
LONGEST_PLACE = Place(account="123456789012", region="ap-southeast-2", endpoint="https://sqs", stack_name="s" * 140)
_ACCOUNT = "ap-southeast-2:123456789012"


def _filled(shortest: str) -> str:
    """Return a list of as many short ARNs as a parameter takes: each ARN adds its quotes to the policy."""
    return ",".join([shortest] * ((LONGEST_PARAMETER + 1) // (len(shortest) + 1)))


LONGEST: Mapping[str, str] = {
    "AgentSecrets": _filled(f"arn:aws:ssm:{_ACCOUNT}:parameter/name"),
    "AgentSecretsKey": f"arn:aws:kms:{_ACCOUNT}:key/mrk-{'0' * 32}",
    "BedrockModels": _filled(f"arn:aws:bedrock:{_ACCOUNT}:inference-profile/eu.a.b"),
    # Secrets Manager permits names of 512 characters.
    "BasicUsersSecret": f"arn:aws:secretsmanager:{_ACCOUNT}:secret:{'n' * 512}-AbCdEf",
    "CardKeySecret": f"arn:aws:secretsmanager:{_ACCOUNT}:secret:{'n' * 512}-AbCdEf",
    "SubnetIds": "subnet-0a1b",
    "SecurityGroupIds": "sg-0e3f",
}
"""Parameters with which each policy has its longest form."""


def policy_sizes(path: Path) -> dict[str, tuple[int, int]]:
    """Return the greatest length of the policies of each role and of each managed policy, with IAM's limit for it."""
    template = Template(path, LONGEST_PLACE, LONGEST)

    def size(name: str, documents: Callable[[dict[str, Any]], Iterable[Any]]) -> int:
        properties = resolved(template.owner(name), template.properties(name))
        # Count as IAM does, without white space.
        return sum(len(re.sub(r"\s", "", json.dumps(each))) for each in documents(properties))

    return {
        name: (size(name, documents), limit)
        for kind, documents, limit in (
            (ROLE, lambda role: [each["PolicyDocument"] for each in role.get("Policies", [])], ROLE_LIMIT),
            (MANAGED_POLICY, lambda policy: [policy["PolicyDocument"]], POLICY_LIMIT),
        )
        for name in template.resources(kind)
    }
