"""What is wrong with a template, also where `sam validate --lint` sees nothing; offline, without credentials.

SAM's own transform makes plain CloudFormation of it, cfn-lint reads that, and the rest is what neither of them notices
(infra/gates): a stream that is silently buffered, a message that comes again while it is worked on, an alarm that rings
for nobody.
"""

import functools
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from samtranslator.model.exceptions import InvalidDocumentException

from aion_core.template.reader import TemplateError
from infra.gates import (
    access,
    alarms,
    bucket,
    exposure,
    files,
    functions,
    operations,
    state,
    streams,
    table,
    times,
    wiring,
)
from infra.gates.deployed import REGION, Deployed, packaged
from infra.gates.deployed import transformed as transformed

# What cfn-lint is not asked, and why.
IGNORED = {
    "W2001": "a parameter that is not used: the transform itself has used some of them up; infra/gates/files.py looks"
}

GATES = (files, wiring, streams, functions, times, access, exposure, state, table, bucket, alarms, operations)


def problems(path: Path, parameters: Mapping[str, str] | None = None, *, lint: bool = True) -> Iterator[str]:
    """Yield what is wrong with the template when it is deployed with these parameters; the slow linter is heard last."""
    try:
        deployed = Deployed.of(path, parameters or {})
        for gate in GATES:
            yield from gate.problems(deployed)
        for file, document in deployed.documents.items() if lint else ():
            for told in _linted(json.dumps(packaged(document), default=str)):
                yield f"{file.name}: {told}"
    except TemplateError as error:
        yield str(error)
    except InvalidDocumentException as error:
        yield from (cause.message for cause in error.causes)


# What parameters do not change is not asked again.
@functools.lru_cache(maxsize=32)
def _linted(document: str) -> tuple[str, ...]:
    # It brings sympy along, which takes more than a second: who only asks the gates does not wait for it.
    import cfnlint.api  # type: ignore[import-untyped]
    from cfnlint.config import ManualArgs  # type: ignore[import-untyped]

    config = ManualArgs(regions=[REGION], ignore_checks=list(IGNORED))
    return tuple(f"{match.rule.id} {match.message}" for match in cfnlint.api.lint(document, config=config))


def main() -> int:
    """Say what is wrong with template.yaml."""
    found = list(problems(Path("template.yaml")))
    print("\n".join(found), file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
