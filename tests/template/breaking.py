"""Copies of the template that are wrong in one place."""

import re
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "template.yaml"
# What of the project the gate reads besides the template: what the code asks for, and what an operator is told to do.
READ = [
    "docs/runbook.md",
    "aion_core/aws/cipher.py",
    "aion_core/ports/schema.py",
    "aion_core/cli/checks/local.py",
    "aion_core/ports/observability.py",
    "aion_core/ports/webhooks.py",
    "aion_core/push/delivery.py",
    "aion_core/settings.py",
]
Mend = tuple[str | re.Pattern[str], str]


def broken(mend: Mend, folder: Path) -> Path:
    """Return a copy of the template, with what its functions name, in one of whose files this is mended for the worse."""
    for code in ("handlers", "aion_core/lambda_runtime"):
        shutil.copytree(ROOT / code, folder / code)
    for file in READ:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, folder / file)
    (folder / "infra").mkdir()
    before, after = mend
    done = 0
    for file in (TEMPLATE, *sorted((ROOT / "infra").glob("*.yaml"))):
        right = file.read_text()
        pattern = before if isinstance(before, re.Pattern) else re.compile(re.escape(before))
        wrong = right if done else pattern.sub(after if isinstance(before, re.Pattern) else lambda _: after, right)
        done += wrong != right
        (folder / file.relative_to(ROOT)).write_text(wrong)
    assert done, "there is nothing to mend"
    return folder / "template.yaml"
