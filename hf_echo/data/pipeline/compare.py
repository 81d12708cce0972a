"""Steps that compare rows, in DuckDB: key filters (deduplication), caps and samples.

Each writes the rows whose number of copies is not one: 0 for a row that goes, more for one that a
sample repeats.

**Key filters.** A row stays if no earlier kept row has one of its keys. That is computed in rounds
(Blelloch et al. 2012, "Greedy sequential maximal independent set and matching are parallel on
average"): a row that is the first of all its keys is kept, and rows that share a key with it go. A
sequential pass decides the rest when few entries are left.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset

from ..sampling import temperature
from .data_recipe import Sampling, Step

SEQUENTIAL = 1_000_000  # entries that are decided one after the other
COLUMN = np.uint64(0x9E3779B97F4A7C15)  # times the number of a column of keys; 2**64 / golden ratio


def entries(step: Step, table: pa.Table) -> pa.Table:
    """What a step compares: (key, row) for each key of each row that it concerns, or
    (key, row, rank) for a cap."""
    rows = table["row"].to_numpy()
    mask = step.concerns(table)
    if step.kind == "groups":
        # A cap: rows without a group stay whatever their rank is.
        groups = pa.array(step.work.groups(table), pa.string())
        rank = np.asarray(step.work.rank(table), np.float64)
        rank = np.where(np.isnan(rank), -np.inf, rank)
        has_group = groups.is_valid().to_numpy(zero_copy_only=False)
        return pa.table({"key": groups, "row": rows, "rank": rank}).filter(
            pa.array(mask & has_group)
        )

    keys = np.array(step.work.keys(table), np.uint64)
    present = (keys != 0) & mask[:, None]
    if not getattr(step.work, "shared_keys", False):
        # Another number for each column: equal keys of two columns are not compared with each
        # other.
        keys ^= np.arange(keys.shape[1], dtype=np.uint64) * COLUMN
    where, column = np.nonzero(present)
    return pa.table({"key": keys[where, column], "row": rows[where]})


def compare(step: Step | Sampling, files: Sequence[Path], out: Path) -> None:
    """Write (row, copies) of the rows with other than one copy, from `entries`,
    or for a sample from blocks of rows."""
    with duckdb.connect() as db:
        db.register("found", pyarrow.dataset.dataset([str(file) for file in files]))
        db.execute("CREATE TABLE changed (row UBIGINT, copies BIGINT)")
        if isinstance(step, Sampling):
            _sample(db, step)
        elif step.kind == "keys":
            _first_of_keys(db)
        else:
            _highest_ranks(db, step.work.limit)
        db.sql("FROM changed ORDER BY row").write_parquet(str(out))


def _highest_ranks(db: duckdb.DuckDBPyConnection, limit: int) -> None:
    db.execute(
        """
        INSERT INTO changed SELECT row, 0 FROM found
        QUALIFY row_number() OVER (PARTITION BY key ORDER BY rank DESC, row) > $1
        """,
        [limit],
    )


def _first_of_keys(db: duckdb.DuckDBPyConnection) -> None:
    """Mark rows that share a key with an earlier row that stays: in rounds, then one by one."""
    # Rows that share no key with another stay.
    db.execute("""
        CREATE TABLE every AS SELECT DISTINCT key, row FROM found;
        CREATE TABLE open AS FROM every QUALIFY count(*) OVER (PARTITION BY key) > 1;
        DROP TABLE every;
    """)
    # A round: a row that is the first of all its keys is kept, and the others with one of these
    # keys go.
    while db.execute("SELECT count(*) FROM open").fetchall()[0][0] > SEQUENTIAL:
        db.execute("""
            CREATE TEMP TABLE kept AS SELECT row FROM
                (SELECT row, row = min(row) OVER (PARTITION BY key) AS is_first FROM open)
                GROUP BY row HAVING bool_and(is_first);
            CREATE TEMP TABLE gone AS SELECT DISTINCT row FROM open SEMI JOIN
                (FROM open SEMI JOIN kept USING (row)) AS taken USING (key) ANTI JOIN kept USING (row);
            INSERT INTO changed SELECT row, 0 FROM gone;
            CREATE TABLE rest AS FROM open ANTI JOIN kept USING (row) ANTI JOIN gone USING (row);
            DROP TABLE open; DROP TABLE kept; DROP TABLE gone; ALTER TABLE rest RENAME TO open;
        """)
    # The few that are left are decided one after the other.
    taken: set[int] = set()
    duplicates = []
    in_order = db.execute("SELECT row, list(key) FROM open GROUP BY row ORDER BY row")
    for row, keys in in_order.fetchall():
        if taken.isdisjoint(keys):
            taken.update(keys)
        else:
            duplicates.append(row)
    db.register("duplicates", pa.table({"row": pa.array(duplicates, pa.uint64())}))
    db.execute("INSERT INTO changed SELECT row, 0 FROM duplicates")


def _sample(db: duckdb.DuckDBPyConnection, sampling: Sampling) -> None:
    """Mark rows that are repeated or left out, so that each group has its share."""
    group = "source_lang || '>' || target_lang" if sampling.by == "direction" else sampling.by
    counted = db.execute(f"SELECT {group}, count(*) FROM found GROUP BY ALL ORDER BY ALL")
    sizes = dict(counted.fetchall())
    if not sizes:
        return
    # Every row of a group has `copies` copies, and `extra` rows, drawn by a hash, have one more.
    quota: dict[str, list[Any]] = {"name": [], "copies": [], "extra": []}
    for name, rows in quotas(sampling, sizes).items():
        quota["name"].append(name)
        quota["copies"].append(rows // sizes[name])
        quota["extra"].append(rows % sizes[name])
    db.register("quota", pa.table(quota))
    db.execute(
        f"""
        INSERT INTO changed SELECT row, copies + (place <= extra)::BIGINT AS number FROM
            (SELECT row, {group} AS name,
             row_number() OVER (PARTITION BY name ORDER BY md5(concat(row, ' ', $1)), row) AS place FROM found)
        JOIN quota USING (name) WHERE number != 1
        """,
        [sampling.seed],
    )


def quotas(sampling: Sampling, sizes: Mapping[str, int]) -> dict[str, int]:
    """Rows of each group, exactly ``rows`` in total."""
    exponent = 1 if sampling.exponent is None else sampling.exponent  # 1 is natural
    shares = temperature(sizes, exponent)
    rows = sampling.rows or sum(sizes.values())
    exact = {group: rows * share for group, share in shares.items()}
    # The small number undoes the rounding of shares such as 0.1 + 0.2.
    quota = {group: math.floor(number + 1e-9) for group, number in exact.items()}
    # The rows that are left go to the largest remainders.
    by_remainder = sorted(exact, key=lambda group: (quota[group] - exact[group], group))
    for group in by_remainder[: rows - sum(quota.values())]:
        quota[group] += 1
    return quota
