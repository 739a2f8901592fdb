"""URL of a deployment, and whether its requests need an AWS signature."""

from collections.abc import Mapping
from dataclasses import dataclass

from aion_core.errors import ConfigurationError


@dataclass(frozen=True)
class Endpoint:
    """URL of a deployment, and the setting `--sign` for requests to it."""

    url: str
    sign: str
    """auto, on, off, or the region of the AWS signature."""
    is_traced: bool = False
    """True for this folder's development server: its trace may be read."""


def stack_url(parameters: Mapping[str, str], outputs: Mapping[str, str]) -> str:
    """Return the base URL that the stack's agent cards contain; "" if the stack has no HTTP entry point."""
    domain = parameters.get("DomainName")
    return (
        parameters.get("BaseUrl")
        or (f"https://{domain}" if domain else "")
        or outputs.get("ApiUrl", "")
        or outputs.get("FunctionUrl", "").rstrip("/")
    )


def stack_endpoint(stack: str, sign: str = "auto") -> Endpoint:
    """Look up the URL of a stack and, if it needs AWS signatures, their region.

    Raises ConfigurationError for an unknown stack.
    """
    from aion_tools.deploy import aws, cloudformation

    found = cloudformation.find(stack)
    found = cloudformation.application(found) if found else None
    url = stack_url(found.parameters, found.outputs) if found else ""
    if found is None or not url:
        raise ConfigurationError(
            f"There is no aion stack {stack!r} in this account and region. Check --region and --profile."
        )
    # Read from the stack's parameters whether AWS verifies signatures, because the URL of a custom domain does not show
    # it.
    if sign == "auto" and found.parameters.get("ApiAuthorizer") == "AWS_IAM":
        return Endpoint(url, aws.region())
    return Endpoint(url, "off" if sign == "auto" and "ApiAuthorizer" in found.parameters else sign)
