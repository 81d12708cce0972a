"""The step that makes training data from a folder of corpora. As in `operations`, nothing heavy is imported.

operation: collect_data
output_dir: outputs/mine/data
corpora: CORPORA                       # a folder, or corpora=FOLDER on the command line
languages: [fra_Latn, deu_Latn]
tables:
  ntrex.parquet: {id: id, weight: 4, dev: ntrex, dev_documents: 15}
  flores.parquet: {id: index_id, weight: 4, split: train, dev: flores, dev_split: dev}
  tatoeba.parquet: {weight: 3.5, dev: everyday, dev_percent: 10}
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..utils.settings import DATA, make, setting, step
from .operations import Operation, output


@dataclass(kw_only=True)
class Table:
    """How the rows of a Parquet file are used."""

    id: str | None = setting("column of the ids of an n-way table; none for a table of pairs", None)
    english: str | None = setting("file of the same ids that has the English, if this one has none", None, needs="id")
    split: str | None = setting("only rows of this split are trained on", None)
    leave_out: list[str] = setting("languages that are not read from it", list)
    provenance: str = setting("provenance of its rows", "primary")
    weight: float = setting("how often a row comes", 1.0, least=0)
    without_english: float | None = setting("the same for pairs without English", None, least=0)
    dev: str | None = setting("name of the dev set that rows of this table go to", None)
    dev_split: str | None = setting("the rows of the dev set are those of this split", None, needs="dev")
    dev_documents: int | None = setting("those of the last so many documents", None, needs="dev", least=1)
    dev_percent: int | None = setting("of so many percent of the English texts", None, needs="dev", least=1, most=99)


@step(operation="collect_data")
class CollectData(Operation):
    """Collect a training mix and held-out dev sets from a folder of parallel corpora."""

    output_dir: str = output("folder of the tables")
    corpora: str = setting("folder of the corpora (Parquet files)", reads=DATA)
    languages: list[str] = setting("languages beside English")
    tables: dict[str, dict] = setting("file name: how its rows are used")
    power: float = setting("a language of n rows gets n to this power, relative to the largest", 1.0, least=0, most=1)
    most: float = setting("no row comes more than so many times as often for its language", 10.0, least=1)
    rows: int | None = setting("largest number of rows of the mix", None, least=1)
    decoder_sources: int = setting("translations of one English sentence in train_decoder", 6, least=1)
    decoder_itself: float = setting("share of them that also come from themselves", 0.1, least=0, most=1)
    decoder_words: int = setting("longest English sentence in train_decoder, in words", 60, least=1)
    seed: int = setting("random seed", 0)

    def __post_init__(self):
        super().__post_init__()
        self.how = {name: make(Table, values, f"tables: {name}") for name, values in self.tables.items()}

    def make(self):
        from ..data.collect import collect
        from ..utils.folders import write_folder
        from ..utils.lineage import write_lineage

        with write_folder(self.output_dir) as folder:
            rows = collect(Path(self.corpora), Path(folder), self.languages, self.how, self)
            options = dict(parents={}, data=self.names(DATA), output_dir=self.output_dir, results=rows)
            write_lineage(folder, str(self.operation), self.names(None), **options)
        return {"output_dir": self.output_dir, **rows}

    def is_whole(self):
        return (Path(self.output_dir) / "train.parquet").is_file()
