"""Map of a walk as a PNG picture, drawn without a library for pictures."""

import struct
import zlib
from collections.abc import Sequence
from itertools import pairwise

Point = tuple[float, float]

WIDTH, HEIGHT, MARGIN = 480, 300, 28
LAND, WATER, ROUTE, STOP, DIGIT = (243, 239, 228), (168, 205, 226), (226, 121, 74), (36, 70, 99), (255, 255, 255)

CORNERS = [(-3, -5), (3, -5), (-3, 0), (3, 0), (-3, 5), (3, 5)]
STROKES = (
    [(1, 3), (3, 5)],
    [(0, 1), (1, 3), (3, 2), (2, 4), (4, 5)],
    [(0, 1), (1, 3), (3, 2), (3, 5), (5, 4)],
    [(0, 2), (2, 3), (1, 3), (3, 5)],
    [(1, 0), (0, 2), (2, 3), (3, 5), (5, 4)],
    [(1, 0), (0, 4), (4, 5), (5, 3), (3, 2)],
)
"""Lines between corners for the digits 1 to 6, as on a pocket calculator."""


def route_map(water: Sequence[Point], stops: Sequence[Point]) -> bytes:
    """Return a PNG picture with the numbered stops and the way between them. Places are from 0, 0 to 1, 1."""
    rows = [bytearray(bytes(LAND) * WIDTH) for _ in range(HEIGHT)]
    for start, end in pairwise(map(scaled, water)):
        draw(rows, start, end, 24, WATER)
    places = [scaled(each) for each in stops]
    for start, end in pairwise(places):
        draw(rows, start, end, 2.5, ROUTE)
    for (x, y), strokes in zip(places, STROKES, strict=False):
        draw(rows, (x, y), (x, y), 13, STOP)
        for first, second in strokes:
            (left, top), (right, bottom) = CORNERS[first], CORNERS[second]
            draw(rows, (x + left, y + top), (x + right, y + bottom), 1, DIGIT)
    return png(rows)


def scaled(place: Point) -> Point:
    """Return a place's position in pixels."""
    return MARGIN + place[0] * (WIDTH - 2 * MARGIN), MARGIN + place[1] * (HEIGHT - 2 * MARGIN)


def draw(rows: list[bytearray], start: Point, end: Point, radius: float, colour: tuple[int, int, int]) -> None:
    """Draw a line with round ends and smooth edges; if it starts where it ends, a disc."""
    (ax, ay), (bx, by) = start, end
    dx, dy = bx - ax, by - ay
    length = dx * dx + dy * dy or 1
    for y in range(max(0, int(min(ay, by) - radius - 1)), min(HEIGHT, int(max(ay, by) + radius + 2))):
        for x in range(max(0, int(min(ax, bx) - radius - 1)), min(WIDTH, int(max(ax, bx) + radius + 2))):
            along = min(1, max(0, ((x - ax) * dx + (y - ay) * dy) / length))
            distance = ((x - ax - along * dx) ** 2 + (y - ay - along * dy) ** 2) ** 0.5
            covered = min(1, max(0, radius + 0.5 - distance))
            if covered:
                pixel = slice(3 * x, 3 * x + 3)
                rows[y][pixel] = bytes(
                    round(old + covered * (new - old)) for old, new in zip(rows[y][pixel], colour, strict=True)
                )


def png(rows: list[bytearray]) -> bytes:
    """Return rows of RGB pixels as a PNG file."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
