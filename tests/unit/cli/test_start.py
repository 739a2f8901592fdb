"""The entry point of the command."""

import subprocess
import sys


def test_interrupted_import_ends_silently() -> None:
    """Ctrl-C reaches the command at the first import of its modules."""
    code = (
        "import sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'aion_core.cli.dev':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "from aion_core.cli.__main__ import main\n"
        "main()\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "")
