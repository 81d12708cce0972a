"""The Bible as a parallel corpus (OS A.8): turns editions into an n-way table and pairs with five pivot languages.

`build` runs all steps; `readers` reads the formats; `labels`, `lengths` and `quality` filter; `pivots` makes pairs.
"""

from __future__ import annotations

from .build import PIVOTS, build_bible
from .editions import Edition
from .find import Source, find_sources
from .readers import read_source

__all__ = ["PIVOTS", "Edition", "Source", "build_bible", "find_sources", "read_source"]
