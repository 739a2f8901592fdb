"""Address at which remote agents call this server back. Pure."""

from urllib.parse import urlsplit

PATH = "/callbacks"
"""Path of the callbacks at the server's base URL. Its requests have a one-use token instead of credentials."""

_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")


def callback_url(base_url: str) -> str:
    """Return the address of the callbacks of a server with this base URL."""
    return f"{base_url}{PATH}"


def problem_of(base_url: str) -> str:
    """Return why remote agents can't call back at this base URL, with the remedy; "" if they can."""
    if not base_url:
        return "the server's public URL is not known. Deploy with BaseUrl or DomainName."
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    if parts.scheme != "https" and host not in _THIS_MACHINE:
        return f"the server's public URL is {base_url}, and callbacks need https. Correct BaseUrl."
    if ".lambda-url." in host:
        return (
            f"the server's public URL is a Function URL, {base_url}, and callbacks are served by the REST API only. Set "
            "BaseUrl to the REST API's URL or its domain."
        )
    return ""
