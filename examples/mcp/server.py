"""MCP server of a warehouse, by stdio; `python server.py http` serves it by HTTP."""

import os
import sys

from mcp.server.fastmcp import FastMCP

STOCK = {"hats": 3, "scarves": 0, "gloves": 12}
server = FastMCP("warehouse", port=int(os.environ.get("PORT", "9100")))


@server.tool()
def stock(article: str) -> str:
    """Return the number of pieces of an article in stock."""
    return str(STOCK[article]) if article in STOCK else f"There is no article {article}."


if __name__ == "__main__":
    server.run("streamable-http" if sys.argv[1:] == ["http"] else "stdio")
