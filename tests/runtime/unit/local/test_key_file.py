"""Key file of a server whose data is in local files."""

import subprocess
import sys
from pathlib import Path

import pytest

from aion_core.errors import ConfigurationError
from aion_core.local.key_file import local_key


def test_local_key_file_is_readable_by_owner_only(tmp_path: Path) -> None:
    program = "import sys; from pathlib import Path; from aion_core.local.key_file import local_key;"
    program += "print(local_key(Path(sys.argv[1])).hex())"
    file = tmp_path / "key"
    several = [
        subprocess.Popen([sys.executable, "-c", program, str(file)], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    printed = {process.communicate()[0].strip() for process in several}
    assert printed == {local_key(file).hex()}
    assert file.stat().st_mode & 0o077 == 0
    assert [each.name for each in tmp_path.iterdir()] == ["key"]


@pytest.mark.parametrize("content", [b"", b"short"])
def test_local_encryption_key_of_wrong_length_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(ConfigurationError, match="is not a key of aion"):
        local_key(tmp_path / "key")
