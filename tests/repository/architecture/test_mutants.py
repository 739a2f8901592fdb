"""Check of mutation tests: enough mutants are killed, and a list explains each mutant that survives."""

from scripts import mutants
from tests.support.rows import each_row

NINE_OF_TEN = {**{f"m{number}": "killed" for number in range(8)}, "m8": "timeout", "m9": "survived"}


@each_row(
    ("found", "known", "problems"),
    [
        (NINE_OF_TEN, ["m9"], []),
        (NINE_OF_TEN, [], ["unexplained survivor: m9"]),
        (NINE_OF_TEN, ["m1", "m9"], ["explained mutant without survivor: m1"]),
        (NINE_OF_TEN | {"m8": "no tests"}, ["m8", "m9"], ["the tests kill 80.0 % of the mutants, less than 90 %"]),
        ({}, [], ["the tests kill 0.0 % of the mutants, less than 90 %"]),
    ],
)
def test_mutation_check_reports_low_score_and_unexplained_surviving_mutants(
    found: dict[str, str], known: list[str], problems: list[str]
) -> None:
    survivors = [name for name, status in found.items() if status not in mutants.KILLED]
    assert [*mutants.problems(found, survivors, known)] == problems
