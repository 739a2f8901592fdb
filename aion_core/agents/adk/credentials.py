"""A credential that a tool wants of its user: asked for, and given, in plain words or as ADK's AuthConfig.

What the user gives is for the tool. None of it is logged, or said in an error.
"""

from collections.abc import Mapping
from typing import Any

from google.adk.auth import AuthConfig, AuthCredential
from google.adk.auth.auth_tool import AuthToolArguments
from pydantic import ValidationError

from aion_core.agents.inbound import InvalidResumeInput

_WANTED = (
    "That is no credential. Send the token, or the key, as text; after signing in, the address that you were sent back "
    "to; or an AuthCredential as data."
)
_OAUTH2 = ("oauth2", "openIdConnect")


def shown(args: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the request in words, and as data: ADK's AuthConfig, from which it has left out the agent's own secrets."""
    config = args.get("authConfig") or {}
    address = ((config.get("exchangedAuthCredential") or {}).get("oauth2") or {}).get("authUri")
    text = (
        f"Sign in at {address}, then send the address that you are sent back to."
        if address
        else "A credential is needed: send it."
    )
    return text, {"authConfig": config}


def response(args: Mapping[str, Any], given: Any) -> dict[str, Any]:
    """Return the user's answer as ADK takes it; raises Unfit, without a word of it, where it is none."""
    try:
        wanted = AuthToolArguments.model_validate(args).auth_config
        if isinstance(given, Mapping) and {"exchangedAuthCredential", "exchanged_auth_credential"} & given.keys():
            config = AuthConfig.model_validate(given)
        else:
            config = wanted.model_copy(deep=True)
            config.exchanged_auth_credential = AuthCredential.model_validate(_credential(wanted, given))
    except (ValidationError, TypeError, AttributeError) as error:
        raise InvalidResumeInput(_WANTED) from error
    if config.exchanged_auth_credential is None:
        raise InvalidResumeInput(_WANTED)
    return config.model_dump(mode="json", by_alias=True, exclude_none=True)


def _credential(wanted: AuthConfig, given: Any) -> dict[str, Any]:
    if isinstance(given, Mapping):
        if {"authType", "auth_type"} & given.keys():
            return dict(given)
        fields = dict(given)
    elif isinstance(given, str) and given.strip():
        fields = {}
    else:
        raise InvalidResumeInput(_WANTED)
    kind = str(getattr(wanted.auth_scheme.type_, "value", wanted.auth_scheme.type_))
    if kind in _OAUTH2:
        asked = wanted.exchanged_auth_credential or wanted.raw_auth_credential
        oauth2 = asked.oauth2.model_dump(by_alias=True, exclude_none=True) if asked and asked.oauth2 else {}
        if isinstance(given, str):
            text = given.strip()
            fields = {"authResponseUri": text} if "://" in text else {"accessToken": text}
        return {"authType": kind, "oauth2": {**oauth2, **fields}}
    text = given.strip() if isinstance(given, str) else str(next(iter(fields.values()), ""))
    if not text:
        raise InvalidResumeInput(_WANTED)
    if kind == "apiKey":
        return {"authType": "apiKey", "apiKey": text}
    scheme = getattr(wanted.auth_scheme, "scheme", "bearer")
    return {"authType": "http", "http": {"scheme": scheme, "credentials": {"token": text}}}
