"""The Bible as a parallel corpus (OS A.8): verse-keyed editions in, an n-way table and pairs with five pivots out.

`build` runs the whole; `readers` know the formats; `labels`, `lengths` and `quality` judge; `pivots` aligns.
"""

from __future__ import annotations

from .build import PIVOTS, build_bible
from .editions import Edition
from .find import Source, find_sources
from .readers import read_source

__all__ = ["PIVOTS", "Edition", "Source", "build_bible", "find_sources", "read_source"]
