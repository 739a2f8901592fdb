"""Packages for the containers of `aion sam-local`."""

from pathlib import Path

import pytest

from aion_core.errors import ConfigurationError
from aion_tools import project
from aion_tools.deploy.sam import Sam
from aion_tools.deploy.samconfig import SamConfig
from aion_tools.sam_local import packages

TEMPLATE = Path(project.__file__).with_name("files") / "every" / "template.yaml"


def test_images_for_other_processor_are_refused(tmp_path: Path) -> None:
    """Docker would build images for the template's processor from packages for the engine's."""
    (tmp_path / "template.yaml").write_text(
        TEMPLATE.read_text().replace("@architecture@", "arm64").replace("@name@", "mine")
    )
    (tmp_path / "aion.yaml").write_text("aion: {image: true, agents: {a: {path: 'agent.py:graph'}}}\n")
    sam = Sam(Path("/bin/false"), tmp_path, SamConfig.read(tmp_path / "samconfig.toml"))
    with pytest.raises(ConfigurationError, match=r"Architecture in template.yaml, arm64; .* runs x86_64"):
        packages.build(sam, tmp_path / "build", "x86_64")
