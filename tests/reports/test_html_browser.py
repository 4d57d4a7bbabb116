"""The page in a real browser: it loads nothing, fits every screen and paper, can be read by all, and looks as it did.

A Chromium is looked for in the environment variable PRIVFCD_CHROMIUM, then in PATH (chromium, chromium-browser,
google-chrome). Without one, or without Playwright, these tests are skipped; with PRIVFCD_BROWSER_REQUIRED=1 they fail.

Screenshots are compared with those in `references/`, in Matplotlib's DejaVu Sans, which is put into the page, so that they
are the same on every machine. After a change that is meant, look at the page, and make them anew:

    PRIVFCD_RENEW_REFERENCES=1 python -m pytest tests/reports/test_html_browser.py -k looks

What is then written is to be looked at too before it is kept.
"""

from __future__ import annotations

import base64
import copy
import io
import os
import re
import shutil
import threading
from collections.abc import Iterator
from datetime import date
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privfcd.reports import report_html

pytest.importorskip("matplotlib", reason="the screenshots' font comes with Matplotlib")
REFERENCES = Path(__file__).parent / "references"
RENEW = bool(os.environ.get("PRIVFCD_RENEW_REFERENCES"))
WIDTHS = (1280, 390)
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run", "--disable-quic", "--font-render-hinting=none", "--disable-lcd-text", "--force-color-profile=srgb",
]  # fmt: skip
SHRUNK = {"report": 4, "graph": 1}
SQUARE = 24
ALIKE = 6.0
"""Pictures are the same where no square differs by more than this in the mean, of 255."""


def missing(what: str) -> Any:
    if os.environ.get("PRIVFCD_BROWSER_REQUIRED") == "1":
        pytest.fail(f"PRIVFCD_BROWSER_REQUIRED=1, but {what}")
    pytest.skip(f"{what}: the page is not looked at in a browser")


