"""A remote agent: its name, its address and its credentials."""

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct

from aion_core.errors import ConfigurationError

if TYPE_CHECKING:
    import httpx

_VARIABLE = re.compile(r"\$\{(\w+)\}")


class Remote(Struct, frozen=True):
    """A remote agent: where it is, and how its requests are authenticated."""

    name: str
    """Name in aion.yaml, or the URL."""
    url: str
    """URL of the agent or of its card. In aion.yaml, `${NAME}` stands for the value of an environment variable."""
    auth: "Callable[[], httpx.Auth] | None" = None
    """Makes the authentication of a request from the credentials as they are now; None without credentials."""
    calls_back: bool = False
    """True if the agent is asked to report the ends of its tasks."""

    def address(self) -> str:
        """Return the URL with the values of its variables. Raises ConfigurationError if they make no URL."""

        def value(found: re.Match[str]) -> str:
            if not (held := os.environ.get(found[1])):
                raise missing_variable(found[1], f"The URL of the remote {self.name!r}")
            return held

        # A model may have chosen a URL that comes from code: it must not read variables, such as secrets.
        if self.name == self.url:
            return self.url
        url = _VARIABLE.sub(value, self.url)
        if urlsplit(url).scheme not in ("http", "https"):
            raise ConfigurationError(
                f"The URL of the remote {self.name!r} does not begin with https:// or http://: correct its variables."
            )
        return url


def missing_variable(variable: str, what: str) -> ConfigurationError:
    """Return the error for something that needs a variable without a value."""
    return ConfigurationError(
        f"{what} needs the variable {variable}, which has no value. On this machine, put {variable}=… into .env; on AWS, "
        "name its secret under `secrets` in aion.yaml."
    )
