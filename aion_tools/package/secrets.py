"""Table of secrets that must not get into a package, and the search for them by a file's name and content."""

import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple


class SecretVerdict(StrEnum):
    """Treatment of a file with a possible secret by a build."""

    LEFT_OUT = "left out"  # no agent needs the file on AWS
    REFUSED = "refused"  # nothing else looks like this, so the build fails
    WARNED = "warned"  # the file is packaged, because it may be something else, or public


class SecretRule(NamedTuple):
    """Row of the table."""

    name: str
    pattern: str
    """Regular expression for a whole name of a file, or several for a part of its content, with the secret as a group."""
    verdict: SecretVerdict
    why: str
    """Kind of file or content, for the message to the user."""


LEFT_OUT, REFUSED, WARNED = SecretVerdict
DOTENV = SecretRule("dotenv", r"\.env.*|.*\.env|(?:env|dotenv)(?:\.(?:txt|local|dev|development|prod|production|staging|test))?|environment", LEFT_OUT, "environment variables")  # fmt: skip
# Names of files, in lower case. The same names with the ending of a copy, such as .bak, count too.
NAMES = (
    DOTENV,
    SecretRule("installer", r"_?(?:npmrc|yarnrc(?:\.yml)?)|pypirc|pip\.(?:conf|ini)", LEFT_OUT, "settings of npm or pip, with tokens"),
    SecretRule("netrc", r"_?netrc|pgpass(?:\.conf)?|my\.cnf", LEFT_OUT, "passwords of hosts"),
    SecretRule("kubeconfig", r"(?:.*[-_.])?kubeconfig(?:\.ya?ml)?", LEFT_OUT, "credentials of a cluster"),
    SecretRule("terraform", r".*\.tfstate(?:\..*)?|.*\.tfvars(?:\.json)?|.*\.tfrc(?:\.json)?|terraform\.rc", LEFT_OUT, "values of Terraform"),
    SecretRule("cloud-client", r"application_default_credentials\.json|s3cfg|boto|boto\.cfg|dockercfg|rclone\.conf", LEFT_OUT, "credentials of a command line"),
    SecretRule("ssh-key", r"id_(?:rsa|dsa|ecdsa|ed25519)(?:_\w+)?", REFUSED, "a private key of SSH"),
    SecretRule("key-store", r".*\.(?:bks|jceks|jks|kdbx|keystore|p12|p8|pfx|pkcs12|pkcs8|ppk)|secring\.gpg", REFUSED, "a store of private keys"),
    SecretRule("credentials-file", r"(?:.*[-_.])?(?:credentials|secrets?)(?:\.(?:json|csv|ini|toml|txt|ya?ml))?", WARNED, "a file named like credentials"),
    SecretRule("token-file", r"client_secret.*\.json|(?:.*[-_.])?tokens?\.(?:json|pickle)|auth\.(?:json|toml)|htpasswd", WARNED, "a file named like tokens of a login"),
)  # fmt: skip
_CREDENTIALS_IN_URL = r"""://(?:[^/\s"'@:<>{}]*:|(?=[\w.~-]{20,}@))((?![$%*])[^/\s"'<>{}()\[\]\\`,;]+)@(?!localhost|127\.|o\d+\.ingest\.)(?=\w)"""
_GAP = r"""[\\"'\])\s:=,(>]{1,24}"""
# Contents. A token in other letters than its issuer's is none. Most patterns begin with a fixed text, which is fast.
CONTENTS = (
    # Source code may quote a key, so there may be quotes, line breaks, punctuation and PEM headers before it.
    SecretRule("private-key", r"""BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)? ?-{4,5}(?:\\[nr]|\\u000[ad]|[\s"'>+,()\\]|[A-Za-z-]+: [^\n]*\n)*([A-Za-z0-9+/=]{24})""", REFUSED, "a private key"),
    SecretRule("private-key-base64", r"LS0tLS1CRUdJTi(?:BQUklWQVRF|BSU0EgUFJJVkFUR|BFQyBQUklWQVRF|BEU0EgUFJJ|BPUEVOU1NI|BFTkNSWVBURUQ|BQR1AgUFJJ)([\w+/=]{40})", REFUSED, "a private key in Base64"),
    SecretRule("private-key-jwk", r'"(?:kty"[^{}]{1,2000}"d|d(?="\s*:\s*"[^"]{40,}"[^{}]{1,2000}"kty"))"\s*:\s*"([\w-]{40,})"', REFUSED, "a private key (JWK)"),
    SecretRule("private-key-file", r"(PuTTY-User-Key-File-\d) | AGE-SECRET-KEY-1([A-Z0-9]{58})", REFUSED, "a private key of PuTTY or age"),
    SecretRule("aws-csv", r"AKIA[A-Z0-9]{16},([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])", REFUSED, "an AWS secret access key"),
    SecretRule("aws-bedrock", r"ABSKQmVkcm9j([A-Za-z0-9+/=]{80}) | bedrock-api-key-([A-Za-z0-9+/=]{80})", REFUSED, "an API key of Bedrock"),
    SecretRule("aws-session", r"IQoJb3JpZ2lu([A-Za-z0-9+/=]{100})", WARNED, "a session token of AWS"),
    SecretRule("aion", r"aion_[a-z2-7]{16}_([\w-]{43})", REFUSED, "an API key of an Aion agent"),
    SecretRule("webhook", r"whsec_([A-Za-z0-9+/=]{24})", REFUSED, "a signing secret of webhooks"),
    SecretRule("anthropic", r"sk-ant-([\w-]{40})", REFUSED, "an API key of Anthropic"),
    SecretRule("openrouter", r"sk-or-v1-([0-9a-f]{64})", REFUSED, "an API key of OpenRouter"),
    SecretRule("langfuse", r"sk-lf-([0-9a-f]{8}-[0-9a-f-]{27})", REFUSED, "a secret key of Langfuse"),
    SecretRule("openai", r"sk-(?:(?:proj|svcacct|admin|None)-|(?=[A-Za-z0-9]{48}(?![\w-])))([\w-]{40})", REFUSED, "an API key of OpenAI"),
    SecretRule("openai-like", r"sk-([A-Za-z0-9]{32,64})(?![\w-])", WARNED, "an API key such as DeepSeek's"),
    SecretRule("google", r"AIza([\w-]{35})(?![\w+/=-]) | ya29\.([\w-]{50})", WARNED, "an API key or access token of Google"),
    SecretRule("google-oauth", r"GOCSPX-([\w-]{28}) | 1//0([\w-]{40})", REFUSED, "a client secret or refresh token of Google"),
    SecretRule("hugging-face", r"hf_([A-Za-z0-9]{34})", REFUSED, "a token of Hugging Face"),
    SecretRule("groq", r"gsk_([A-Za-z0-9]{40})", REFUSED, "an API key of Groq"),
    SecretRule("replicate", r"r8_([A-Za-z0-9]{37})", REFUSED, "a token of Replicate"),
    SecretRule("xai", r"xai-(\w{60})", REFUSED, "an API key of xAI"),
    SecretRule("perplexity", r"pplx-([A-Za-z0-9]{40})", REFUSED, "an API key of Perplexity"),
    SecretRule("nvidia", r"nvapi-([\w-]{60})", REFUSED, "an API key of NVIDIA"),
    SecretRule("together", r"tgp_v1_([\w-]{40})", REFUSED, "an API key of Together"),
    SecretRule("fireworks", r"fw_([A-Za-z0-9]{22,24})(?!\w)", WARNED, "an API key of Fireworks"),
    SecretRule("cerebras", r"csk-([a-z0-9]{40})", REFUSED, "an API key of Cerebras"),
    SecretRule("jina", r"jina_([\w-]{50})", REFUSED, "an API key of Jina"),
    SecretRule("elevenlabs", r"sk_([0-9a-f]{48})(?!\w)", REFUSED, "an API key of ElevenLabs"),
    SecretRule("llamacloud", r"llx-([A-Za-z0-9]{40})", REFUSED, "an API key of LlamaCloud"),
    SecretRule("langsmith", r"lsv2_(?:pt|sk)_([0-9a-f]{32})", REFUSED, "an API key of LangSmith"),
    SecretRule("tavily", r"tvly-([\w-]{24})", REFUSED, "an API key of Tavily"),
    SecretRule("firecrawl", r"fc-([0-9a-f]{32})(?!\w)", REFUSED, "an API key of Firecrawl"),
    SecretRule("e2b", r"e2b_([0-9a-f]{40})", REFUSED, "an API key of E2B"),
    SecretRule("apify", r"apify_api_([A-Za-z0-9]{36})", REFUSED, "a token of Apify"),
    SecretRule("pinecone", r"pcsk_(\w{40})", REFUSED, "an API key of Pinecone"),
    SecretRule("wandb", r"wandb_v1_(\w{40})", REFUSED, "an API key of Weights & Biases"),
    SecretRule("databricks", r"dapi([0-9a-f]{32})(?![0-9a-z])", REFUSED, "a token of Databricks"),
    SecretRule("github", r"g(?:h[pousr]|ithub_pat)_(\w{36})", REFUSED, "a token of GitHub"),
    SecretRule("gitlab", r"gl(?:pat|dt|rt|ptt|cbt|oas|soat|ft|imt|agent)-([\w-]{20})", REFUSED, "a token of GitLab"),
    SecretRule("pypi", r"pypi-(AgE[\w-]{50})", REFUSED, "a token of PyPI"),
    SecretRule("npm", r"""npm_([A-Za-z0-9]{36}) | _authToken["']?\s*[=:]\s*["']?([\w+/=.-]{16,64})""", REFUSED, "a token of npm"),
    SecretRule("docker", r"dckr_[po]at_([\w-]{24})", REFUSED, "a token of Docker Hub"),
    SecretRule("slack", r"xox[abeoprs](?:\.xox[bp])?-([\w-]{30}) | xapp-\d-([\w-]{30})", REFUSED, "a token of Slack"),
    SecretRule("slack-webhook", r"hooks\.slack\.com/(?:services|workflows|triggers)/([\w/]{30,})", REFUSED, "an address for posts to Slack"),
    SecretRule("telegram", r":(AA[\w-]{33})(?![\w-])", WARNED, "a token of a Telegram bot"),
    SecretRule("notion", r"ntn_([A-Za-z0-9]{40}) | secret_([A-Za-z0-9]{43})(?!\w)", REFUSED, "a token of Notion"),
    SecretRule("linear", r"lin_(?:api|oauth)_([A-Za-z0-9]{32})", REFUSED, "a token of Linear"),
    SecretRule("airtable", r"pat([A-Za-z0-9]{14}\.[0-9a-f]{64})", REFUSED, "a token of Airtable"),
    SecretRule("atlassian", r"ATATT3([\w=-]{60})", REFUSED, "a token of Atlassian"),
    SecretRule("stripe", r"sk_live_([A-Za-z0-9]{20}) | rk_live_([A-Za-z0-9]{20})", REFUSED, "a live key of Stripe"),
    SecretRule("stripe-test", r"sk_test_([A-Za-z0-9]{20}) | rk_test_([A-Za-z0-9]{20})", WARNED, "a test key of Stripe"),
    SecretRule("sendgrid", r"SG\.([\w-]{16,32}\.[\w-]{32,64})", REFUSED, "an API key of SendGrid"),
    SecretRule("twilio", r"SK([0-9a-f]{32})(?![0-9A-Za-z])", WARNED, "an API key of Twilio"),
    SecretRule("digitalocean", r"do[opr]_v1_([0-9a-f]{64})", REFUSED, "a token of DigitalOcean"),
    SecretRule("vercel", r"v(?:c[acikpr]|ercel_blob_rw)_([A-Za-z0-9]{16,24})", WARNED, "a token of Vercel"),
    SecretRule("supabase", r"sb(?:p|_secret)_([\w-]{20})", REFUSED, "a secret key of Supabase"),
    SecretRule("azure", r"AccountKey=([A-Za-z0-9+/]{43,100}=) | SharedAccessKey=([A-Za-z0-9+/]{43,100}=)", REFUSED, "an access key of Azure"),
    SecretRule("vault", r"hvs\.([\w-]{24})", REFUSED, "a token of HashiCorp Vault"),
    SecretRule("jwt", r"eyJ([\w-]{10,4000}\.eyJ[\w-]{10,4000}\.[\w-]{20})", WARNED, "a JSON Web Token"),
    # The character before the option must be a line break.
    SecretRule("index-password", r"-(?<![^\n]-)(?:[ief]|-(?:extra-)?index-url|-find-links)[ \t=]+[^\s:]*" + _CREDENTIALS_IN_URL, LEFT_OUT, "requirements with a password of a package index"),
    SecretRule("url-password", _CREDENTIALS_IN_URL, WARNED, "a password in a URL"),
)  # fmt: skip
# Names of values, in lower case, in front of the value.
VALUES = (
    SecretRule("aws-secret", r"secret(?:[_-]?(?:access[_-]?)?key|(?<=aws[_-]secret)|(?<=awssecret))" + _GAP + rf"(?:(?:value|default|str|string){_GAP})?" + r"([a-z0-9/+]{40})(?![a-z0-9/+=])", REFUSED, "an AWS secret access key"),
    SecretRule("assigned-key", " | ".join(word + r"""[\\"'\])]{0,5}\s{0,4}(?::\s?str\s?)?[:=]\s{0,4}[\\"']{0,2}(?=(?:[^\d\s"']*\d){3})([\w/+=~-]{20,200})(?=[\\"']|\s*$)""" for word in ("key", "token", "secret")), WARNED, "a value named like a key"),
    SecretRule("assigned-password", r"""(?:password|passwd)[\\"'\])]{0,5}\s{0,4}[=:]\s{0,4}[\\"']{1,2}(?=[^"']*\d)([^\s"'<>{}\\]{8,100})[\\"']""", WARNED, "a password"),
)  # fmt: skip
# Names of files that describe an installation. No agent needs them on AWS, so a file with a secret is left out.
_INSTALLATION = re.compile(
    r"(?:pyproject|uv|poetry|pdm|pylock(?:\..+)?)\.toml|pipfile(?:\.lock)?|(?:uv|poetry|pdm)\.lock|setup\.cfg"
    r"|(?:.*\.)?dockerfile|(?:docker-)?compose.*\.ya?ml|(?:.*[-_.])?(?:requirements|constraints)(?:[-_.].*)?\.(?:txt|in)"
)
ALLOWED = b"pragma: allowlist secret"
"""Comment on a line without a secret. Other programs know it too, such as detect-secrets."""
REMEDY = "Move it to `secrets` in aion.yaml, or add the file to .aionignore. If it is no secret, end its line with the comment "
REMEDY += f"`{ALLOWED.decode()}`"
_TOO_LARGE = SecretRule("large-file", "", WARNED, "over 16 MB, so it was not searched for secrets")

