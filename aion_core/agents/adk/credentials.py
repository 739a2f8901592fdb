"""Credentials that an ADK agent requests from the client.

Neither a log record nor an error message may contain the user's credential.
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from google.adk.auth import AuthConfig, AuthCredential, OAuth2Auth
from google.adk.auth.auth_preprocessor import TOOLSET_AUTH_CREDENTIAL_ID_PREFIX
from google.adk.auth.auth_tool import AuthToolArguments
from pydantic import ValidationError

from aion_core.agents.client_answers import InvalidResumeInput
from aion_core.errors import AgentFailed

_INVALID_CREDENTIAL = (
    "That is not a credential. Send the token or the key as text without blanks, the redirect address after signing in, "
    "or an AuthCredential as data. To refuse, answer no."
)
_OTHER_STATE = (
    "That address or credential belongs to another sign-in: its state differs. Sign in again, and send the new one."
)
_OAUTH2 = ("oauth2", "openIdConnect")
_DENIED = {"error": "access_denied"}
_NO = frozenset({"no", "n", "cancel", "canceled", "cancelled", "deny", "denied", "refuse", "decline", "reject"})

_TOKEN = re.compile(r"[\x21-\x7e]+")
"""Matches a token or key: it is sent in a header, and has no blanks (RFC 6750 2.1)."""


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


def refusal_of(args: Mapping[str, Any], given: Any) -> Mapping[str, str] | None:
    """Return the OAuth error (RFC 6749 4.1.2.1) with which the client refuses the credential; None if it does not.

    The client refuses by a word, by the error as data, or by the redirect address after it has refused to sign in.
    Raises InvalidResumeInput for the redirect address of another sign-in.
    """
    if isinstance(given, str) and given.strip().strip(".!").lower() in _NO:
        return _DENIED
    address = _address_in(given)
    found: Mapping[str, Any] = _parameters(address) if address else given if isinstance(given, Mapping) else {}
    if address and "error" in found:
        _check_state(found.get("state"), _requested(_wanted(args)))
    if not isinstance(found.get("error"), str) or not found["error"]:
        return None
    return {key: found[key] for key in ("error", "error_description") if isinstance(found.get(key), str)}


def node_refusal(args: Mapping[str, Any], error: Mapping[str, str]) -> dict[str, Any]:
    """Return an AuthConfig whose credential has only the error, for a workflow node: it runs, and finds no token.

    Raises AgentFailed for a toolset, because ADK would request its credential again without end.
    """
    if str(args.get("functionCallId")).startswith(TOOLSET_AUTH_CREDENTIAL_ID_PREFIX):
        raise AgentFailed(f"The credential for the agent's tools was refused ({error['error']}).")
    config = _wanted(args).model_copy(deep=True)
    known, kind = _requested(config), _kind(config)
    oauth2 = None
    if kind in _OAUTH2:
        # In the fragment, because ADK then sends no request to the token endpoint.
        response = urlencode({**error, **({"state": known.state} if known and known.state else {})})
        base = known.redirect_uri if known and known.redirect_uri else ""
        fields = known.model_dump(exclude_none=True) if known else {}
        oauth2 = OAuth2Auth(**{**fields, **error, "auth_response_uri": f"{base}#{response}"})
    config.exchanged_auth_credential = AuthCredential.model_validate({"auth_type": kind, "oauth2": oauth2, **error})
    return _dumped(config)


def credential_response(args: Mapping[str, Any], given: Any) -> dict[str, Any]:
    """Convert the client's answer to ADK's AuthConfig. Raises InvalidResumeInput, without quoting the answer.

    The credential gets the state of the request, whatever its form: ADK accepts no credential without it.
    """
    try:
        wanted = _wanted(args)
        if isinstance(given, Mapping) and {"exchangedAuthCredential", "exchanged_auth_credential"} & given.keys():
            config = AuthConfig.model_validate(given)
        else:
            config = wanted.model_copy(deep=True)
            config.exchanged_auth_credential = AuthCredential.model_validate(_credential(wanted, given))
    except (ValidationError, TypeError, AttributeError) as error:
        raise InvalidResumeInput(_INVALID_CREDENTIAL) from error
    credential, requested = config.exchanged_auth_credential, _requested(wanted)
    if credential is None or not _is_usable(credential, _kind(wanted)):
        raise InvalidResumeInput(_INVALID_CREDENTIAL)
    if credential.oauth2 is not None and requested is not None:
        for state in (credential.oauth2.state, _parameters(credential.oauth2.auth_response_uri or "").get("state")):
            _check_state(state, requested)
        _complete(credential.oauth2, requested)
    return _dumped(config)


def _wanted(args: Mapping[str, Any]) -> AuthConfig:
    return AuthToolArguments.model_validate(args).auth_config


def _kind(config: AuthConfig) -> str:
    return str(getattr(config.auth_scheme.type_, "value", config.auth_scheme.type_))


def _dumped(config: AuthConfig) -> dict[str, Any]:
    return config.model_dump(mode="json", by_alias=True, exclude_none=True)


def _requested(config: AuthConfig) -> OAuth2Auth | None:
    """Return what the request for a credential already knows about the sign-in, such as its state."""
    credential = config.exchanged_auth_credential or config.raw_auth_credential
    return credential.oauth2 if credential is not None else None


def _check_state(given: str | None, requested: OAuth2Auth | None) -> None:
    """Raise InvalidResumeInput if the answer has the state of another sign-in."""
    if given and requested is not None and requested.state and given != requested.state:
        raise InvalidResumeInput(_OTHER_STATE)


def _complete(credential: OAuth2Auth, requested: OAuth2Auth) -> None:
    """Set what the client has left out of its credential, such as the state."""
    for name in requested.model_fields_set:
        if getattr(credential, name, None) is None:
            setattr(credential, name, getattr(requested, name))


def _is_usable(credential: AuthCredential, kind: str) -> bool:
    """Return True if the credential has a content of the requested kind. ADK fails for others, or asks no more."""
    oauth2, http = credential.oauth2, credential.http
    if kind in _OAUTH2:
        if oauth2 is None:
            return False
        if oauth2.auth_response_uri:
            parameters = _parameters(oauth2.auth_response_uri)
            return bool({"code", "access_token", "id_token"} & parameters.keys())
        tokens = [
            each for each in (oauth2.access_token, oauth2.auth_code, oauth2.refresh_token, oauth2.id_token) if each
        ]
        return bool(tokens) and all(map(_TOKEN.fullmatch, tokens))
    if kind == "apiKey":
        return bool(credential.api_key and credential.api_key.strip())
    if kind == "http":
        parts = http.credentials if http is not None else None
        return parts is not None and bool((parts.token and _TOKEN.fullmatch(parts.token)) or parts.username)
    return True


def _address_in(given: Any) -> str:
    """Return the redirect address after signing in, also from an AuthCredential or AuthConfig; "" if there is none."""
    for keys in (
        ("exchangedAuthCredential", "exchanged_auth_credential"),
        ("oauth2",),
        ("authResponseUri", "auth_response_uri"),
    ):
        if isinstance(given, Mapping):
            given = next((given[key] for key in keys if key in given), given)
    return given if isinstance(given, str) and "://" in given else ""


def _parameters(address: str) -> dict[str, str]:
    """Return the parameters in the query and the fragment of an address; empty for any other text."""
    if "://" not in address:
        return {}
    try:
        parts = urlsplit(address.strip())
    except ValueError:
        return {}
    return dict(parse_qsl(parts.query) + parse_qsl(parts.fragment))


def _credential(wanted: AuthConfig, given: Any) -> dict[str, Any]:
    """Return the fields of an AuthCredential: given as such, or its token or address alone."""
    if isinstance(given, Mapping):
        if {"authType", "auth_type"} & given.keys():
            return dict(given)
        fields = dict(given)
    elif isinstance(given, str):
        fields = {}
    else:
        raise InvalidResumeInput(_INVALID_CREDENTIAL)
    kind = _kind(wanted)
    value = given if isinstance(given, str) else next(iter(fields.values()), None)
    text = value.strip() if isinstance(value, str) else ""
    if kind in _OAUTH2:
        if isinstance(given, str):
            if not _TOKEN.fullmatch(text):
                raise InvalidResumeInput(_INVALID_CREDENTIAL)
            fields = {"authResponseUri": text} if "://" in text else {"accessToken": text}
        return {"authType": kind, "oauth2": fields}
    if not _TOKEN.fullmatch(text):
        raise InvalidResumeInput(_INVALID_CREDENTIAL)
    if kind == "apiKey":
        return {"authType": "apiKey", "apiKey": text}
    scheme = getattr(wanted.auth_scheme, "scheme", "bearer")
    return {"authType": "http", "http": {"scheme": scheme, "credentials": {"token": text}}}
