"""Credentials that an ADK agent requests from the client.

Neither a log record nor an error message may contain the user's credential.
"""

from collections.abc import Mapping
from typing import Any

from google.adk.auth import AuthConfig, AuthCredential
from google.adk.auth.auth_tool import AuthToolArguments
from pydantic import ValidationError

from aion_core.agents.client_answers import InvalidResumeInput

_INVALID_CREDENTIAL = (
    "That is not a credential. Send the token or the key as text, the redirect address after signing in, or an "
    "AuthCredential as data."
)
_OAUTH2 = ("oauth2", "openIdConnect")


def credential_prompt(args: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the request for a credential: its text, and ADK's AuthConfig as data.

    ADK has already removed the agent's own secrets from the AuthConfig.
    """
    config = args.get("authConfig") or {}
    address = ((config.get("exchangedAuthCredential") or {}).get("oauth2") or {}).get("authUri")
    text = (
        f"Sign in at {address}, then send the address that you are sent back to."
        if address
        else "A credential is needed: send it."
    )
    return text, {"authConfig": config}


def credential_response(args: Mapping[str, Any], given: Any) -> dict[str, Any]:
    """Convert the client's answer to ADK's AuthConfig. Raises InvalidResumeInput, without quoting the answer."""
    try:
        wanted = AuthToolArguments.model_validate(args).auth_config
        if isinstance(given, Mapping) and {"exchangedAuthCredential", "exchanged_auth_credential"} & given.keys():
            config = AuthConfig.model_validate(given)
        else:
            config = wanted.model_copy(deep=True)
            config.exchanged_auth_credential = AuthCredential.model_validate(_credential(wanted, given))
    except (ValidationError, TypeError, AttributeError) as error:
        raise InvalidResumeInput(_INVALID_CREDENTIAL) from error
    if config.exchanged_auth_credential is None:
        raise InvalidResumeInput(_INVALID_CREDENTIAL)
    return config.model_dump(mode="json", by_alias=True, exclude_none=True)


def _credential(wanted: AuthConfig, given: Any) -> dict[str, Any]:
    if isinstance(given, Mapping):
        if {"authType", "auth_type"} & given.keys():
            return dict(given)
        fields = dict(given)
    elif isinstance(given, str) and given.strip():
        fields = {}
    else:
        raise InvalidResumeInput(_INVALID_CREDENTIAL)
    kind = str(getattr(wanted.auth_scheme.type_, "value", wanted.auth_scheme.type_))
    if kind in _OAUTH2:
        requested = wanted.exchanged_auth_credential or wanted.raw_auth_credential
        known = requested.oauth2.model_dump(by_alias=True, exclude_none=True) if requested and requested.oauth2 else {}
        if isinstance(given, str):
            text = given.strip()
            fields = {"authResponseUri": text} if "://" in text else {"accessToken": text}
        return {"authType": kind, "oauth2": {**known, **fields}}
    value = given if isinstance(given, str) else next(iter(fields.values()), None)
    text = value.strip() if isinstance(value, str) else ""
    if not text:
        raise InvalidResumeInput(_INVALID_CREDENTIAL)
    if kind == "apiKey":
        return {"authType": "apiKey", "apiKey": text}
    scheme = getattr(wanted.auth_scheme, "scheme", "bearer")
    return {"authType": "http", "http": {"scheme": scheme, "credentials": {"token": text}}}
