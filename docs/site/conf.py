"""Sphinx settings of the site; docs/site/build.py makes the pages that it reads."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from mlir_lexer import MLIRLexer

project = "Cleave"
author = "the authors of Cleave"
extensions = ["myst_parser"]
root_doc = "index"
source_suffix = {".md": "markdown"}

# Anchors as the repository's page makes them, so that one link serves both.
myst_heading_anchors = 4
myst_enable_extensions = ["attrs_inline"]
# Sections of generated pages begin at the third level, and JSON in documents may leave things out.
suppress_warnings = ["myst.header", "misc.highlighting_failure"]

highlight_language = "text"
html_theme = "furo"
html_title = "Cleave"
html_static_path = ["static"]
html_css_files = ["cleave.css"]
html_extra_path = ["../extra"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"


def setup(app):
    app.add_lexer("mlir", MLIRLexer)
