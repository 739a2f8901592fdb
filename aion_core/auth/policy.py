"""Auth policy of an agent: the requirements that a caller must fulfil. Pure.

The agent card lists the same requirements as the policy enforces (A2A 4.5).
"""

from collections.abc import Mapping

from msgspec import Struct, field

from aion_core.auth.scheme import Scheme

Requirement = Mapping[str, frozenset[str]]
"""Required scopes by the name of an authentication scheme. A request must have credentials of every scheme in the
mapping."""


class AuthPolicy(Struct, frozen=True):
    """Authentication schemes of an agent, and the requirements that a caller must fulfil for access."""

    schemes: Mapping[str, Scheme]
    require: tuple[Requirement, ...]
    """Requirements for access to the agent. They are alternatives, so a caller has to fulfil only one of them."""
    skills: Mapping[str, tuple[Requirement, ...]] = field(default_factory=dict)
    """Additional requirements of the restricted skills, by skill id. For each skill, a caller has to fulfil only one of
    them."""
    has_open_skill: bool = True
    """True if the agent has a skill without additional requirements."""

    @property
    def required_schemes(self) -> dict[str, Scheme]:
        """Return the schemes that a requirement names, by name. Aion verifies and advertises only these."""
        named = {name for each in (self.require, *self.skills.values()) for alternative in each for name in alternative}
        return {name: scheme for name, scheme in self.schemes.items() if name in named}
