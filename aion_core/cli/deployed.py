"""A deployed stack as the commands that call it need it: its URL, and how its requests are signed."""

from dataclasses import dataclass

from aion_core.errors import ConfigurationError


@dataclass(frozen=True)
class Reached:
    """Address of a deployment."""

    url: str
    sign: str
    """As `aion smoke --sign` has it: auto, off, or a region."""


def url_of(parameters: dict[str, str], outputs: dict[str, str]) -> str:
    """Return the URL at which clients reach the stack: the one that its cards name; "" if it has none."""
    domain = parameters.get("DomainName")
    return (
        parameters.get("BaseUrl")
        or (f"https://{domain}" if domain else "")
        or outputs.get("ApiUrl", "")
        or outputs.get("FunctionUrl", "").rstrip("/")
    )


def reach(stack: str, sign: str = "auto") -> Reached:
    """Return where the stack is, and how to sign for it; raises ConfigurationError without such a stack."""
    from aion_core.deploy import aws, stacks

    found = stacks.find(stack)
    url = url_of(found.parameters, found.outputs) if found else ""
    if found is None or not url:
        raise ConfigurationError(
            f"There is no stack {stack!r} of aion's in this account and region. --region and --profile say where to look."
        )
    # The address of a domain or of a proxy does not tell what is behind it; the stack does.
    if sign == "auto" and found.parameters.get("ApiAuthorizer") == "AWS_IAM":
        return Reached(url, aws.region())
    return Reached(url, "off" if sign == "auto" and "ApiAuthorizer" in found.parameters else sign)
