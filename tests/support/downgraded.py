"""Addresses that look like another one, as a third party may write them into a card, a document or a redirect."""

from urllib.parse import urlsplit


def downgraded(url: str) -> dict[str, str]:
    """Return addresses that differ from this https URL, by what is wrong with them. None has its origin."""
    whole = urlsplit(url)
    host, path = whole.netloc, whole.path
    return {
        "no TLS": f"http://{host}{path}",
        "no TLS, in upper case": f"HTTP://{host}{path}",
        "no TLS at its port": f"http://{host}:443{path}",
        "another port": f"https://{host}:8443{path}",
        "its name as a user": f"https://{host}@evil.example{path}",
        "its name as a user with a backslash": f"https://{host}\\@evil.example{path}",
        "its name in front": f"https://{host}.evil.example{path}",
        "its name at the end": f"https://evil-{host}{path}",
        "its name with a final dot": f"https://{host}.{path}",
        "its name in the path": f"https://evil.example/{host}{path}",
        "its name in the query": f"https://evil.example?{host}{path}",
        "its name in the fragment": f"https://evil.example#@{host}{path}",
        "a metadata service": f"http://169.254.169.254{path}",
        "this machine": f"https://127.0.0.1{path}",
        "a file": f"file://{path or '/'}",
        "another protocol": f"ftp://{host}{path}",
        "a web socket": f"wss://{host}{path}",
        "no protocol": f"//{host}{path}",
        "no host": path or "/",
        "nothing": "",
    }


def without_tls(url: str) -> dict[str, str]:
    """Return those addresses that are no https URLs."""
    return {what: each for what, each in downgraded(url).items() if not each.startswith("https://")}
