"""Animated SVG of a recorded terminal: each distinct line is drawn once, and the frames refer to the lines."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from xml.sax.saxutils import escape, quoteattr

from pyte.screens import Char

CHAR_WIDTH, LINE_HEIGHT, MARGIN = 8.4, 18, 14
FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,'Liberation Mono',monospace"
LAST_SECONDS = 5.0
"""Duration of the last frame, before the animation begins again."""

BACKGROUND, FOREGROUND, BAR, TITLE = "#0d1117", "#d6dde6", "#161b22", "#8b949e"

COLOURS: Mapping[str, str] = {
    "default": FOREGROUND,
    "black": "#6e7681",
    "red": "#ff7b72",
    "green": "#7ee787",
    "brown": "#e3b341",
    "blue": "#79c0ff",
    "magenta": "#d2a8ff",
    "cyan": "#76e3ea",
    "white": "#f0f6fc",
    "brightblack": "#8b949e",
}
"""Colours of a terminal by their names in pyte, where yellow is called `brown`."""


Line = tuple[Char, ...]
Frame = tuple[float, Sequence[Sequence[Line]]]
"""Seconds since the start of the recording, and the panes' screens from then until the next frame."""


def svg_of(frames: Sequence[Frame], titles: Sequence[str], *, label: str) -> str:
    """Return the recording as an SVG, with the panes one above the other. `label` describes it for screen readers.

    Readers who prefer reduced motion see the last frame only.
    """
    lines: dict[Line, int] = {}
    columns = max(len(line) for pane in frames[0][1] for line in pane)
    width = round(columns * CHAR_WIDTH + 2 * MARGIN)
    tops, y = list[int](), 0
    for pane in frames[0][1]:
        tops.append(y + LINE_HEIGHT + 12)
        y += LINE_HEIGHT + 20 + len(pane) * LINE_HEIGHT + MARGIN
    drawn = [_frame(panes, tops, lines, place * width) for place, (_, panes) in enumerate(frames)]
    defined = "".join(f'<g id="l{number}">{"".join(_texts(line))}</g>' for line, number in lines.items())
    bars = "".join(_bar(title, top - LINE_HEIGHT - 12, width) for title, top in zip(titles, tops, strict=True))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" width="{width}" height="{y}" role="img" '
        f"aria-label={quoteattr(label)}><title>{escape(label)}</title>"
        f"<style>{_style(frames, width)}</style><defs>{defined}</defs>"
        f'<rect width="{width}" height="{y}" rx="8" fill="{BACKGROUND}"/>{bars}'
        f'<svg width="{width}" height="{y}"><g id="film">{"".join(drawn)}</g></svg></svg>\n'
    )


def _style(frames: Sequence[Frame], width: int) -> str:
    """Return the CSS of the animation, which jumps from frame to frame."""
    began = frames[0][0]
    total = frames[-1][0] - began + LAST_SECONDS
    steps = "".join(
        f"{(at - began) / total * 100:.2f}%{{transform:translateX(-{place * width}px)}}"
        for place, (at, _) in enumerate(frames)
    )
    last = f"translateX(-{(len(frames) - 1) * width}px)"
    return (
        f"text{{font:14px {FONT};white-space:pre}}.b{{font-weight:bold}}.i{{font-style:italic}}#film{{animation:film {total:.2f}s step-end infinite}}"
        f"@keyframes film{{{steps}100%{{transform:{last}}}}}"
        f"@media (prefers-reduced-motion:reduce){{#film{{animation:none;transform:{last}}}}}"
    )


def _frame(panes: Sequence[Sequence[Line]], tops: Sequence[int], lines: dict[Line, int], x: int) -> str:
    uses = []
    for pane, top in zip(panes, tops, strict=True):
        for row, line in enumerate(pane):
            if any(char.data.strip() or char.reverse for char in line):
                number = lines.setdefault(line, len(lines))
                uses.append(f'<use href="#l{number}" y="{top + (row + 1) * LINE_HEIGHT}"/>')
    return f'<g transform="translate({x + MARGIN})">{"".join(uses)}</g>'


def _texts(line: Line) -> Iterator[str]:
    """Yield the texts of a line, one for each style."""
    column = 0
    for (colour, bold, italic, reverse), group in groupby(
        line, lambda char: (char.fg, char.bold, char.italics, char.reverse)
    ):
        text = "".join(char.data or " " for char in group)
        x, column = column * CHAR_WIDTH, column + len(text)
        fill = COLOURS.get(colour, f"#{colour}" if len(colour) == 6 else FOREGROUND)
        if reverse:
            size = f'width="{len(text) * CHAR_WIDTH:.1f}" height="{LINE_HEIGHT}"'
            yield f'<rect x="{x:.1f}" y="{4 - LINE_HEIGHT}" {size} fill="{fill}"/>'
            fill = BACKGROUND
        if not text.strip():
            continue
        kinds = " ".join(kind for kind, has in (("b", bold), ("i", italic)) if has)
        look = f' class="{kinds}"' if kinds else ""
        length = f'textLength="{len(text) * CHAR_WIDTH:.1f}" lengthAdjust="spacingAndGlyphs"'
        yield f'<text x="{x:.1f}" fill="{fill}" {length}{look} xml:space="preserve">{escape(text)}</text>'


def _bar(title: str, y: int, width: int) -> str:
    return (
        f'<rect y="{y}" width="{width}" height="{LINE_HEIGHT + 8}" fill="{BAR}"/>'
        f'<text x="{MARGIN}" y="{y + LINE_HEIGHT}" fill="{TITLE}">{escape(title)}</text>'
    )
