"""Hints after a wrong command line: similar names, and the correct position of a command or option."""

from tests.support import operating
from tests.support.rows import each_row


@each_row(
    ("arguments", "hint"),
    [
        (("depoy",), "'deploy'"),
        (("tasks", "list", "--lmit", "3"), "Did you mean '--limit'?"),
        (("redrive",), "No such command 'aion redrive'. There is `aion push redrive` and `aion dlq redrive`."),
        (("--stack", "x", "why"), "It belongs behind the command: `aion why --stack …`."),
        (("tasks", "--limit", "3", "list"), "It belongs behind the command: `aion tasks list --limit …`."),
        (("tasks", "help"), "No such command 'aion tasks help'. There is `aion tasks --help`."),
        (("tasks", "--nothing"), "No such option '--nothing'."),
    ],
)
def test_wrong_command_or_option_gets_hint(arguments: tuple[str, ...], hint: str) -> None:
    failed = operating.runs({})(*arguments, prog_name="aion")
    assert failed.exit_code == 2
    assert hint in failed.stderr
