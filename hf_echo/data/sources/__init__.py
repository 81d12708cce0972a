"""Public sources of parallel text, fetched at fixed versions and written as tables that
`collect_data` reads."""

from .downloading import chosen_sources, download, plan_lines
from .table import LICENSES, SOURCES, Source

__all__ = ["LICENSES", "SOURCES", "Source", "chosen_sources", "download", "plan_lines"]
