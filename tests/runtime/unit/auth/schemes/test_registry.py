"""Registry of the authentication schemes: one entry adds a scheme."""

import json
import subprocess
import sys
from pathlib import Path

from aion_core.auth.schemes import SCHEMES
from aion_core.loading.aion_yaml.security import SCHEME_TYPES
from tests.support.server import ROOT


def test_each_authentication_scheme_has_its_own_type() -> None:
    assert len(set(SCHEME_TYPES)) == len(SCHEMES)


def test_registered_authentication_scheme_works_without_other_changes(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "tests.runtime.unit.auth.schemes.toy_scheme", str(tmp_path)]
    ran = subprocess.run(program, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found["missing"] == [401, 'Toy realm="aion"']
    assert found["wrong"] == [401, 'Toy realm="aion", error="wrong"']
    assert found["right"] == [200, None]
    assert found["card"]["securitySchemes"] == {
        "toy": {"httpAuthSecurityScheme": {"scheme": "Toy", "description": "Say open."}}
    }
    assert found["card"]["securityRequirements"] == [{"schemes": {"toy": {}}}]
