"""Settings of the documentation site, which `make docs` builds with Sphinx.

The pages are Markdown that GitHub renders as well, so they use no directive but the `toctree` of index.md. A warning
is an error: a link to a page or a heading that does not exist, or a page that no list of contents names.
"""

import tomllib
from pathlib import Path

_ROOT = Path(__file__).parent.parent

project = "penstock"
author = "the penstock authors"
release = tomllib.loads((_ROOT / "rust" / "Cargo.toml").read_text())["workspace"]["package"]["version"]
extensions = ["myst_parser"]
exclude_patterns = ["generate_reference.py"]
myst_heading_anchors = 4  # the anchors that GitHub makes
nitpicky = True

html_theme = "furo"
html_title = "penstock"
html_static_path: list[str] = []
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "source_repository": "https://github.com/penstock/penstock",
    "source_branch": "main",
    "source_directory": "docs/",
}
