"""Program that renders texts: a line with a JSON array of texts comes in, a line with the array of their trees goes out."""

import json
import sys

from aion_core.web.markdown.tree import rendered


def main() -> None:
    """Render until the input ends."""
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(json.dumps([rendered(text) for text in json.loads(line)]).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