RULES = CONTENTS + VALUES
_NAMES = [(rule, re.compile(f"(?:{rule.pattern})(?:[.](?:bak|backup|copy|old|orig|save)|~)?")) for rule in NAMES]
_SEARCHED = [(rule, re.compile(each.encode(), re.M)) for rule in RULES for each in rule.pattern.split(" | ")]
_SEARCHED.sort(key=lambda each: each[0].verdict is WARNED)  # so that no warning hides a worse secret on its line
# A random key contains one of these words with a probability of one in ten thousand. The keys of AWS's documentation contain
# EXAMPLE, and MfKQ9r8G begins the one of Standard Webhooks.
_PLACEHOLDER = re.compile(rb"(?i)example|placeholder|replace|insert|change.?me|secret|your|abcdef|123456|x{4}|MfKQ9r8G")
_NO_PASSWORD = re.compile(rb"(?i)(?:my_?)?(?:pass(?:w(?:or)?d)?|pwd|secret|key)\d?|change.?me|redacted|[x.*]+|[$%].*")


class Finding(NamedTuple):
    """Possible secret in a file of the project."""

    path: str
    line: int | None
    """Number of the line. None for a finding by the file's name or in a binary file."""
    rule: str
    verdict: SecretVerdict
    why: str

    def __str__(self) -> str:
        """Return the place and the kind of the secret, never the secret itself."""
        return f"{self.path}{f', line {self.line}' if self.line else ''}: {self.why} ({self.rule})"