def chromium() -> str:
    named = os.environ.get("PRIVFCD_CHROMIUM")
    found = named or next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None or shutil.which(found) is None:
        missing(f"there is no Chromium at {named!r}" if named else "no Chromium is installed")
    assert found is not None
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("Playwright is not installed")
    path = chromium()
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def pages(sparse: Any, hostile: Any, truth: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The pages as files, the first one with nothing that depends on the machine."""
    folder = tmp_path_factory.mktemp("pages")
    bare = copy.copy(hostile)
    bare.privacy_report_, bare.paid_before_ = None, True
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("privfcd.reports.html.context.versions", lambda: {"privfcd": "0.0", "Python": "3.0"})
        texts = {
            "fixed": report_html(
                sparse,
                target=truth,
                seconds=1.25,
                date=date(2026, 1, 31),
                command="privfcd learn north.csv south.csv west.csv",
            ),
            "hostile": report_html(hostile, title=next(iter(hostile.causal_graph_)), seconds=2.0),
            "bare": report_html(bare),
        }
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in texts}


class Tab:
    """One page with the network blocked, which keeps what went wrong."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        given = {"viewport": {"width": 1280, "height": 900}, "offline": True, "reduced_motion": "reduce", **options}
        self.context = browser.new_context(**given)
        self.page = self.context.new_page()
        self.wrong: list[str] = []
        self.page.on("console", lambda message: self.wrong.append(f"console: {message.text}"))
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: (self.wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        self.page.on("request", lambda request: self.wrong.append(f"request: {request.url}"))
        self.page.add_init_script(
            "window.violations = []; document.addEventListener('securitypolicyviolation', e => window.violations.push("
            "e.violatedDirective + ' ' + e.blockedURI));"
        )
        self.page.goto(path.as_uri())
        assert self.wrong == [f"request: {path.as_uri()}"]
        self.wrong.clear()

    def __enter__(self) -> Any:
        return self.page

    def __exit__(self, kind: Any, *_: Any) -> None:
        try:
            if kind is None:
                assert self.wrong == []
                assert self.page.evaluate("window.violations") == []
        finally:
            self.context.close()


def set_font(page: Any) -> None:
    """Put Matplotlib's font into the page for everything, and wait for it."""
    import matplotlib

    font = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    data = base64.b64encode(font.read_bytes()).decode()
    page.add_style_tag(
        content=f"@font-face {{ font-family: Fixed; src: url(data:font/ttf;base64,{data}) }}"
        "* { font-family: Fixed !important; font-weight: 400 !important; }"
    )
    page.evaluate("document.fonts.load('16px Fixed')")
    assert page.evaluate("document.fonts.check('16px Fixed')")


OPEN_ALL = "document.querySelectorAll('details').forEach(one => one.open = true)"


@pytest.mark.parametrize("name", ["fixed", "hostile", "bare"])
def test_it_loads_nothing_and_runs_nothing(browser: Any, pages: dict[str, Path], name: str) -> None:
    with Tab(browser, pages[name]) as page:
        assert page.evaluate("performance.getEntriesByType('resource').length") == 0
        assert page.evaluate("document.querySelectorAll('script, img, iframe, link').length") == 0
        page.evaluate("document.body.append(Object.assign(document.createElement('i'), {innerHTML: '<b>x</b>'}))")


def test_the_policy_forbids_what_could_get_in(browser: Any, pages: dict[str, Path], tmp_path: Path) -> None:
    asked: list[str] = []

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            there = f"http://127.0.0.1:{server.server_port}"
            attack = (
                f"<script>window.ran = 1</script><script src='{there}/a.js'></script><iframe src='{there}/b'></iframe>"
                f"<img src='{there}/c.png' onerror='window.ran = 2'><link rel=stylesheet href='{there}/d.css'>"
                f"<style>@import '{there}/e.css'; p {{ background: url({there}/f.png) }}</style>"
            )
            text = pages["fixed"].read_text(encoding="utf-8")
            assert "</h1>" in text
            (tmp_path / "attacked.html").write_text(text.replace("</h1>", "</h1>" + attack), encoding="utf-8")
            page = browser.new_page()
            page.goto((tmp_path / "attacked.html").as_uri())
            page.wait_for_timeout(200)
            assert page.evaluate("window.ran") is None
            page.close()
        finally:
            server.shutdown()
            thread.join()
    assert asked == []


@pytest.mark.parametrize("name", ["fixed", "hostile", "bare"])
def test_nothing_is_wider_than_the_screen(browser: Any, pages: dict[str, Path], name: str) -> None:
    with Tab(browser, pages[name]) as page:
        page.evaluate(OPEN_ALL)
        for media, width in product(("screen", "print"), (320, 390, 794, 1280)):
            page.emulate_media(media=media)
            page.set_viewport_size({"width": width, "height": 800})
            wide = page.evaluate(
                """() => {
                  const limit = document.documentElement.clientWidth + 0.5, found = [];
                  if (document.documentElement.scrollWidth > limit) found.push('the page');
                  for (const one of document.body.querySelectorAll('*')) {
                    if (one.closest('.scroll, pre, svg, .skip') || !one.checkVisibility()) continue;
                    if (one.getBoundingClientRect().right > limit) found.push(one.outerHTML.slice(0, 120));
                  }
                  return found;
                }"""
            )
            if media == "print" and width < 700:
                wide = [one for one in wide if not one.startswith("the page")]  # no paper is that narrow
            assert wide == [], (media, width)


def test_texts_in_charts_do_not_overlap(browser: Any, pages: dict[str, Path]) -> None:
    with Tab(browser, pages["fixed"]) as page:
        for width in (320, 390, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            check_charts(page)


def check_charts(page: Any) -> None:
    overlaps = page.evaluate(
        """() => [...document.querySelectorAll('.charts svg')].flatMap(svg => {
          const outer = svg.getBoundingClientRect();
          const boxes = [...svg.querySelectorAll('text')].map(text => [text.textContent, text.getBoundingClientRect()]);
          const out = boxes.filter(([, box]) => box.left < outer.left || box.right > outer.right
            || box.top < outer.top || box.bottom > outer.bottom).map(([text]) => text + ' is outside');
          boxes.forEach(([one, a], k) => boxes.slice(k + 1).forEach(([other, b]) => {
            if (a.left < b.right && b.left < a.right && a.top + 2 < b.bottom - 2 && b.top + 2 < a.bottom - 2)
              out.push(one + ' on ' + other);
          }));
          return out;
        })"""
    )
    assert overlaps == []
    sizes = page.evaluate(
        """() => [...document.querySelectorAll('.charts svg, .graph svg')].map(svg =>
          svg.querySelector('text').getBoundingClientRect().height)"""
    )
    assert len(sizes) >= 4 and min(sizes) > 9


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_scrolls_sideways_says_so(browser: Any, pages: dict[str, Path], scheme: str) -> None:
    from PIL import Image

    def shades(page: Any) -> tuple[float, float]:
        """Return how far the left and the right edge of a table's cells are from the paper's colour, of 255."""
        shown = Image.open(io.BytesIO(table.screenshot())).convert("L")
        values = np.asarray(shown, dtype=float)[60:, :]
        paper = np.median(values)
        return abs(np.median(values[:, 3]) - paper), abs(np.median(values[:, -4]) - paper)

    with Tab(browser, pages["fixed"], viewport={"width": 390, "height": 900}, color_scheme=scheme) as page:
        table = page.locator("#edges .scroll").first
        assert table.evaluate("one => one.scrollWidth > one.clientWidth + 20")
        left, right = shades(page)
        assert left < 2 and right > 15
        table.evaluate("one => one.scrollTo(25, 0)")
        assert min(shades(page)) > 15
        table.evaluate("one => one.scrollTo(1e6, 0)")
        left, right = shades(page)
        assert left > 15 and right < 2
        page.set_viewport_size({"width": 1280, "height": 900})
        assert max(shades(page)) < 2
        page.emulate_media(media="print")
        assert table.evaluate("one => getComputedStyle(one).backgroundImage") == "none"


CONTRASTS = """() => {
  const parse = text => text.match(/[\\d.]+/g).map(Number);
  const channel = value => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const ratio = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const behind = element => {
    for (let one = element; one; one = one.parentElement) {
      if (one.matches('.pg-box')) return parse(getComputedStyle(one.querySelector('rect')).fill);
      if (one.matches('.privfcd-graph')) return parse(getComputedStyle(one.querySelector('.pg-paper')).fill);
      const colour = parse(getComputedStyle(one).backgroundColor);
      if (colour.length === 3) return colour;
      if (colour[3] > 0) throw Error('a translucent background: ' + one.outerHTML.slice(0, 80));
    }
    throw Error('no background');
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = {};
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || element.closest('style, title, desc')) continue;
    if (!element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const front = parse(element.closest('svg') ? style.fill : style.color);
    const value = ratio(front, behind(element));
    const key = (element.className.baseVal ?? element.className) + ' ' + element.tagName + ' ' + style.color;
    if (!(key in found) || found[key] > value) found[key] = value;
  }
  return found;
}"""


@pytest.mark.parametrize("name", ["fixed", "bare"])
def test_every_text_can_be_read(browser: Any, pages: dict[str, Path], name: str) -> None:
    with Tab(browser, pages[name]) as page:
        page.evaluate(OPEN_ALL)
        for media, scheme in product(("screen", "print"), ("light", "dark")):
            page.emulate_media(media=media, color_scheme=scheme)
            check_contrasts(page, dark=scheme == "dark" and media == "screen")


def check_contrasts(page: Any, *, dark: bool) -> None:
    found = page.evaluate(CONTRASTS)
    assert len(found) > 8 and min(found.values()) >= 4.5, found
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", paper)[:3])) < 200) == dark
    lines = page.evaluate(
        """() => ['.charts .line', 'svg.bar .run', '.key .before'].map(one => document.querySelector(one))
          .filter(Boolean).map(one => getComputedStyle(one)[one.matches('.line') ? 'stroke' : 'fill'])"""
    )
    for colour in lines:  # what carries meaning without being text: 3 to 1
        assert contrast(colour, paper) >= 3


def contrast(one: str, other: str) -> float:
    def luminance(text: str) -> float:
        parts = np.array([int(value) for value in re.findall(r"\d+", text)[:3]]) / 255
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", ["fixed", "hostile", "bare"])
def test_it_can_be_walked_through_without_eyes_or_mouse(browser: Any, pages: dict[str, Path], name: str) -> None:
    with Tab(browser, pages[name]) as page:
        levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3, h4')].map(one => +one.tagName[1])")
        assert levels[0] == 1 and levels.count(1) == 1
        assert all(after <= before + 1 for before, after in pairwise(levels))
        for landmark in ("header", "nav[aria-label]", "main", "footer"):
            assert page.locator(landmark).count() == 1
        assert page.evaluate("document.documentElement.lang") == "en"
        unnamed = page.evaluate(
            """() => [...document.querySelectorAll('section, svg, [role], nav')].filter(one =>
              !one.hasAttribute('aria-label') && !one.hasAttribute('aria-labelledby')
              && one.getAttribute('aria-hidden') !== 'true').map(one => one.outerHTML.slice(0, 100))"""
        )
        assert unnamed == []
        dangling = page.evaluate(
            """() => [...document.querySelectorAll('[aria-labelledby]')].filter(one =>
              !document.getElementById(one.getAttribute('aria-labelledby'))).length"""
        )
        assert dangling == 0
        ids = page.evaluate("[...document.querySelectorAll('[id]')].map(one => one.id)")
        assert len(ids) == len(set(ids))
        assert page.evaluate("[...document.querySelectorAll('th')].every(one => one.scope)")
        assert page.evaluate("[...document.querySelectorAll('table')].every(one => one.closest('[tabindex=\"0\"]'))")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
        page.keyboard.press("Enter")
        page.wait_for_url("**#main")  # fails unless it comes
        reached = set()
        for _ in range(40):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.closest('section')?.id"))
            if {"graph", "edges", "parameters"} <= reached:
                break
        assert {"graph", "edges", "parameters"} <= reached
        closed = page.locator("details summary").first
        closed.focus()
        page.keyboard.press("Enter")
        assert page.evaluate("document.querySelector('details').open")


def test_it_prints_in_light_colours_with_everything_shown(browser: Any, pages: dict[str, Path]) -> None:
    with Tab(browser, pages["fixed"], color_scheme="dark", viewport={"width": 700, "height": 1000}) as page:
        page.emulate_media(media="print", color_scheme="dark")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert (
            page.evaluate("getComputedStyle(document.querySelector('.graph .pg-paper')).fill") == "rgb(255, 255, 255)"
        )
        assert not page.locator("nav").is_visible()
        heights = page.evaluate(
            """() => [...document.querySelectorAll('details > :not(summary)')]
              .map(one => one.getBoundingClientRect().height)"""
        )
        assert heights and min(heights) > 0
        breaks = page.evaluate(
            "[...document.querySelectorAll('tr, .charts figure')].map(one => getComputedStyle(one).breakInside)"
        )
        assert set(breaks) == {"avoid"}
        made = page.pdf(format="A4")
        assert made.startswith(b"%PDF-") and made.rstrip().endswith(b"%%EOF")
        count = len(re.findall(rb"/Type\s*/Page\b(?!s)", made))
        assert 4 <= count <= 20, count
        assert not page.evaluate("document.querySelector('details').open")


def picture(page: Any, kind: str) -> Any:
    """Return a screenshot of the whole page, at a quarter of its size, or of the graph."""
    from PIL import Image

    part = page if kind == "report" else page.locator(".graph")
    shown = Image.open(io.BytesIO(part.screenshot(**({"full_page": True} if kind == "report" else {})))).convert("RGB")
    return shown.reduce(SHRUNK[kind]) if SHRUNK[kind] > 1 else shown


def difference(one: Any, other: Any) -> float:
    """Return how much two pictures differ where they differ most; inf where their sizes differ by more than a few pixels.

    Both are blurred, laid over each other as well as a shift by up to two pixels allows, and cut into squares; the answer
    is the largest mean absolute difference of a square, of 255.
    """
    from PIL import ImageFilter

    if max(abs(a - b) for a, b in zip(one.size, other.size, strict=True)) > 3:
        return float("inf")
    first, second = (np.asarray(image.filter(ImageFilter.GaussianBlur(2)), dtype=np.float32) for image in (one, other))
    best = float("inf")
    for down, right in ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1), (2, 0), (-2, 0), (1, 1), (-1, -1), (1, -1), (-1, 1)):
        best = min(best, _largest(first, second, down, right))
        if best < ALIKE:
            break
    return best


def _largest(first: Any, second: Any, down: int, right: int) -> float:
    first = first[max(down, 0) :, max(right, 0) :]
    second = second[max(-down, 0) :, max(-right, 0) :]
    height, width = (min(a, b) // SQUARE * SQUARE for a, b in zip(first.shape[:2], second.shape[:2], strict=True))
    apart = np.abs(first[:height, :width] - second[:height, :width]).mean(axis=2)
    return float(apart.reshape(height // SQUARE, SQUARE, width // SQUARE, SQUARE).mean(axis=(1, 3)).max())


@pytest.mark.parametrize("width", WIDTHS)
def test_it_looks_as_it_did(browser: Any, pages: dict[str, Path], width: int) -> None:
    from PIL import Image

    changes = {
        "report": ".alarm { background: #fff !important }",
        "graph": ".graph .pg-right path { display: none }",
    }
    with Tab(browser, pages["fixed"], viewport={"width": width, "height": 900}) as page:
        set_font(page)
        for kind, style in changes.items():
            path = REFERENCES / f"{kind}-{width}.png"
            now = picture(page, kind)
            if RENEW:
                REFERENCES.mkdir(exist_ok=True)
                now.quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)
            kept = Image.open(path).convert("RGB")
            assert difference(now, kept) < ALIKE, kind
            if width == min(WIDTHS):  # that a change is seen
                change = page.add_style_tag(content=style)
                assert difference(picture(page, kind), kept) > 1.5 * ALIKE, kind
                change.evaluate("element => element.remove()")


def test_the_comparison_bears_a_shift_and_sees_a_change() -> None:
    from PIL import Image, ImageChops, ImageDraw

    plain = Image.new("RGB", (200, 300), "white")
    draw = ImageDraw.Draw(plain)
    for row in range(10, 290, 14):
        draw.line((10, row, 190, row), fill="black", width=2)
    assert difference(plain, plain) == 0
    assert difference(plain, ImageChops.offset(plain, 1, 2).crop((0, 0, 198, 298))) < ALIKE
    assert difference(plain, plain.crop((0, 0, 200, 290))) == float("inf")
    changed = plain.copy()
    ImageDraw.Draw(changed).rectangle((20, 30, 60, 60), fill="#fdd")
    assert difference(plain, changed) > ALIKE


def test_references_are_small() -> None:
    files = sorted(REFERENCES.glob("*.png"))
    assert [file.name for file in files] == sorted(f"{kind}-{width}.png" for kind in SHRUNK for width in WIDTHS)
    assert sum(file.stat().st_size for file in files) < 300_000
