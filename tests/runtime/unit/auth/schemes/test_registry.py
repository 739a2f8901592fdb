"""Registry of the authentication schemes."""

from aion_core.auth.schemes import SCHEMES
from aion_core.loading.aion_yaml.security import SCHEME_TYPES


def test_each_authentication_scheme_has_its_own_type() -> None:
    assert len(set(SCHEME_TYPES)) == len(SCHEMES)