def rule_of_name(*names: str) -> SecretRule | None:
    """Return the strictest rule that one of these names of a file meets, if any."""
    return next((rule for rule, pattern in _NAMES for name in names if pattern.fullmatch(name.lower())), None)


def findings_in(file: Path, path: str, *, is_wanted: bool = False) -> list[Finding]:
    """Return the possible secrets of a file, by its name, the name of a link's target, and its content.

    The findings name the file by `path`. No verdict on a file that the user includes explicitly is to leave it out.
    """
    verdicts = {LEFT_OUT: WARNED} if is_wanted else {}
    if not is_wanted and _INSTALLATION.fullmatch(file.name.lower()):
        verdicts = {REFUSED: LEFT_OUT, WARNED: LEFT_OUT}
    named = rule_of_name(file.name, file.resolve().name)
    rules: list[tuple[SecretRule, int | None]] = [(named, None)] if named else []
    if not named or verdicts.get(named.verdict, named.verdict) is WARNED:
        rules += _rules_of_content(file)
    found = [Finding(path, line, rule.name, verdicts.get(rule.verdict, rule.verdict), rule.why) for rule, line in rules]
    return [each for each in found if each.verdict is LEFT_OUT] or found


def _rules_of_content(file: Path) -> Iterator[tuple[SecretRule, int | None]]:
    """Yield the rules that the content meets, each with its first line. A line meets only its first rule."""
    if file.stat().st_size > 16 * 1024 * 1024:
        yield _TOO_LARGE, None
        return
    content = file.read_bytes()
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        content = content.decode("utf-16", errors="replace").encode()
    is_binary, lower, seen = b"\0" in content, content.lower(), set[int]()
    for rule, pattern in _SEARCHED:
        if is_binary and rule.verdict is not REFUSED:
            continue  # binary data looks by chance like the shorter secrets
        line, counted = 1, 0
        for match in pattern.finditer(lower if rule in VALUES else content):
            line, counted = line + content.count(b"\n", counted, match.start()), match.start()
            if line not in seen and _is_secret(rule, content, *match.span(), *match.span(1)):
                seen.add(line)
                yield rule, None if is_binary else line
                break


def _is_secret(rule: SecretRule, content: bytes, start: int, end: int, first: int, last: int) -> bool:
    """Return False for a placeholder, a part of a longer word, and a value on a line with the comment `ALLOWED`."""
    rest = content[end : end + 200].partition(b"\n")[0]
    before, value = content[max(start - 2, 0) : start], content[first:last]
    # A letter after a backslash is a line break in a quoted text.
    is_part = content[start:end][:1].isalnum() and before[-1:].isalnum() and before[:1] != b"\\" and rule not in VALUES
    if is_part or ALLOWED in rest:
        return False
    if rule.name.endswith("-password"):
        return _NO_PASSWORD.fullmatch(value) is None
    # A true key has random characters of a Base64 alphabet: about 30 different ones of 40, in both cases.
    return not (
        len(set(value)) < (10 if rule in VALUES else 3)
        or (value.isalpha() and (value.isupper() or value.islower()))
        or _PLACEHOLDER.search(value)
    )
