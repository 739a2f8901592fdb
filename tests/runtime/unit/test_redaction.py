"""Credentials in the messages of exceptions: redacted by their form, and nothing else is."""

from aion_core.redaction import messages_of, without_credentials
from tests.support.rows import each_row

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"


@each_row(
    ("text", "expected"),
    [
        ("boom password=hunter2hunter", "boom password=[redacted]"),
        ("password: Tr0ub4dor", "password: [redacted]"),
        ("{'api_key': 'two words', 'x': 1}", "{'api_key': [redacted], 'x': 1}"),
        ('{"dbPassword": "a b c", "x": 1}', '{"dbPassword": [redacted], "x": 1}'),
        ("client_secret=abcd&grant=x", "client_secret=[redacted]&grant=x"),
        ("no route to postgres://app:s3cr3t@db.example/x", "no route to postgres://app:[redacted]@db.example/x"),
        ("Incorrect API key: sk-proj-abcdefghijklmnop12", "Incorrect API key: [redacted]"),
        ("AKIAIOSFODNN7EXAMPLE is not authorized", "[redacted] is not authorized"),
        ("{'Authorization': 'Bearer abcdEFGH1234'}", "{'Authorization': '[redacted]'}"),
        ("Basic dXNlcjpwYXNz", "[redacted]"),
        (f"expired: {JWT}", "expired: [redacted]"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----.", "[redacted]."),
    ],
)
def test_credentials_are_redacted(text: str, expected: str) -> None:
    assert without_credentials(text) == expected


@each_row(
    "text",
    [
        "Unexpected token: comma",
        "max_tokens=4096, total_tokens: 55",
        "token: str is required",
        "api_key=None, secret=True",
        "KeyError: 'token'",
        "basic training is the bearer of news",
        "https://example.com:8080/path@x",
        "Field required [type=missing, input_value={'a': 1}]",
        "password=[redacted]",
    ],
)
def test_ordinary_texts_stay(text: str) -> None:
    assert without_credentials(text) == text


def test_messages_of_whole_chain_are_found() -> None:
    cause, context = ValueError("cause"), KeyError("context")
    group = ExceptionGroup("group", [TypeError("one"), OSError("other")])
    group.__cause__, group.__context__, cause.__context__ = cause, context, group
    group.add_note("note")
    assert set(messages_of(group)) == {"group (2 sub-exceptions)", "note", "cause", "'context'", "one", "other"}


def test_broken_exception_has_no_message() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert list(messages_of(Broken())) == [""]
