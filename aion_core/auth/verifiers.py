"""What knows each scheme; what a scheme needs is imported where it is declared."""

from collections.abc import Callable, Iterable, Mapping

from aion_core.auth.declaration import ApiKey, AwsIam, Basic, Jwt, Scheme, Security
from aion_core.auth.guard import Guard, Verifier
from aion_core.ports import ApiKeys, Clock


def build_guards(
    securities: Mapping[str, Security],
    *,
    clock: Clock,
    api_keys: Callable[[], ApiKeys],
    users: Callable[[], Mapping[str, str]],
) -> dict[str, Guard]:
    """Return what stands before each agent; a scheme has one verifier for all of them.

    `users` is called now, and again every few minutes. Raises ConfigurationError, as `users` does now.
    """
    schemes: Iterable[Scheme] = {scheme for security in securities.values() for scheme in security.needed.values()}
    verifiers = {scheme: _verifier(scheme, clock, api_keys, users) for scheme in schemes}
    return {
        agent_id: Guard(agent_id, security, {name: verifiers[scheme] for name, scheme in security.needed.items()})
        for agent_id, security in securities.items()
    }


def _verifier(
    scheme: Scheme, clock: Clock, api_keys: Callable[[], ApiKeys], users: Callable[[], Mapping[str, str]]
) -> Verifier:
    match scheme:
        case Jwt():
            from aion_core.auth.bearer import BearerVerifier
            from aion_core.auth.fetch import fetch
            from aion_core.auth.jwks import Keys

            return BearerVerifier(scheme, Keys(scheme, fetch, clock))
        case ApiKey():
            from aion_core.auth.api_keys import ApiKeyVerifier

            return ApiKeyVerifier(scheme, api_keys())
        case Basic():
            from aion_core.auth.basic import BasicVerifier
            from aion_core.auth.users import Users

            return BasicVerifier(Users(users, clock), clock)
        case AwsIam():
            from aion_core.auth.iam import IamVerifier

            return IamVerifier(scheme)
