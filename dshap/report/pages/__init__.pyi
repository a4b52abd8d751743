from dshap.report.pages.difference_writing import difference_page
from dshap.report.pages.drift_writing import drift_page
from dshap.report.pages.rendering import require_jinja
from dshap.report.pages.writing import page

__all__ = ["difference_page", "drift_page", "page", "require_jinja"]
