"""File watcher of `aion dev`: which edits reload the agents."""

from pathlib import Path

from watchfiles import Change

from aion_tools.dev.data_folder import DataFolder
from aion_tools.dev.watcher import EditFilter
from tests.support.rows import each_row


@each_row(
    ("path", "counts"),
    [
        ("agent.py", True),
        ("src/mine/tools.py", True),
        ("aion.yaml", True),
        ("langgraph.json", True),
        (".env", True),
        (".env.local", True),
        ("prompts/system.md", True),
        ("mine/prompts/deep/system", True),
        ("prompts/.system.md.swp", False),
        ("README.md", False),
        ("data.sqlite", False),
        (".aion/state.json", False),
        (".git/config.json", False),
        (".venv/lib/x.py", False),
        ("env/lib/x.py", False),
        ("node_modules/x/package.json", False),
        ("mine/__pycache__/x.py", False),
    ],
)
def test_edits_of_code_and_configuration_reload_agents(tmp_path: Path, path: str, counts: bool) -> None:
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "pyvenv.cfg").touch()
    assert EditFilter(tmp_path, DataFolder(tmp_path / ".aion"))(Change.modified, str(tmp_path / path)) is counts


@each_row(
    ("path", "counts"),
    [
        ("data/dev.json", False),
        ("data/dev.json.new", False),
        ("data/store/files/x.json", False),
        ("data/products.json", True),
        ("data/mine/tools.py", True),
        ("dev.json", True),
    ],
)
def test_edits_by_server_itself_do_not_reload_agents(tmp_path: Path, path: str, counts: bool) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    for data in (tmp_path / "data", link / "data"):
        assert EditFilter(tmp_path, DataFolder(data))(Change.modified, str(tmp_path / path)) is counts
