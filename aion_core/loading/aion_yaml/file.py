"""The whole of aion.yaml: the keys of `aion`, which all agents share."""

from typing import Annotated, Self

from pydantic import Field, StrictBool, StringConstraints, model_validator

from aion_core.engine.limits.limits import REQUESTS_PER_MINUTE, STREAMS_PER_OWNER
from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.aion_yaml.cors import CorsConfig
from aion_core.loading.aion_yaml.environment import Secret, Value, Variable
from aion_core.loading.aion_yaml.field_types import RelativePath, StrictModel
from aion_core.loading.aion_yaml.remotes import RemoteConfig
from aion_core.loading.aion_yaml.security import SecurityConfig


class LimitsConfig(StrictModel):
    """Limits for each caller, declared under `aion.limits` in aion.yaml. `null` turns a limit off."""

    requests_per_minute: Annotated[int, Field(ge=1, le=100_000)] | None = REQUESTS_PER_MINUTE
    """Maximum number of requests of a caller in a minute. Above it, a request is refused with 429."""
    streams_per_owner: Annotated[int, Field(ge=1, le=100)] | None = STREAMS_PER_OWNER
    """Maximum number of open streams and waiting sends. Each occupies a Lambda execution environment."""
    streams_per_task: Annotated[int, Field(ge=1, le=100)] | None = None
    """Maximum number of open streams of one task. The default has no such limit."""
    open_tasks_per_owner: Annotated[int, Field(ge=1, le=200)] | None = None
    """Maximum number of a caller's tasks that are running, queued or waiting for input. The default has no such limit."""


AgentId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
RemoteName = AgentId


class AionSection(StrictModel):
    """Contents of the key `aion`."""

    security: SecurityConfig | None = None
    """Callers of all agents and their credentials. Without it, AWS checks the callers, or nobody does."""
    cors: CorsConfig | None = None
    """Web pages that may call the agents from a browser."""
    limits: LimitsConfig | None = None
    """Limits for each caller. `null` turns a limit off."""
    python_path: list[RelativePath] = []
    """Further folders for imports, relative to this file. The file's folder and its `src` need no entry."""
    exclude: list[str] = []
    """Files of dependencies that the Lambda packages leave out, as patterns of .gitignore, such as `litellm/proxy/`."""
    image: StrictBool = False
    """Deploy the functions with agents as container images of up to 10 GB, instead of zips of up to 250 MB."""
    environment: dict[Variable, Value] = {}
    """Environment variables for the agents' code, with values that may be public."""
    secrets: dict[Variable, Secret] = {}
    """Environment variables for the agents' code, with the name of a secret in Secrets Manager, or `ssm:` and that of a
    parameter. On your machine, the values come from `.env`."""
    remotes: dict[RemoteName, RemoteConfig] = {}
    """Agents elsewhere (A2A), by the names with which the agents' code calls them."""
    agents: dict[AgentId, AgentConfig] = Field(min_length=1)
    """Agents by their ids. Each answers at `/agents/<id>`, the first one at the root too."""

    @model_validator(mode="after")
    def _variables_are_unique(self) -> Self:
        if both := sorted(self.environment.keys() & self.secrets.keys()):
            raise ValueError(f"{', '.join(both)} is in both environment and secrets; remove one of them")
        return self

    @model_validator(mode="after")
    def _secrets_of_remotes_are_declared(self) -> Self:
        for name, remote in self.remotes.items():
            if remote.secret is not None and remote.secret not in self.secrets:
                raise ValueError(
                    f"remotes.{name}.secret names {remote.secret}, which is not a variable under `secrets`. Add it there, "
                    "with the name of its secret on AWS"
                )
        return self

    def with_deployment_settings(self) -> dict[str, AgentConfig]:
        """Return the agents' configurations with the deployment's auth policy and CORS merged into each of them."""
        return {
            agent_id: agent.model_copy(update={"security": self._security_of(agent), "cors": agent.cors or self.cors})
            for agent_id, agent in self.agents.items()
        }

    def _security_of(self, agent: AgentConfig) -> SecurityConfig | None:
        deployment = self.security
        if deployment is None:
            return agent.security
        own = agent.security or SecurityConfig()
        require = own.require
        if require is None:
            require = [{name: []} for name in own.schemes] or deployment.require
        return SecurityConfig.model_construct(schemes={**deployment.schemes, **own.schemes}, require=require)


class ConfigFile(StrictModel):
    """Contents of an aion.yaml."""

    aion: AionSection
    """Agents of this project, and their settings."""
