"""A report of a store as one HTML page: what was explained, how sure it is, its figures and its rows."""

from dshap.report.pages.writing import page, require_jinja

__all__ = ["page", "require_jinja"]
