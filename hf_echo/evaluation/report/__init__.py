"""Compare models on one folder of data and write the report as a page.

    models = [open_model(name, data.texts) for name in names]
    measured = measure(models, data, cache)
    write_report(measured, "report/")

Results are plain dicts and JSON: `measure` computes them, `write_report` only shows them.
"""

from __future__ import annotations

from .data import ReportData, read_folder
from .measure import measure
from .models import ReportModel, open_model
from .page import write_report

__all__ = [
    "ReportData",
    "ReportModel",
    "measure",
    "open_model",
    "read_folder",
    "write_report",
]
