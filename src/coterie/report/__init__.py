"""Reports of a fit: plain data first, then an HTML page made from it."""

from __future__ import annotations

from coterie.report._describe import VERSION, describe
from coterie.report._page import write_json, write_report
from coterie.report._summary import html_summary

__all__ = ["VERSION", "describe", "html_summary", "write_json", "write_report"]
