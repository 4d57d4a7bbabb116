"""The documentation's site: `sphinx-build -W --keep-going docs OUT`, without a network."""

from __future__ import annotations

import gc
import posixpath
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

import privfcd

# pages are trees of small objects that stay: looking them through again and again takes a fifth of the time
gc.set_threshold(100_000, 50, 100)

project = "privfcd"
author = "The privfcd authors"
project_copyright = author
version = release = privfcd.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["**/.ipynb_checkpoints"]
highlight_language = "none"

html_theme = "furo"
html_title = f"privfcd {release}"
html_show_sourcelink = False
html_copy_source = False

myst_heading_anchors = 4
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # types are in the docstrings' own words
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
napoleon_preprocess_types = False
maximum_signature_line_length = 100

ROOT = Path(__file__).parents[1]
PAGES = {  # files of the repository that are pages of the site too, in the place of a page that only links to them
    "CONTRIBUTING.md": "contributing",
    "CHANGELOG.md": "changelog",
    "SECURITY.md": "security",
    "privfcd/datasets/bundled/NOTICE.md": "bundled-data",
}
_LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]+)((?:#[^)]*)?)\)")
_CODE = re.compile(r"(``[^`]*``|`[^`]*`)")


def read_page(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put a repository's file where a page stands for it, and make links work in the site as they do in the repository."""
    files = {page: file for file, page in PAGES.items()}
    here = posixpath.dirname(f"docs/{docname}")
    there = posixpath.dirname(files[docname]) if docname in files else here
    if docname in files:
        source[0] = (ROOT / files[docname]).read_text(encoding="utf-8")
        app.env.note_dependency(str(ROOT / files[docname]))

    def moved(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(there, link[1]))
        if target in PAGES:
            target = f"docs/{PAGES[target]}.md"
        return f"]({posixpath.relpath(target, here)}{link[2]})"

    if not docname.startswith("notebooks/"):
        source[0] = _LINK.sub(moved, source[0])


def plain_names(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Make public names in a docstring's backticks links, all else in them code; |x| is an absolute value."""
    for index, line in enumerate(lines):
        if line.lstrip().startswith((">>>", "...")):
            continue
        parts = _CODE.split(line)
        for at, part in enumerate(parts):
            if at % 2 == 0:  # "\ " parts code from letters after it, as in `PrivateTable`s
                joined = r"\ " if at and part[:1].isalnum() else ""
                parts[at] = joined + part.replace("|", r"\|")
            elif not part.startswith("``") and not parts[at - 1].endswith(":"):
                name_ = part.strip("`")
                public = name_.split(".")[0] in privfcd.__all__
                parts[at] = f":py:obj:`{name_} <privfcd.{name_}>`" if public else f"`{part}`"
        lines[index] = "".join(parts)


def only_public_links(app: Sphinx, doctree: nodes.document) -> None:
    """Leave links to public names, and no others: Sphinx takes a parameter's name for any attribute that is called so."""
    for link in list(doctree.findall(addnodes.pending_xref)):
        if link.get("refdomain") == "py":
            target = link["reftarget"]
            if target in privfcd.__all__:
                link["reftarget"] = f"privfcd.{target}"
            elif not target.startswith("privfcd."):
                link.replace_self(link.children)


def setup(app: Sphinx) -> None:
    """Register what this file adds to Sphinx."""
    app.connect("source-read", read_page)
    app.connect("doctree-read", only_public_links)
    app.connect("autodoc-process-docstring", plain_names, priority=900)  # after napoleon
