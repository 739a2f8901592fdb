"""Names of the PyPI packages that provide modules."""

import re

_PACKAGES = {
    "Crypto": "pycryptodome",
    "MySQLdb": "mysqlclient",
    "OpenSSL": "pyopenssl",
    "PIL": "pillow",
    "atlassian": "atlassian-python-api",
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "bson": "pymongo",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "discord": "discord.py",
    "dns": "dnspython",
    "docx": "python-docx",
    "dotenv": "python-dotenv",
    "faiss": "faiss-cpu",
    "firecrawl": "firecrawl-py",
    "fitz": "pymupdf",
    "git": "gitpython",
    "github": "pygithub",
    "googleapiclient": "google-api-python-client",
    "google.auth": "google-auth",
    "google.oauth2": "google-auth",
    "google.protobuf": "protobuf",
    "grpc": "grpcio",
    "jose": "python-jose",
    "jwt": "pyjwt",
    "magic": "python-magic",
    "multipart": "python-multipart",
    "nacl": "pynacl",
    "newspaper": "newspaper3k",
    "pptx": "python-pptx",
    "psycopg2": "psycopg2-binary",
    "serpapi": "google-search-results",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "slugify": "python-slugify",
    "speech_recognition": "speechrecognition",
    "tavily": "tavily-python",
    "telegram": "python-telegram-bot",
    "vertexai": "google-cloud-aiplatform",
    "weaviate": "weaviate-client",
    "websocket": "websocket-client",
    "wikipediaapi": "wikipedia-api",
    "yaml": "pyyaml",
    "zmq": "pyzmq",
}
"""Names of PyPI packages by module name, for packages named differently from their module."""

_NAMESPACES = {
    "azure": "azure-identity",
    "azure.ai": "azure-ai-projects",
    "azure.search": "azure-search-documents",
    "azure.storage": "azure-storage-blob",
    "google.cloud": "google-cloud-storage",
}
"""Modules that many packages share, each with an example of such a package."""


def package_name_of(module: str) -> str:
    """Return the name of the PyPI package that provides a module, by default the module's name."""
    return _PACKAGES.get(module, module)


def has_other_name(module: str) -> bool:
    """Return True if the package that provides the module is known, and is not named like it."""
    return normalized(package_name_of(module)) != normalized(module)


def package_of_namespace(module: str) -> str:
    """Return advice on the package that provides a module of a namespace, such as `google.cloud`; "" for others."""
    parent = module.rpartition(".")[0]
    if module in _PACKAGES and parent:
        return f"Run `uv add {_PACKAGES[module]}`, the package of the module {module}."
    if module in _NAMESPACES:
        return f"Run `uv add` with the package whose part of {module} the code imports, such as {_NAMESPACES[module]}."
    if parent in _NAMESPACES:
        return f"Run `uv add {normalized(module.replace('.', '-'))}`, if that is the package of the module {module}."
    return ""


def normalized(name: str) -> str:
    """Return the normalized package name (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()
