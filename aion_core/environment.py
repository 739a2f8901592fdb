"""Environment variables of a process: their values, and errors that say what to do where the process runs."""

import ipaddress
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from aion_core.errors import ConfigurationError

WEB_ADDRESS = re.compile(r"https?://[^\s/?#]+[^\s?#]*")
"""Pattern of a server's address: an http or https URL without a query."""

_THIS_MACHINE = {"localhost", "host.docker.internal"}


def is_sam_local(environ: Mapping[str, str]) -> bool:
    """Return True in a container of `sam local`."""
    return environ.get("AWS_SAM_LOCAL") == "true"


def is_deployed(environ: Mapping[str, str]) -> bool:
    """Return True for a function on AWS, but not in `sam local` or with an emulated AWS.

    The endpoint of an emulated AWS is a loopback or private IP address, or a name of this machine. A VPC endpoint has
    another name, so a function that uses one is on AWS.
    """
    if not environ.get("AWS_LAMBDA_FUNCTION_NAME") or is_sam_local(environ):
        return False
    try:
        host = urlsplit(environ.get("AWS_ENDPOINT_URL", "")).hostname or ""
        return host not in _THIS_MACHINE and not ipaddress.ip_address(host).is_private
    except ValueError:  # a name, or no endpoint
        return True


def _remedy(environ: Mapping[str, str]) -> str:
    """Return what to do about a missing variable."""
    if is_sam_local(environ):
        return (
            "SAM CLI cannot read it from the template's nested stacks. Run `sam build && sam local start-api` in the "
            "project: its samconfig.toml names .aion/sam-env.json in the section local_start_api, and with this file "
            "the function keeps tasks in memory. An older samconfig.toml lacks this section: docs/development.md has its "
            "lines. `aion sam-local` serves the agents with tables and queues."
        )
    if environ.get("AWS_LAMBDA_FUNCTION_NAME"):
        return "template.yaml sets it: deploy the template with `aion deploy` or `sam deploy`."
    return "template.yaml sets it on AWS. On this machine, `aion dev` serves the agents without it."


class EnvironmentReader:
    """Reader of environment variables. Its methods raise ConfigurationError with the name of the variable."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def text(self, name: str, default: str | None) -> str:
        """Return the value of a variable, or the default if it is unset or empty. None as default makes it required."""
        value = self._environ.get(name) or default
        if value is None:
            raise ConfigurationError(f"The environment variable {name} is missing. {_remedy(self._environ)}")
        return value

    def url(self, name: str, default: str) -> str:
        """Return the http or https URL in a variable."""
        value = self.text(name, default)
        if value and not WEB_ADDRESS.fullmatch(value):
            raise ConfigurationError(f"{name} is {value!r}; it must be an http or https URL without a query.")
        return value

    def entrypoints(self, name: str) -> tuple[str, ...]:
        """Read a variable with the authorization types of the existing HTTP entry points."""
        value = self.text(name, "")
        entrypoints = tuple(value.split(",")) if value else ()
        if not set(entrypoints) <= {"AWS_IAM", "NONE", "OFF"}:
            raise ConfigurationError(
                f"{name} is {value!r}; it must be a comma-separated list of AWS_IAM, NONE and OFF."
            )
        return tuple(entrypoint for entrypoint in entrypoints if entrypoint != "OFF")

    def at_most_one(self, name: str, other: str) -> str:
        """Return the value of the variable `name`. Raises ConfigurationError if `other` is set too."""
        value = self.text(name, "")
        if value and self.text(other, ""):
            raise ConfigurationError(f"{name} and {other} are both set; unset one of them.")
        return value

    def several(self, name: str) -> tuple[str, ...]:
        """Return the texts in a comma-separated variable, without empty texts."""
        return tuple(said for word in self.text(name, "").split(",") if (said := word.strip()))

    def port(self, name: str, value: str) -> int:
        """Return the port that a part of a variable's value contains."""
        if not (value.isascii() and value.isdecimal() and 0 < int(value) < 65536):
            raise ConfigurationError(f"{name} contains {value!r}; a port is a number from 1 to 65535.")
        return int(value)

    def network(self, name: str, value: str) -> str:
        """Return a part of a variable's value unchanged if it is an IP network."""
        try:
            ipaddress.ip_network(value)
        except ValueError:
            raise ConfigurationError(f"{name} contains {value!r}; a network looks like 10.1.0.0/16.") from None
        return value

    def one_of(self, name: str, choices: tuple[str, ...]) -> str:
        """Return the value of a variable; default is the first choice. Raises ConfigurationError for other values."""
        value = self.text(name, choices[0]).lower()
        if value not in choices:
            raise ConfigurationError(f"{name} is {value!r}; it must be {' or '.join(choices)}.")
        return value

    def seconds(self, name: str, default: float) -> float:
        """Return the number in a variable, which must be above 0."""
        value = self.text(name, str(default))
        try:
            number = float(value)
        except ValueError:
            number = 0.0
        if not 0 < number < float("inf"):
            raise ConfigurationError(f"{name} is {value!r}; it must be a number above 0.")
        return number

    def count(self, name: str, default: int) -> int:
        """Return the whole number in a variable, 1 or more."""
        value = self.text(name, str(default))
        if not (value.isascii() and value.isdecimal() and int(value) > 0):
            raise ConfigurationError(f"{name} is {value!r}; it must be a whole number, 1 or more.")
        return int(value)
