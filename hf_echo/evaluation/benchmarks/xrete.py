"""XRETE (EMMA-X, appendix C): its twelve tasks, and a runner for those that need no fine-tuning.

The paper fine-tunes the whole model for ten of the tasks ("translate-train-all"). This runner compares frozen
embeddings: Tatoeba as in the paper, BUCC among its gold sentences, similarity and inference by the cosine alone. The
mean over languages is split into head and long-tail languages for Tatoeba and for FLORES-200 (appendix B).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ...inference.encoders import Encode
from ...languages import find_language
from ...utils.results import Table
from ..probes.downstream import evaluate_pair_classification, evaluate_similarity
from ..retrieval.multilingual import evaluate_xsim, pairs_as_nway
from .public_sets import load_benchmark

# Appendix A.1 prints "36 languages" and lists these 42.
TATOEBA_HEAD = frozenset(
    find_language(code)
    for code in (
        "ar he vi id jv tl eu ml ta te af nl en de el bn hi mr ur fa fr it pt es bg ru ja ka ko th sw zh kk tr et fi "
        "hu az lt pl uk ro"
    ).split()
)
# Appendix B.1, 68 languages.
FLORES_HEAD = frozenset(
    """
    bel_Cyrl bos_Latn hun_Latn epo_Latn khm_Khmr urd_Arab srp_Cyrl jav_Latn hye_Armn gla_Latn por_Latn lit_Latn bul_Cyrl
    slk_Latn mal_Mlym ita_Latn nno_Latn mar_Deva hrv_Latn hin_Deva kat_Geor ben_Beng fin_Latn cym_Latn oci_Latn cat_Latn
    fao_Latn xho_Latn spa_Latn ron_Latn amh_Ethi ces_Latn swe_Latn nld_Latn tat_Cyrl kor_Hang glg_Latn fra_Latn eus_Latn
    ind_Latn dan_Latn tha_Thai deu_Latn tel_Telu afr_Latn pol_Latn est_Latn uig_Arab ukr_Cyrl uzn_Latn heb_Hebr kaz_Cyrl
    nob_Latn rus_Cyrl vie_Latn arb_Arab zho_Hans tuk_Latn khk_Cyrl jpn_Jpan ell_Grek isl_Latn tam_Taml slv_Latn tur_Latn
    mkd_Cyrl tgl_Latn gle_Latn
    """.split()
)


class Task(NamedTuple):
    """A task of XRETE: category in Table 3, the paper's metric, our set, what we report (percent), head languages.

    `data` is None where our evaluation has no such task, `head` where the paper has no such split.
    """

    family: str
    paper: str
    data: str | None = None
    measure: str = ""
    head: frozenset[str] | None = None


TASKS: dict[str, Task] = {
    "AmericasNLI": Task("inference", "accuracy, fine-tuned"),
    "XNLI": Task("inference", "accuracy, fine-tuned", "xnli", "average precision of the cosine"),
    "Multi-STS": Task("similarity", "Spearman, fine-tuned", "sts17", "Spearman of the cosine"),
    "WMT21QETask1": Task("similarity", "Pearson, fine-tuned"),
    "LAReQA": Task("retrieval", "mAP@20, fine-tuned"),
    "Mewsli-X": Task("retrieval", "mAP@20, fine-tuned"),
    "BUCC": Task("retrieval", "F1", "bucc", "accuracy among the gold sentences"),
    "Tatoeba": Task("retrieval", "accuracy", "tatoeba", "accuracy", TATOEBA_HEAD),
    "FLORES-200": Task("retrieval", "accuracy (appendix B, not in XRETE)", "flores_plus", "accuracy", FLORES_HEAD),
    "XCOPA": Task("classification", "accuracy, fine-tuned"),
    "MultiEURLEX": Task("classification", "accuracy, fine-tuned"),
    "MultiARC": Task("classification", "MAE, fine-tuned"),
    "PAWS-X": Task("classification", "accuracy, fine-tuned"),
}


def evaluate_xrete(
    encode: Encode,
    *,
    tasks: Sequence[str] | None = None,
    load: Callable[[str], Iterable[dict[str, Any]]] = load_benchmark,
) -> Table:
    """Run the tasks of XRETE that frozen embeddings can do; one row per task with its averages over languages.

    Args:
        encode: (texts, lang) -> (n, d).
        tasks: names of `TASKS`; None is all that can be run.
        load: set name -> rows; by default from the Hub (`load_benchmark`).

    Returns:
        Table with columns task, family, measure, languages, score, head, long_tail (percent; the last two only for
        Tatoeba and FLORES-200). The notes have `not_run`: the other tasks.

    Raises:
        ValueError: an unknown task, or one that needs fine-tuning.
    """
    runnable = [name for name, task in TASKS.items() if task.data]
    for name in tasks or ():
        if name not in TASKS:
            raise ValueError(f"unknown task {name!r}; choose from {', '.join(runnable)}")
        if name not in runnable:
            raise ValueError(f"{name} needs a fine-tuned model, which is not here; choose from {', '.join(runnable)}")
    rows = []
    for name in tasks or runnable:
        task = TASKS[name]
        scores = _scores(encode, task, load(str(task.data)))
        row = {"task": name, "family": task.family, "measure": task.measure, "languages": len(scores)}
        row["score"] = _mean(list(scores.values()))
        if task.head is not None:
            row["head"] = _mean([score for lang, score in scores.items() if lang in task.head])
            row["long_tail"] = _mean([score for lang, score in scores.items() if lang not in task.head])
        rows.append(row)
    not_run = [name for name in TASKS if name not in {row["task"] for row in rows}]
    return Table(rows, notes={"not_run": not_run}).with_average(["score"])


def _scores(encode: Encode, task: Task, rows: Iterable[dict[str, Any]]) -> dict[str, float]:
    """Language (or pair of them) -> percent."""
    if task.data == "xnli":
        return {row["lang"]: row["average_precision"] for row in evaluate_pair_classification(encode, rows).rows}
    if task.data == "sts17":
        return {row["lang"]: row["spearman"] for row in evaluate_similarity(encode, rows).rows}
    if task.data == "flores_plus":
        return {row["lang"]: 100 - row["xsim"] for row in evaluate_xsim(encode, rows).rows}
    pairs = list(pairs_as_nway(rows))  # ids are of a pair: each language has its own English sentences
    return {row["lang"]: 100 - row["xsim"] for row in evaluate_xsim(encode, pairs).rows}


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
