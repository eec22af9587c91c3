"""The site: `bash .ci/docs` builds it into build/docs/, with warnings as errors."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_ext")]

import purerl  # noqa: E402

project = "purerl"
author = "the purerl authors"
copyright = "the purerl authors, Apache-2.0"
version = release = purerl.__version__

extensions = [
    *("sphinx.ext.autodoc", "sphinx.ext.mathjax", "sphinx.ext.napoleon"),
    *("myst_nb", "pages", "reference", "sphinx_copybutton"),
]
exclude_patterns = ["_ext", "_build", "own/README.md"]
smartquotes = False
default_role = "code"  # `name` in a docstring
nitpicky = True
nitpick_ignore_regex = [  # what annotations name: other projects' types, type variables, private names
    (r"py:.*", r"(?!purerl).*"),
    (r"py:class", r"purerl\.envs\.adapters\.common\..*"),
    (r"py:class", r"purerl\..*\.[ART]"),
    (r"py:class", r"purerl\.(settings|run|sweeps|evolution|host|pool|loop)\..*"),  # what no page shows
]

source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb", ".rst": "restructuredtext"}
nb_execution_mode = "off"  # notebooks are kept with their outputs; tests execute them
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_custom_sections = [("Source", "notes")]

html_theme = "sphinx_book_theme"
html_title = f"purerl {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_use_index = False  # one page of 34,000 pixels; the search finds every name
html_theme_options = {
    "navbar_persistent": [],
    "home_page_in_toc": True,
    "show_navbar_depth": 1,
}
html_show_sourcelink = False

copybutton_exclude = ".linenos, .gp, .go"
if "GITHUB_REPOSITORY" in os.environ:  # set by the workflow that builds the site: only it knows the address
    html_theme_options |= {
        "repository_url": f"{os.environ['GITHUB_SERVER_URL']}/{os.environ['GITHUB_REPOSITORY']}",
        "path_to_docs": "docs",
        "use_source_button": True,
        "use_edit_page_button": True,
        "use_issues_button": True,
    }
html_last_updated_fmt = None
