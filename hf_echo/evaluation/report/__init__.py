"""Compare models on one folder of data and write the report as a page.

measured = measure(open_models(names, data.texts), data, cache)
write_report(measured, "report/")
"""

from .data import ReportData, read_folder
from .measure import measure
from .models import ReportModel, open_model
from .page import write_report

__all__ = ["ReportData", "ReportModel", "measure", "open_model", "read_folder", "write_report"]
