"""`WWW-Authenticate`: by which schemes a refused caller could prove who they are (RFC 9110, 11.6.1). Pure."""

from aion_core.auth.decision import Refused
from aion_core.auth.declaration import AWS4, ApiKey, Basic, Jwt, Scheme, Security

REALM = "aion"


def challenges(security: Security, refused: Refused) -> str:
    """Return the header's value: a challenge for each scheme that is asked for, one after another."""
    needed = security.needed
    listed = dict.fromkeys(_challenge(scheme, name in refused.invalid, refused) for name, scheme in needed.items())
    # In one field: on Lambda a header has one value.
    return ", ".join(listed)


def _challenge(scheme: Scheme, is_invalid: bool, refused: Refused) -> str:
    match scheme:
        case Jwt():
            challenge = f'Bearer realm="{REALM}"'
            if refused.status == 403:
                # RFC 6750, 3.1.
                scopes = f', scope="{" ".join(sorted(refused.scopes))}"' if refused.scopes else ""
                return f'{challenge}, error="insufficient_scope"{scopes}'
            return f'{challenge}, error="invalid_token"' if is_invalid else challenge
        case Basic():
            return f'Basic realm="{REALM}", charset="UTF-8"'
        case ApiKey(header=header):
            return f'ApiKey realm="{REALM}", header="{header}"'
        case _:
            return f'{AWS4} realm="{REALM}"'
