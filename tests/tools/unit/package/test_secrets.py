"""Table of secrets: each rule finds a planted secret, and nothing that only resembles one.

The secrets are put together here, so that this file contains none.
"""

import base64
import random
import string
import time
from pathlib import Path

import pytest

from aion_tools.package import secrets
from aion_tools.package.secrets import CONTENTS, NAMES, VALUES, Finding, SecretRule, SecretVerdict, findings_in
from aion_tools.package.selection import select
from tests.support.rows import each_row

LETTERS, HEX = string.ascii_letters + string.digits, "0123456789abcdef"
BEGIN = "-----BEGIN {}PRIVATE " + "KEY-----\n"
BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\n"


def letters(count: int, alphabet: str = LETTERS, seed: int = 5) -> str:
    """Return random characters, always the same, among them at least one digit."""
    return "7" + "".join(random.Random(seed).choices(alphabet, k=count - 1))


def pem(kind: str = "") -> str:
    return BEGIN.format(kind) + BODY


KEY = letters(40)
# A file's name for each rule of names, and a content for each other rule.
PLANTED_NAMES = {
    "dotenv": ".env env env.txt env.production dotenv environment ENV prod.env .envrc",
    "installer": "npmrc npmrc.bak NPMRC _npmrc pip.conf pip.ini pip.conf.bak pypirc",
    "netrc": "netrc _netrc pgpass my.cnf",
    "kubeconfig": "kubeconfig admin.kubeconfig prod-kubeconfig.yaml",
    "terraform": "terraform.tfstate terraform.tfstate.backup prod.tfvars Prod.TFVars prod.auto.tfvars.json",
    "cloud-client": "application_default_credentials.json s3cfg boto.cfg rclone.conf dockercfg",
    "ssh-key": "id_rsa id_ed25519 id_ed25519_work ID_RSA id_rsa.old",
    "key-store": "store.p12 Cert.PFX a.p8 release.jks passwords.kdbx key.ppk",
    "credentials-file": "credentials credentials.json aws-credentials.csv secrets.toml Secrets.yaml secret.txt",
    "token-file": "token.json client_secret_1.apps.googleusercontent.com.json auth.json gmail_token.pickle htpasswd",
}
PLANTED: dict[str, list[str]] = {
    "private-key": [
        *map(pem, ("", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED ")),
        '{"private_key": "' + pem().replace("\n", "\\n") + '"}',
        'KEY = (\n    "' + BEGIN.format("").strip() + '\\n"\n    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcw\\n"\n)\n',
        "> " + BEGIN.format("EC ") + "> " + BODY,
        "---- BEGIN SSH2 ENCRYPTED PRIVATE " + "KEY ----\nComment: me\n" + BODY,
        "-----BEGIN PGP PRIVATE " + "KEY BLOCK-----\n\n" + BODY,
    ],
    "private-key-base64": [base64.b64encode(pem(kind).encode()).decode() for kind in ("", "RSA ", "EC ", "OPENSSH ")],
    "private-key-jwk": [
        '{"kty": "EC", "crv": "P-256", "d": "' + letters(43) + '"}',
        '{"d": "' + letters(43) + '", "kty": "OKP"}',
    ],
    "private-key-file": ["PuTTY-User-" + "Key-File-3: ssh-ed25519\n", "AGE-SECRET-" + "KEY-1" + letters(58).upper()],
    "aws-csv": ["Access key ID,Secret access key\r\nAKIA" + letters(16).upper() + f",{KEY}\r\n"],
    "aws-bedrock": ["ABSK" + "QmVkcm9ja0FQSUtleS" + letters(110), "bedrock-api-key-" + letters(110)],
    "aws-session": ["IQoJb3Jp" + "Z2lu" + letters(120)],
    "aion": ["aion_" + letters(16, "abcdefgh234567") + "_" + letters(43)],
    "webhook": ["whsec_" + letters(32)],
    "anthropic": ["sk-" + "ant-api03-" + letters(95)],
    "openrouter": ["sk-" + "or-v1-" + letters(64, HEX)],
    "langfuse": ["sk-" + f"lf-{letters(8, HEX)}-{letters(4, HEX)}-{letters(4, HEX)}-{letters(4, HEX)}-{letters(12, HEX)}"],
    "openai": ["sk-" + each for each in ("proj-" + letters(48), "svcacct-" + letters(60), letters(48))],
    "openai-like": ["sk-" + letters(32, HEX)],
    "google": ["AI" + "za" + letters(35), "ya29" + ".a0" + letters(120)],
    "google-oauth": ["GOCSPX" + "-" + letters(28), "1/" + "/0g" + letters(60)],
    "hugging-face": ["hf_" + letters(34)],
    "groq": ["gsk_" + letters(52)],
    "replicate": ["r8_" + letters(37)],
    "xai": ["xai-" + letters(80)],
    "perplexity": ["pplx-" + letters(48)],
    "nvidia": ["nvapi-" + letters(64)],
    "together": ["tgp_v1_" + letters(43)],
    "fireworks": ["fw_" + letters(24)],
    "cerebras": ["csk-" + letters(48).lower()],
    "jina": ["jina_" + letters(60)],
    "elevenlabs": ["sk_" + letters(48, HEX)],
    "llamacloud": ["llx-" + letters(48)],
    "langsmith": ["lsv2_" + f"{kind}_{letters(32, HEX)}_{letters(10, HEX)}" for kind in ("pt", "sk")],
    "tavily": ["tvly-" + letters(32), "tvly-" + "dev-" + letters(32)],
    "firecrawl": ["fc-" + letters(32, HEX)],
    "e2b": ["e2b_" + letters(40, HEX)],
    "apify": ["apify_" + "api_" + letters(36)],
    "pinecone": ["pcsk_" + letters(6) + "_" + letters(63)],
    "wandb": ["wandb_" + "v1_" + letters(60)],
    "databricks": ["dapi" + letters(32, HEX), "dapi" + letters(32, HEX) + "-2"],
    "github": ["ghp_" + letters(36), "ghs_" + letters(36), "github_" + "pat_" + letters(22) + "_" + letters(59)],
    "gitlab": ["glpat-" + letters(20), "gldt-" + letters(20)],
    "pypi": ["pypi-" + "AgEIcHlwaS5vcmc" + letters(80)],
    "npm": ["npm_" + letters(36), "//registry.example/:_auth" + f"Token={letters(30)}\n"],
    "docker": ["dckr_" + "pat_" + letters(27)],
    "slack": ["xoxb-" + "2" * 11 + "-" + letters(40), "xapp-" + "1-A" + letters(60)],
    "slack-webhook": ["https://hooks.slack.com/" + f"services/T{letters(9)}/B{letters(9)}/{letters(24)}"],
    "telegram": ["bot = '8123456" + "789:AA" + letters(33) + "'"],
    "notion": ["ntn_" + letters(46), "secret_" + letters(43)],
    "linear": ["lin_" + "api_" + letters(40)],
    "airtable": ["pat" + letters(14) + "." + letters(64, HEX)],
    "atlassian": ["ATATT3" + "xFfGF0" + letters(180)],
    "stripe-test": ["sk_" + "test_" + letters(24), "rk_" + "test_" + letters(24)],
    "stripe": ["sk_" + "live_" + letters(24), "rk_" + "live_" + letters(24)],
    "sendgrid": ["SG" + "." + letters(22) + "." + letters(43)],
    "twilio": ["SK" + letters(32, HEX)],
    "digitalocean": ["dop_" + "v1_" + letters(64, HEX)],
    "vercel": ["vcp_" + letters(24), "vercel_" + "blob_rw_" + letters(16) + "_" + letters(30)],
    "supabase": ["sb_" + "secret_" + letters(30), "sbp_" + letters(40, HEX)],
    "azure": ["AccountName=a;Account" + f"Key={letters(86)}==;EndpointSuffix=core.windows.net"],
    "vault": ["hvs" + "." + letters(90)],
    "jwt": ["ey" + "J" + letters(30) + ".ey" + "J" + letters(60) + "." + letters(43)],
    "index-password": ["--extra-index-url https://me:" + "hunter2@pypi.example/simple\n-r other.txt\n", "-i https://" + letters(30) + "@a.b\n"],
    "url-password": [
        f"DB = '{scheme}://app:" + "pw@db.example/x'\n"
        for scheme in ("postgres", "mysql+pymysql", "mongodb+srv", "redis", "rediss", "amqp", "HTTPS")
    ],
    "aws-secret": [
        f"[default]\naws_secret_access_key = {KEY}\n",
        f"export AWS_SECRET_ACCESS_KEY='{KEY}'\n",
        f'boto3.client("s3", aws_secret_access_key="{KEY}")\n',
        f'"os.environ[\\"AWS_SECRET_ACCESS_KEY\\"] = \\"{KEY}\\""',
        f'os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "{KEY}")',
        f'{{"Credentials": {{"SecretAccessKey": "{KEY}"}}}}',
        f"secretAccessKey: {KEY}\n",
        f'AWS_SECRET="{KEY}"\n',
        f'AWS_SECRET: str = "{KEY}"\n',
        f'aws-secret-key "{KEY}"\n',
        f"<SecretAccessKey>{KEY}</SecretAccessKey>",
        f'- name: AWS_SECRET_ACCESS_KEY\n  value: "{KEY}"\n',
        f'{{"Name": "AWS_SECRET_ACCESS_KEY", "Value": "{KEY}"}}',
    ],
    "assigned-key": [f'MISTRAL_API_KEY = "{letters(32)}"\n', f"apiKey: {letters(32)}\n", f"TWILIO_AUTH_TOKEN={letters(32, HEX)}\n", f'"os.environ[\\"MISTRAL_API_KEY\\"] = \\"{letters(32)}\\"\\n"'],
    "assigned-password": ['connect(user="app", password="' + 'tr0ub4dor&3")\n'],
}  # fmt: skip


def found_in(folder: Path, name: str, text: str | bytes) -> list[Finding]:
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return list(findings_in(folder / name, name))


@pytest.mark.parametrize("rule", NAMES, ids=lambda rule: rule.name)
def test_each_name_of_secret_files_is_found(tmp_path: Path, rule: SecretRule) -> None:
    for name in PLANTED_NAMES[rule.name].split():
        expected = Finding(name, None, rule.name, rule.verdict, rule.why)
        (tmp_path / name).write_text("")
        selection = select(tmp_path)
        assert selection.findings == (expected,), name
        assert len(selection.files) == (rule.verdict is not SecretVerdict.LEFT_OUT), name
        (tmp_path / name).unlink()


@pytest.mark.parametrize("rule", [*CONTENTS, *VALUES], ids=lambda rule: rule.name)
def test_each_planted_secret_is_found(tmp_path: Path, rule: SecretRule) -> None:
    for secret in PLANTED[rule.name]:
        for text in (secret, f"first = 1\n\nKEY = '{secret}'\n", f'{{"source": ["A=1\\n{secret}\\n"]}}'):
            if rule.name == "index-password" and text != secret:
                continue
            (found,) = found_in(tmp_path, "notes.ipynb", text)
            assert (found.rule, found.verdict, found.why) == (rule.name, rule.verdict, rule.why), text
            assert found.line == text[: text.index(secret[:30].splitlines()[0])].count("\n") + 1 or "\n" in secret
            assert secret.strip() not in str(found)
        (found,) = found_in(tmp_path, "notes.txt", secret.encode("utf-16"))
        assert found.rule == rule.name


def test_every_rule_has_its_own_name() -> None:
    rules = [rule.name for rule in (*NAMES, *CONTENTS, *VALUES)]
    assert len(rules) == len(set(rules))
    assert {*PLANTED_NAMES, *PLANTED} == set(rules)


NEAR_MISSES = [
    # A form's beginning, or a part of a longer word or of data in Base64.
    'if key.startswith("sk-' + 'proj-"): ...',
    "hf_hub_download(repo_id)",
    "x" + "ghp_" + letters(36),
    "data:image/png;base64," + letters(50) + "AI" + "za" + letters(60),
    "task-" + letters(48) + " disk-" + letters(48),
    "npm_config_registry_and_other_settings_of_npm",
    "pk_" + "live_" + letters(24),
    # Placeholders.
    *("sk-" + "proj-" + each for each in ("x" * 48, "your-key-" + "goes-here-" * 4, "0" * 48, "<your-key>", "...")),
    "ghp_" + "x" * 36,
    "hf_" + "A" * 34,
    "whsec_" + "MfKQ9r8G" + letters(24),
    *(f"aws_secret_access_key={key}\n" for key in (
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLE" + "KEY", "os.environ['KEY']", "minioadmin", "x" * 40,
        "XXXXXXXX/XXXXXXXX+XXXXXXXX/XXXXXXXX/XXXX", "1234567890" * 4, ("YOURAWSKEYGOESHERE" * 3)[:40],
        "yourSecretAccessKeyGoesHereReplaceMeSoon", "${AWS_SECRET_ACCESS_KEY}", "",
    )),
    # Addresses without a password, of this machine, or of Sentry, whose key is public.
    *("url = '" + each + "'" for each in (
        "https://pypi.example:8080/mine@1/simple", "https://oauth2accesstoken@pypi.example/simple",
        "postgres://user:${PASSWORD}@db.example/x", "postgres://{user}:{password}@{host}/x", "postgres://app:%s@db/x",
        "postgres://user:password@db.example/x", "postgres://app:<password>@db.example/x", "postgres://app:****@db/x",
        "redis://app:pw@localhost:6379", "git+ssh://git@git.example/mine.git", "postgres://app:@db.example/x",
        "https://" + letters(32, HEX) + "@o1234.ingest.sentry.io/1",
    )),
    # Keys without their private part.
    'if "' + BEGIN.format("").strip() + '" in text: ...',
    "-----BEGIN PUBLIC KEY-----\n" + BODY,
    base64.b64encode(b"-----BEGIN CERTIFICATE-----\n" + BODY.encode() * 2).decode(),
    '{"kty": "EC", "x": "' + letters(43) + '"}',
    # Code around credentials.
    'api_key = os.environ["OPENAI_API_KEY"]',
    'API_KEY_HEADER = "x-goog-api-key-of-the-second-caller"',
    'api_key="the-same-key-as-in-the-other-file"',
    'headers = ("X-Amz-Date", "X-Amz-Security-Token", "X-Amz-Content-Sha256-and-4567")',
    'password = "changeme"', 'password="open sesame"', 'password: "string"',
]  # fmt: skip


@each_row("text", NEAR_MISSES)
def test_text_resembling_a_secret_is_not_found(tmp_path: Path, text: str) -> None:
    assert found_in(tmp_path, "code.py", text + "\n") == []


@each_row(
    "name",
    [
        "env.py", "env.example", "environment.py", "dotenv.py", "credentials.py", "secrets.md", "mysecrets.txt", "auth.py",
        "tokens.txt", "tokenizer.json", "id_card.txt", "netrc.md", "kubeconfig.py", "pip.py", "cert.pem", "keystore.py",
    ],
)  # fmt: skip
def test_name_resembling_a_secret_file_is_not_found(tmp_path: Path, name: str) -> None:
    assert found_in(tmp_path, name, "") == []


def test_placeholder_does_not_hide_the_key_after_it(tmp_path: Path) -> None:
    text = f"aws_secret_access_key = {'x' * 40}\naws_secret_access_key = {KEY}\n"
    assert [found.line for found in found_in(tmp_path, "config.ini", text)] == [2]


def test_random_secret_access_keys_are_no_placeholders(tmp_path: Path) -> None:
    # Services with the API of S3 may use keys of hexadecimal digits.
    for alphabet, count in ((LETTERS + "/+", 100), (HEX, 50)):
        for seed in range(count):
            content = f"aws_secret_access_key = {letters(40, alphabet, seed)}\n"
            assert found_in(tmp_path, "config.ini", content), content


def test_line_with_the_comment_is_not_a_secret(tmp_path: Path) -> None:
    secret = "hf_" + letters(34)
    (found,) = found_in(tmp_path, "a.py", f"A = '{secret}'  # {secrets.ALLOWED.decode()}\nB = '{secret}'\n")
    assert found.line == 2


def test_secret_of_each_line_and_rule_is_named_once(tmp_path: Path) -> None:
    first, second = "hf_" + letters(34), "gsk_" + letters(52)
    text = f"a = '{first}'\nb = '{second}'\nc = '{first}'\napi_key = '{second}'\n"
    assert [(found.rule, found.line) for found in found_in(tmp_path, "a.py", text)] == [("hugging-face", 1), ("groq", 2), ("assigned-key", 4)]  # fmt: skip


def test_no_warning_hides_a_refused_secret_on_its_line(tmp_path: Path) -> None:
    warned, refused = "postgres://app:" + "pw@db.example/x", "hf_" + letters(34)
    (found,) = found_in(tmp_path, "settings.json", f'{{"a": "{warned}", "b": "{refused}"}}')
    assert (found.rule, found.verdict) == ("hugging-face", SecretVerdict.REFUSED)


def test_file_that_is_left_out_is_not_refused(tmp_path: Path) -> None:
    for name in ("npmrc", "pyproject.toml", "prod.env", "more.txt"):
        (tmp_path / name).write_text("--index-url https://me:" + f"hunter2@a.b/c\ntoken = 'hf_{letters(34)}'\n")
    selection = select(tmp_path)
    assert selection.files == ()
    assert {found.path: found.verdict for found in selection.findings} == dict.fromkeys(
        ("npmrc", "pyproject.toml", "prod.env", "more.txt"), SecretVerdict.LEFT_OUT
    )


@pytest.mark.parametrize("end", ["\n", " "])
def test_search_takes_linear_time(tmp_path: Path, end: str) -> None:
    """Search a file, of many lines or one, in which many rules nearly match everywhere."""
    near = [
        "postgres://user:password@a.b",
        "eyJ" + "a" * 90,
        "sk-" + "a1" * 30,
        "api_key=" + "a1" * 90,
        "secret_key: " + "x" * 40,
    ]
    part = end.join([*near, '"kty"', "-----BEGIN PRIVATE " + "KEY-----", "-i http://a:"]) + end
    times = []
    for count in (100, 800):
        started = time.process_time()
        found_in(tmp_path, "data.txt", part * count)
        times.append(time.process_time() - started)
    assert times[1] < 24 * times[0], "eight times the text takes about eight times as long"


def test_binary_file_is_searched_for_unmistakable_secrets(tmp_path: Path) -> None:
    refused, warned = "hf_" + letters(34), "postgres://app:" + "pw@db.example/x"
    assert found_in(tmp_path, "memory.sqlite", f"SQLite\0{warned}\n\0".encode()) == []
    (found,) = found_in(tmp_path, "memory.sqlite", f"SQLite\0{warned}\n\0{refused}\0".encode())
    assert (found.rule, found.line) == ("hugging-face", None)


def test_large_file_is_named_as_not_searched(tmp_path: Path) -> None:
    secret = "hf_" + letters(34) + "\n"
    full = b"\n" * (16 * 1024**2 - len(secret)) + secret.encode()
    assert [found.rule for found in found_in(tmp_path, "index.txt", full)] == ["hugging-face"]
    (found,) = found_in(tmp_path, "index.txt", b"\n" + full)
    assert (found.verdict, str(found)) == (SecretVerdict.WARNED, "index.txt: over 16 MB, so it was not searched for secrets (large-file)")  # fmt: skip
