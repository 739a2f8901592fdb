"""Section `remotes` of aion.yaml: agents that the agents' code calls by name."""

from enum import StrEnum
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import StringConstraints, model_validator

from aion_core.loading.aion_yaml.cors import RequestHeader
from aion_core.loading.aion_yaml.environment import Variable
from aion_core.loading.aion_yaml.field_types import OnOff, StrictModel

REMOTE_URL = r"^(https?://[^\s/]+\S*|\$\{[A-Za-z_]\w*\}\S*)$"


class RemoteScheme(StrEnum):
    """Kind of credentials for a remote agent."""

    BEARER = "bearer"
    API_KEY = "api_key"
    BASIC = "basic"
    SIGV4 = "sigv4"


class RemoteConfig(StrictModel):
    """A remote agent (A2A), and the credentials for it. They are only sent to the origin of its URL."""

    url: Annotated[str, StringConstraints(pattern=REMOTE_URL)]
    """URL of the agent or of its card. `${NAME}` stands for a variable that depends on the deployment."""
    scheme: RemoteScheme | None = None
    """Kind of credentials: `bearer` token, `api_key`, `basic`, or `sigv4` for another deployment on AWS."""
    secret: Variable | None = None
    """Variable of `secrets` with the token, the key, or `user:password` for `basic`."""
    header: RequestHeader = "X-API-Key"
    """Header of an `api_key`."""
    region: str = ""
    """Region of a `sigv4` API. The default is the region in the URL."""
    callback: OnOff = False
    """`on` lets the agent report the end of a task at `/callbacks`, instead of being asked for it often."""

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if "@" in urlsplit(self.url).netloc:
            raise ValueError("the URL has a user or password in it; use `scheme: basic` and `secret`")
        needs_secret = self.scheme not in (None, RemoteScheme.SIGV4)
        if needs_secret and self.secret is None:
            raise ValueError(f"scheme {self.scheme} needs `secret`, the name of a variable under `secrets`")
        if self.secret is not None and not needs_secret:
            raise ValueError("`secret` needs a `scheme`: bearer, api_key or basic")
        for key, scheme in (("header", RemoteScheme.API_KEY), ("region", RemoteScheme.SIGV4)):
            if key in self.model_fields_set and self.scheme is not scheme:
                raise ValueError(f"`{key}` has no effect without scheme: {scheme}")
        return self
