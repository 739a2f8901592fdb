"""`aion deploy`: its warning about refused preflight requests. tests/tools/e2e/test_deploy.py runs the whole command."""

from pathlib import Path

import pytest

from aion_core.loading.deployment import read_deployment_config
from aion_tools.cli.deploy import cors_warning

AION_YAML = """
aion:
  agents:
    helper: {path: agent.py, cors: {origins: [%s]}}
    archive: {path: archive.py}
"""
ORIGIN = "https://app.example.com"


@pytest.mark.parametrize(
    ("origins", "parameters", "warns"),
    [
        (ORIGIN, {}, True),
        (ORIGIN, {"ApiAuthorizer": "AWS_IAM", "FunctionUrlAuth": "AWS_IAM"}, True),
        (ORIGIN, {"ApiAuthorizer": "NONE"}, False),
        (ORIGIN, {"ApiAuthorizer": "AWS_IAM", "FunctionUrlAuth": "NONE"}, False),
        ("", {}, False),
    ],
)
def test_deploy_warns_that_aws_would_refuse_cors_preflights(
    tmp_path: Path, origins: str, parameters: dict[str, str], warns: bool
) -> None:
    (tmp_path / "aion.yaml").write_text(AION_YAML % origins)
    warning = cors_warning(read_deployment_config(tmp_path / "aion.yaml"), parameters)
    assert ("web pages cannot call helper, since" in warning) == warns
