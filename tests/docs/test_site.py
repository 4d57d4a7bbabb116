"""The documentation's site builds without a network and without a warning, and holds together."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name
from urllib.parse import unquote, urlsplit

import pytest

import privfcd

ROOT = Path(__file__).parents[2]
ROOMS = ("accounting", "ledger", "mechanisms", "data", "moments", "graphs", "algorithms", "audits", "reports")

OWN = {"genindex", "search", "py-modindex"}  # pages that Sphinx makes, for its search box and footers
_CODE = ("pre", "script", "style")
_LOADED = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")


@dataclass
class Page(HTMLParser):
    """One page: its anchors, where its links lead, what it loads, and its words outside of blocks of code."""

    text: str
    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    _code: int = 0

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take what counts of one tag."""
        given = {name: value or "" for name, value in attrs}
        self._code += tag in _CODE
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and {"stylesheet", "icon", "preload", "prefetch", "modulepreload"} & set(
            given["rel"].split()
        ):
            self.loads.append(given["href"])
        if "src" in given:
            self.loads.append(given["src"])
        self.loads += [part.split()[0] for part in given.get("srcset", "").split(",") if part.strip()]
        self.loads += _in_style(given.get("style", ""))

    def handle_endtag(self, tag: str) -> None:
        """Note the end of code."""
        self._code -= tag in _CODE

    def handle_data(self, data: str) -> None:
        """Take words outside of blocks of code."""
        if not self._code:
            self.words.append(data)


def pages_of(site: Path) -> dict[Path, Page]:
    """Return all pages of a site, read."""
    return {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}


def broken_links(pages: dict[Path, Page]) -> list[str]:
    """Return the internal links that lead to no file, or to no anchor in it."""
    answer = []
    for path, page in pages.items():
        for link, target, anchor in _internal(path, page):
            if not target.exists():
                answer.append(f"{path.name}: {link} leads to no file")
            elif anchor and target in pages and anchor not in pages[target].anchors:
                answer.append(f"{path.name}: {link} leads to no anchor")
    return answer


def loaded_from_elsewhere(site: Path, pages: dict[Path, Page]) -> list[str]:
    """Return what pages and style sheets load over a network, or from no file of the site."""
    found = [(path, link) for path, page in pages.items() for link in page.loads]
    found += [(path, link) for path in site.rglob("*.css") for link in _in_style(path.read_text(encoding="utf-8"))]
    answer = []
    for path, link in found:
        parts = urlsplit(link)
        if parts.scheme == "data" or (not parts.netloc and not parts.path):
            continue
        if parts.scheme or parts.netloc or not (path.parent / unquote(parts.path)).exists():
            answer.append(f"{path.name} loads {link}")
    return answer


def markup_left(pages: dict[Path, Page]) -> list[str]:
    """Return words that should have become code, links or emphasis, and did not."""
    found = re.compile(r"`|\]\(|:\w+:`")
    return [f"{path.name}: {word.strip()}" for path, page in pages.items() for word in page.words if found.search(word)]


def unreachable(site: Path, pages: dict[Path, Page]) -> list[str]:
    """Return the pages that no chain of links leads to from the index."""
    seen, waiting = set(), [site / "index.html"]
    while waiting:
        path = waiting.pop()
        if path in pages and path not in seen:
            seen.add(path)
            waiting += [target for _, target, _ in _internal(path, pages[path])]
    return sorted(path.stem for path in set(pages) - seen if path.stem not in OWN)


def _internal(path: Path, page: Page) -> Iterator[tuple[str, Path, str]]:
    for link in page.links:
        parts = urlsplit(link)
        if not parts.scheme and not parts.netloc:
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            yield link, target, unquote(parts.fragment)


def _in_style(text: str) -> list[str]:
    return [first or second for first, second in _LOADED.findall(text)]


NO_NETWORK = """
import socket


def refuse(address):
    host = address[0] if isinstance(address, tuple) else "localhost"  # a path is a socket of this machine
    if host not in ("localhost", "127.0.0.1", "::1", "", None):
        raise OSError(f"the documentation is built without a network, and something asks for {host}")


class Socket(socket.socket):
    def connect(self, address):
        refuse(address)
        return super().connect(address)

    def connect_ex(self, address):
        refuse(address)
        return super().connect_ex(address)

    def sendto(self, data, *rest):
        refuse(rest[-1])
        return super().sendto(data, *rest)


resolve = socket.getaddrinfo


def getaddrinfo(host, *rest, **named):
    refuse((host,))
    return resolve(host, *rest, **named)


socket.socket, socket.getaddrinfo = Socket, getaddrinfo
"""


