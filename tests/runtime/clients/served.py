"""Servers of the agents of this folder, one for each form of answers."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from tests.support.server import aion_dev, serving

FOLDER = Path(__file__).parent
FORMS = ("message", "artifact")
"""Values of the key `answer` in aion.yaml."""


@contextmanager
def served(form: str) -> Iterator[str]:
    """Serve the agents with their answers in this form; yield the server's URL."""
    config = yaml.safe_load((FOLDER / "aion.yaml").read_text(encoding="utf-8"))
    for agent in config["aion"]["agents"].values():
        agent |= {"path": str(FOLDER / agent["path"]), "answer": form}
    with TemporaryDirectory() as folder:
        written = Path(folder) / "aion.yaml"
        written.write_text(yaml.safe_dump(config), encoding="utf-8")
        with serving(aion_dev("--store", "memory", "--config", str(written))) as server:
            yield server.url
