"""Settings of Sphinx; names are Sphinx's."""

from pathlib import Path

import dshap

project = "dshap"
copyright = "the authors of dshap"
version = release = dshap.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_nb",
    "sphinx_design",
    "sphinx_copybutton",
    "website.docstrings",
    "website.markdown",
    "website.llms",
    "website.search",
]
nitpicky = True
smartquotes = False
language = "en"

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4  # as hosts of Markdown make them, so that one link serves both
nb_execution_mode = "off"  # `website.notebooks` runs them

autodoc_typehints = "none"  # `website.docstrings` shows them as the source has them
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
maximum_signature_line_length = 80
python_use_unqualified_type_names = True
numpydoc_show_class_members = False  # autodoc lists them
add_module_names = False
toc_object_entries_show_parents = "hide"

templates_path: list[str] = []
html_theme = "pydata_sphinx_theme"
html_title = f"dshap {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_favicon = "static/favicon.svg"
html_show_sourcelink = False
html_copy_source = False
html_search_scorer = str(Path(__file__).with_name("search_scores.js"))
html_theme_options = {
    "logo": {"text": f"dshap {release}"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
html_sidebars: dict[str, list[str]] = {"index": [], "gallery": [], "CHANGELOG": []}
copybutton_exclude = ".linenos, .gp, .go"