def run_without_network(words: list[str], scratch: Path) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own, which starts, as all that it starts, without a network; files go to `scratch`."""
    scratch.mkdir()
    (scratch / "sitecustomize.py").write_text(NO_NETWORK, encoding="utf-8")
    own = {"PYTHONPATH": os.pathsep.join([str(scratch), str(ROOT)]), "PYTHONDONTWRITEBYTECODE": "1"}
    folders = {name: str(scratch) for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "HOME")}
    environment = {**os.environ, **own, **folders}
    return subprocess.run([sys.executable, *words], env=environment, cwd=scratch, capture_output=True, text=True)


def build(site: Path, scratch: Path) -> None:
    """Build the site, with warnings as errors."""
    pytest.importorskip("myst_nb")
    pytest.importorskip("furo")
    words = ["-m", "sphinx", "-q", "-W", "--keep-going", "-d", str(scratch / "doctrees"), str(ROOT / "docs"), str(site)]
    done = run_without_network(words, scratch)
    assert done.returncode == 0, done.stdout + done.stderr


def documented(site: Path) -> set[int]:
    """Return the identities of what the reference describes, from the inventory that other sites link by."""
    from sphinx.util.inventory import InventoryFile

    with (site / "objects.inv").open("rb") as file:
        inventory = InventoryFile.load(file, "", lambda *parts: "/".join(parts))
    kinds = {"py:class", "py:exception", "py:function", "py:module"}
    names = {name for kind, found in inventory.items() if kind in kinds for name in found}
    return {id(resolve_name(name)) for name in names}


def undocumented(site: Path) -> list[str]:
    """Return the names that the package and its rooms export, and the reference does not describe."""
    described = documented(site)
    public = {f"privfcd.{name}" for name in privfcd.__all__ if name != "__version__"}
    public |= {f"privfcd.{room}.{name}" for room in ROOMS for name in import_module(f"privfcd.{room}").__all__}
    return sorted(name for name in public if not _borrowed(name) and id(resolve_name(name)) not in described)


def _borrowed(name: str) -> bool:
    return getattr(inspect.getmodule(resolve_name(name)), "__name__", "").startswith("dp_accounting")


@pytest.mark.parametrize("host", ["192.0.2.1", "example.org"])
def test_the_build_has_no_network(tmp_path: Path, host: str) -> None:
    code = f"import socket; socket.create_connection(({host!r}, 80), timeout=1)"
    done = run_without_network(["-c", code], tmp_path / "scratch")
    assert done.returncode and f"something asks for {host}" in done.stderr


def test_faults_of_a_site_are_found(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        '<a href="other.html#there">x</a> <a href="other.html#not">x</a> <a href="gone.html">x</a> <code>`x`s</code>'
        '<script src="https://example.org/x.js"></script> <pre>`fine`</pre> <img src="gone.png">',
        encoding="utf-8",
    )
    (tmp_path / "other.html").write_text(
        '<p id="there" style="background: url(//example.org/x.png)">', encoding="utf-8"
    )
    (tmp_path / "lost.html").write_text('<a href="https://example.org">a link may lead away</a>', encoding="utf-8")
    (tmp_path / "own.css").write_text(
        "@import 'https://example.org/x.css'; p { background: url(data:,x) }", encoding="utf-8"
    )
    pages = pages_of(tmp_path)
    assert broken_links(pages) == [
        "index.html: other.html#not leads to no anchor",
        "index.html: gone.html leads to no file",
    ]
    assert {line.split()[-1] for line in loaded_from_elsewhere(tmp_path, pages)} == {
        "https://example.org/x.js",
        "gone.png",
        "//example.org/x.png",
        "https://example.org/x.css",
    }
    assert markup_left(pages) == ["index.html: `x`s"]
    assert unreachable(tmp_path, pages) == ["lost"]


def test_the_site_builds_without_a_network_and_holds_together(tmp_path: Path) -> None:
    site = tmp_path / "site"
    build(site, tmp_path / "scratch")
    pages = pages_of(site)
    assert len(pages) > 25
    assert broken_links(pages) == []
    assert loaded_from_elsewhere(site, pages) == []
    assert markup_left(pages) == []
    assert unreachable(site, pages) == []
    assert undocumented(site) == []
