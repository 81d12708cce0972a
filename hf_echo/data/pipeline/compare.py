"""Steps that compare rows, in DuckDB: key filters (deduplication), caps and samples.

Each writes the rows whose number of copies is not one: 0 for a row that goes, more for one that a sample repeats.

**Key filters.** A row stays if no earlier kept row has one of its keys. That is computed in rounds (Blelloch et al.
2012, "Greedy sequential maximal independent set and matching are parallel on average"): a row that is the first of all
its keys is kept, and rows that share a key with it go. A sequential pass decides the rest when few entries are left.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset

from .. import sampling as proportions
from .data_recipe import Sampling, Step

SEQUENTIAL = 1_000_000  # entries that are decided one after the other


def entries(step: Step, table: pa.Table) -> pa.Table:
    """What a step compares: (key, row) for each key of each row that it concerns, or (key, row, rank) for a cap."""
    rows = table["row"].to_numpy()
    mask = step.concerns(table)
    mask = np.ones(len(table), bool) if mask is None else mask
    if step.kind == "groups":
        groups = pa.array(step.work.groups(table), pa.string())
        rank = np.asarray(step.work.rank(table), np.float64)
        chosen = pa.array(mask & groups.is_valid().to_numpy(zero_copy_only=False))
        rank = np.where(np.isnan(rank), -np.inf, rank)
        return pa.table({"key": groups, "row": rows, "rank": rank}).filter(chosen)
    keys = np.array(step.work.keys(table), np.uint64)
    if keys.ndim != 2 or len(keys) != len(table):
        raise ValueError(f"step {step.name}: keys must be ({len(table)}, k), got {keys.shape}")
    present = (keys != 0) & mask[:, None]
    if not getattr(step.work, "shared_keys", False):  # columns are not compared with each other
        keys ^= np.array([_number(str(i)) * (i > 0) for i in range(keys.shape[1])], np.uint64)
    where, column = np.nonzero(present)
    return pa.table({"key": keys[where, column], "row": rows[where]})


def _number(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


def compare(step: Step | Sampling, files: Sequence[Path], out: Path) -> None:
    """Write (row, copies) of the rows with other than one copy, from `entries`, or for a sample from blocks of rows."""
    with duckdb.connect() as db:
        db.register("found", pyarrow.dataset.dataset([str(file) for file in files]))
        db.execute("CREATE TABLE changed (row UBIGINT, copies BIGINT)")
        if isinstance(step, Sampling):
            _sample(db, step)
        elif step.kind == "keys":
            _first_of_keys(db)
        else:
            place = "row_number() OVER (PARTITION BY key ORDER BY rank DESC, row)"
            db.execute(
                f"INSERT INTO changed SELECT row, 0 FROM found QUALIFY {place} > $1",
                [step.work.limit],
            )
        db.sql("FROM changed ORDER BY row").write_parquet(str(out))


def _first_of_keys(db: duckdb.DuckDBPyConnection) -> None:
    contested = "QUALIFY count(*) OVER (PARTITION BY key) > 1"
    db.execute(
        f"CREATE TABLE open AS SELECT DISTINCT key, row FROM found; CREATE TABLE o AS FROM open {contested}"
    )
    db.execute("DROP TABLE open; ALTER TABLE o RENAME TO open")  # rows that share no key stay
    while db.execute("SELECT count(*) FROM open").fetchone()[0] > SEQUENTIAL:
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
    taken: set[int] = set()
    gone = []
    for row, keys in db.execute(
        "SELECT row, list(key) FROM open GROUP BY row ORDER BY row"
    ).fetchall():
        if taken.isdisjoint(keys):
            taken.update(keys)
        else:
            gone.append(row)
    db.register("gone", pa.table({"row": pa.array(gone, pa.uint64())}))
    db.execute("INSERT INTO changed SELECT row, 0 FROM gone")


def _sample(db: duckdb.DuckDBPyConnection, sampling: Sampling) -> None:
    columns = {"direction": ["source_lang", "target_lang"]}.get(sampling.by, [sampling.by])
    columns = ["origin", *columns] if sampling.method == "two_step" else columns
    group = " || '\t' || ".join(columns)
    sizes = dict(
        db.execute(
            f"SELECT {group} AS name, count(*) FROM found GROUP BY ALL ORDER BY ALL"
        ).fetchall()
    )
    quota = quotas(sampling, sizes) if sizes else {}
    rows = [(name, n // sizes[name], n % sizes[name]) for name, n in quota.items()]
    db.register("quota", pa.table(dict(zip(("name", "copies", "extra"), map(list, zip(*rows))))))
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
    shares = shares_of(sampling, sizes)
    rows = sampling.rows or sum(sizes.values())
    exact = {group: rows * share for group, share in shares.items()}
    quota = {group: math.floor(value + 1e-9) for group, value in exact.items()}
    for group in sorted(exact, key=lambda g: (quota[g] - exact[g], g))[
        : rows - sum(quota.values())
    ]:
        quota[group] += 1  # the largest remainders
    return quota


def shares_of(sampling: Sampling, sizes: Mapping[str, int]) -> dict[str, float]:
    """The proportion of each group (OS 3.5); they sum to 1."""
    if sampling.method == "natural":
        return proportions.natural(sizes)
    if sampling.method == "temperature":
        return proportions.temperature(sizes, sampling.exponent)
    if sampling.method == "unimax":
        return proportions.unimax(
            sizes, max_upsampling=sampling.max_upsampling, top_n=sampling.top_n
        )
    nested: dict[str, dict[str, int]] = {}
    for group, size in sizes.items():
        source, _, rest = group.partition("\t")
        nested.setdefault(source, {})[rest] = size
    two = proportions.two_step(nested, 0.5 if sampling.exponent is None else sampling.exponent)
    return {
        f"{source}\t{rest}": share for source, inner in two.items() for rest, share in inner.items()
    }
