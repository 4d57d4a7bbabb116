"""Text for people: in characters that a page or a terminal can carry; and for HTML and SVG: escaped, and small tables."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Sequence

_UNWRITABLE = re.compile(
    "[^\t\n\r -~\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"  # what XML cannot carry, and control characters
    "|[\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"  # not seen, or turn
)


def escape(value: object) -> str:
    """Return `str(value)` for HTML or XML, in an element or in a quoted attribute.

    Characters that XML 1.0 cannot carry become U+FFFD, so that no name makes a page unreadable, and so do those that turn
    the direction of writing, so that none rearranges the text around it.
    """
    return html.escape(writable(value), quote=True)


def writable(value: object) -> str:
    """Return `str(value)` with U+FFFD for what `escape` replaces, and the rest as it is.

    This is what terminals are given too: control characters could rewrite what stands on the screen.
    """
    return _UNWRITABLE.sub("\ufffd", str(value))


def one_line(value: object, most: int = 200) -> str:
    """Return a name that may come from others as one `writable` line of at most `most` characters."""
    text = " ".join(writable(value).split())
    return text if len(text) <= most else text[: most - 1] + "…"


def json_escaped(text: str) -> str:
    """Return a JSON text that reads the same, with escapes for what `escape` replaces."""
    return _UNWRITABLE.sub(lambda found: json.dumps(found[0])[1:-1], text)


def xml_escaped(text: str) -> str:
    """Return an XML text that reads the same, with character references for what `escape` replaces."""
    return _UNWRITABLE.sub(lambda found: f"&#x{ord(found[0]):x};", text)


def table(rows: Iterable[Sequence[object]], header: Sequence[object] = (), limit: int | None = None) -> str:
    """Return an HTML table, all cells escaped; beyond `limit` rows a last line says how many are left out."""
    kept = list(rows)
    shown = kept if limit is None else kept[:limit]
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    lines = [f"<thead><tr>{head}</tr></thead>"] if header else []
    lines.append("<tbody>")
    lines += ["<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in shown]
    if len(shown) < len(kept):
        columns = max(len(header), *(len(row) for row in kept))
        lines.append(f'<tr><td colspan="{columns}">and {len(kept) - len(shown)} more</td></tr>')
    lines.append("</tbody>")
    return "<table>" + "".join(lines) + "</table>"


def paragraph(text: object) -> str:
    """Return an escaped paragraph."""
    return f"<p>{escape(text)}</p>"


def preformatted(text: object) -> str:
    """Return an escaped text that keeps its lines."""
    return f"<pre>{escape(text)}</pre>"


def bullets(texts: Iterable[object]) -> str:
    """Return an escaped list."""
    return "<ul>" + "".join(f"<li>{escape(text)}</li>" for text in texts) + "</ul>"


def folded(summary: object, content: str) -> str:
    """Return HTML that shows `summary` and opens to `content`, which is markup already."""
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"


def card(heading: object, *content: str) -> str:
    """Return one object's HTML: a heading, then parts that are markup already."""
    return f"<div><p><strong>{escape(heading)}</strong></p>{''.join(content)}</div>"


_FORMULA = re.compile("'?[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")


def csv_cell(value: object) -> object:
    """Return a cell for a CSV file: a text that a spreadsheet would take for a formula gets an apostrophe before it.

    Numbers stay as they are, as numbers or as text. See OWASP, "CSV Injection". `csv_text` is the way back.
    """
    if not isinstance(value, str) or not _FORMULA.match(value):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def csv_text(cell: str) -> str:
    """Return the text that `csv_cell` wrote as `cell`."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell[1:]) else cell
