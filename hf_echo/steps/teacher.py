"""The step that measures a teacher for the omnilingual extension. As in `operations`, nothing heavy is imported here.

operation: measure_teacher
model: outputs/large/3_hard_negatives
data: dev.parquet                      # columns id, lang, text
output_dir: outputs/large/4d_teacher_errors
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..languages import ENGLISH
from ..utils.settings import CHECKPOINT, DATA, DefaultOf, setting, step
from .operations import Operation, model, output

FILE = "xsimpp.json"


@step(operation="measure_teacher")
class MeasureTeacher(Operation):
    """Measure xsim++ of each language into English, the figures that `teacher_xsimpp` of an extension reads (OS 4.5.2).

    English itself, whose sentences find themselves, has 0.
    """

    model: str = model("the teacher: SentenceTransformer or Echo checkpoint")
    data: str = setting("table with id, lang and text that holds English, or 'builtin'", reads=DATA)
    split: str | None = setting(
        "its rows of this split; default: those of dev, if it has splits", None
    )
    negatives: int = setting(
        "hard negatives by rule of each English sentence",
        DefaultOf("data.builtin.dev_set", "max_negatives"),
        least=1,
    )
    output_dir: str = output(f"folder of {FILE}")

    def make(self) -> dict[str, Any]:
        from ..evaluation import evaluate_xsim
        from ..inference.any_encoder import any_encoder
        from ..utils.files import write_json
        from ..utils.folders import write_folder
        from ..utils.lineage import write_lineage

        rows, negatives = self.dev_rows()
        if not negatives:
            raise ValueError(
                f"data: {self.data} has no English sentence of which the rules make hard negatives"
            )
        table = evaluate_xsim(
            any_encoder(self.model), rows, target_lang=ENGLISH, negatives=negatives
        )
        errors = {ENGLISH: 0.0}
        for row in table.rows:
            if row["xsimpp"] is not None:
                errors[row["lang"]] = row["xsimpp"]
        with write_folder(self.output_dir) as folder:
            write_json(Path(folder) / FILE, errors)
            write_lineage(
                folder,
                str(self.operation),
                self.names(None),
                parents=self.names(CHECKPOINT),
                data=self.names(DATA),
                output_dir=self.output_dir,
            )
        return {"output_dir": self.output_dir, "xsimpp": errors}

    def dev_rows(self) -> tuple[Any, dict[str, list[tuple[str, str]]]]:
        """The rows (id, lang, text), and hard negatives by rule of their English sentences, by id."""
        if self.data == "builtin":
            from ..data.builtin import dev_set

            return dev_set(max_negatives=self.negatives)
        from ..data import load_nway
        from ..data.nway import dev_split
        from ..negatives.rules import hard_negatives_by_id

        split = dev_split(self.data) if self.split is None else self.split
        rows = load_nway(self.data, split=split)
        return rows, hard_negatives_by_id(rows, self.negatives)

    def is_whole(self) -> bool:
        return (Path(self.output_dir) / FILE).is_file()
