"""`make mutants`: run mutation tests with mutmut. Fails for a low score or an unexplained surviving mutant."""

import json
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
MUTANTS = Path("mutants")
"""Working folder of mutmut, with generated mutants and results."""
SURVIVORS = ROOT / "scripts/survivors.toml"
"""File with the mutants that no test can kill, and the reasons."""
LOWEST_SCORE = 90
KILLED = ("killed", "timeout")


def run() -> None:
    """Generate and test all mutants. Exit with the output of mutmut if it fails."""
    # Delete mutmut's results of the last run. They list the tests of each function, and mutmut adds no new tests.
    shutil.rmtree(MUTANTS, ignore_errors=True)
    program = Path(sys.executable).parent / "mutmut"
    ran = subprocess.run([program, "run"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # noqa: S603
    if ran.returncode:
        sys.exit(ran.stdout[-10_000:])


def statuses() -> dict[str, str]:
    """Return the statuses of the tested mutants by name, from mutmut's result files."""
    # Import mutmut late: its imports take a second, and a test imports this module.
    from mutmut.stats import status_by_exit_code

    return {
        name: status_by_exit_code[code]
        for file in sorted(MUTANTS.rglob("*.meta"))
        for name, code in json.loads(file.read_text(encoding="utf-8"))["exit_code_by_key"].items()
    }


def described(mutant: str) -> str:
    """Describe a mutant by its function and changed line, because mutmut's numbers shift when other lines change."""
    from mutmut.mutation.diff_apply import get_diff_for_mutant
    from mutmut.utils.format_utils import orig_function_and_class_names_from_key

    module, _, _ = mutant.rpartition(".")
    function, owner = orig_function_and_class_names_from_key(mutant)
    lines = get_diff_for_mutant(mutant).splitlines()[2:]
    added, removed = (" ".join(line[1:].strip() for line in lines if line.startswith(sign)) for sign in "+-")
    name = f"{owner}.{function}" if owner else function
    return f"{module.removeprefix('aion_core.')}.{name}: {added or 'without ' + removed}"


def explained() -> Iterator[str]:
    """Yield the descriptions of the surviving mutants with an explanation."""
    for entry in tomllib.loads(SURVIVORS.read_text(encoding="utf-8"))["survivors"]:
        yield from entry["mutants"]


def problems(found: Mapping[str, str], survivors: Collection[str], known: Collection[str]) -> Iterator[str]:
    """Yield the problems of a run: a low score, unexplained surviving mutants and obsolete explanations."""
    score = 100 * sum(status in KILLED for status in found.values()) / max(len(found), 1)
    if score < LOWEST_SCORE:
        yield f"the tests kill {score:.1f} % of the mutants, less than {LOWEST_SCORE} %"
    for survivor in sorted({*survivors} - {*known}):
        yield f"unexplained survivor: {survivor}"
    for gone in sorted({*known} - {*survivors}):
        yield f"explained mutant without survivor: {gone}"


def main() -> None:
    """Print the mutation score of each module. Exit with an error if there are problems."""
    run()
    found = statuses()
    survivors = [described(name) for name, status in found.items() if status not in KILLED]
    total, killed = Counter[str](), Counter[str]()
    for name, status in found.items():
        for line in (name.rpartition(".")[0], "all"):
            total[line] += 1
            killed[line] += status in KILLED
    for line, mutants in total.items():
        print(f"{line:36}{killed[line]:6} of {mutants:5} mutants killed: {100 * killed[line] / mutants:5.1f} %")
    if wrong := [*problems(found, survivors, [*explained()])]:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
