"""The services of ADK that a deployment has no store of its own for: the author's, where the agent's module holds one."""

import warnings
from types import ModuleType
from typing import Any

from google.adk.auth.credential_service.base_credential_service import BaseCredentialService
from google.adk.auth.credential_service.session_state_credential_service import SessionStateCredentialService
from google.adk.memory import BaseMemoryService, InMemoryMemoryService

from aion_core.errors import ConfigurationError

warnings.filterwarnings("ignore", r"\[EXPERIMENTAL\] \w*CredentialService", UserWarning)


def memory_of(module: ModuleType | None) -> BaseMemoryService:
    """Return the module's memory service, else one that lasts as long as the process; raises ConfigurationError."""
    return _only(module, BaseMemoryService) or InMemoryMemoryService()


def credentials_of(module: ModuleType | None) -> BaseCredentialService:
    """Return the module's credential service, else one that keeps a user's credentials in the sealed session.

    Raises ConfigurationError.
    """
    return _only(module, BaseCredentialService) or SessionStateCredentialService()


def _only(module: ModuleType | None, kind: Any) -> Any:
    found = {
        id(value): name
        for name, value in (vars(module) if module is not None else {}).items()
        if isinstance(value, kind)
    }
    if len(found) > 1:
        raise ConfigurationError(f"its module holds several of {kind.__name__}: {', '.join(found.values())}. Keep one.")
    return getattr(module, next(iter(found.values()))) if found else None
