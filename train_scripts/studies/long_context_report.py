"""Find a paragraph or a document among its near misses: xsim and xsim++ by kind of negative
(OS 10.2), a row a model.

    python train_scripts/studies/long_context_report.py MODEL [MODEL ...] --data outputs/nano-real-variants/paragraphs

--data holds dev_NAME.parquet of id, lang, sentences (long_context_data.py). --negatives sentences:
one sentence of the English is swapped for one of its hard negatives, as in the paper's Belebele
(Table 28); by rule, or with --published FILE those of the published xsim++ set of FLORES.
--negatives documents: a sentence is dropped or replaced by another document's, or the order is
shuffled, as in its IWSLT2017 (Table 29). Every model reads up to --max-length tokens, whatever it
was trained on (rotary positions need no weights). A kind's figure is the percent of texts whose
nearest neighbour was a negative of that kind; figures are means over languages. --out: tables as
JSON.
"""

import json
import random
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from study_parts import command_line

from hf_echo.evaluation import evaluate_xsim
from hf_echo.evaluation.retrieval.hard_negatives import by_text, published_negatives, rule_negatives
from hf_echo.inference import encode, load_encoder
from hf_echo.inference.encoders import Encode
from hf_echo.languages import ENGLISH
from hf_echo.utils.files import write_json
from hf_echo.utils.results import Table, cell_text, markdown_table

# Of changed documents (OS 10.2).
KINDS = (
    "drop_last",
    "replace_last",
    "drop_random",
    "replace_random",
    "shuffle",
)

Negative = tuple[list[str], str]  # sentences, kind
Documents = dict[str, dict[str, list[str]]]  # language -> id -> sentences


def paragraph_negatives(
    sentences: Sequence[str], negatives: Mapping[str, Sequence[tuple[str, str]]]
) -> list[Negative]:
    """Make hard negatives (sentences, kind) of a paragraph: one sentence is swapped for a hard
    negative of it.

    OS 10.2 makes its Belebele set so, from the hard negatives of FLORES' sentences. The paper does
    not say how many it takes; here every hard negative of every sentence gives one paragraph.

    Args:
        negatives: sentence -> its hard negatives (text, kind); a sentence without any stays.
    """
    changed_paragraphs = []
    for place, sentence in enumerate(sentences):
        for text, kind in negatives.get(sentence, ()):
            changed = list(sentences)
            changed[place] = text
            changed_paragraphs.append((changed, kind))
    return changed_paragraphs


def document_negatives(
    sentences: Sequence[str], others: Sequence[str], *, seed: int = 0, kinds: Sequence[str] = KINDS
) -> list[Negative]:
    """Make hard negatives (sentences, kind) of a document, one of each kind that it allows
    (OS 10.2, IWSLT2017).

    Args:
        sentences: of one document; `drop_...` and `shuffle` need at least two.
        others: sentences of other documents in the same language, as replacements.
        seed: equal document, others and seed give equal negatives.
    """
    rng = random.Random(f"{seed} {' '.join(sentences)}")
    whole = list(sentences)
    negatives: list[Negative] = []
    for kind in kinds:
        changed = _spoil(kind, whole, others, rng)
        if changed and changed != whole and changed not in [earlier for earlier, _ in negatives]:
            negatives.append((changed, kind))
    return negatives


def evaluate_documents(
    encode: Encode,
    documents: Mapping[str, Mapping[str, Sequence[str]]],
    negatives: Mapping[str, Sequence[tuple[Sequence[str], str]]],
) -> Table:
    """`evaluate_xsim` of whole documents (language -> id -> sentences) with hard negative documents
    (by id).

    Among unrelated documents the first sentence is enough to find a document; only negatives with
    the same first sentence test whether the encoder reads all.
    """
    rows = []
    for lang, of_language in documents.items():
        for key, sentences in of_language.items():
            rows.append({"id": key, "lang": lang, "text": " ".join(sentences)})
    joined: dict[Hashable, list[tuple[str, str]]] = {}
    for key, of_document in negatives.items():
        joined[key] = [(" ".join(sentences), kind) for sentences, kind in of_document]
    return evaluate_xsim(encode, rows, negatives=joined, same_text_is_right=False)


def _spoil(kind: str, whole: list[str], others: Sequence[str], rng: random.Random) -> list[str]:
    """Apply one kind of change; an empty list if the document has too few sentences for it."""
    n = len(whole)
    change, _, position = kind.partition("_")
    if change == "shuffle":
        order = list(range(n))
        for _ in range(8):  # a shuffle may give the old order
            rng.shuffle(order)
            shuffled = [whole[i] for i in order]
            if shuffled != whole:
                return shuffled
        return []
    if position == "last":
        place = n - 1
    else:
        place = rng.randrange(n) if n else 0
    if change == "drop":
        return whole[:place] + whole[place + 1 :] if n > 1 else []
    # A replacement must not be a sentence of the document itself.
    strangers = [text for text in others if text not in whole]
    return whole[:place] + [rng.choice(strangers)] + whole[place + 1 :] if strangers and n else []


def read_documents(path: Path, languages: Sequence[str] = ()) -> Documents:
    """Documents of a dev_NAME.parquet in these languages and English; without languages, in all."""
    documents: Documents = {}
    for row in pd.read_parquet(path).itertuples():
        if not languages or row.lang in (*languages, ENGLISH):
            documents.setdefault(row.lang, {})[row.id] = list(row.sentences)
    return documents


def negatives_of_documents(english: Mapping[str, Sequence[str]]) -> dict[str, list[Negative]]:
    """Id -> changed documents; a replacement is a sentence of any other document."""
    negatives = {}
    for key, sentences in english.items():
        others = [text for other, of_other in english.items() if other != key for text in of_other]
        negatives[key] = document_negatives(sentences, others)
    return negatives


def negatives_of_paragraphs(
    english: Mapping[str, Sequence[str]], published: Path | None = None
) -> dict[str, list[Negative]]:
    """Id -> paragraphs with a sentence swapped, for each hard negative of each sentence.

    The negatives of a sentence are up to five by rule, or those of a file of the published xsim++
    set.
    """
    sentences = list(
        dict.fromkeys(text for of_paragraph in english.values() for text in of_paragraph)
    )
    negatives = (
        rule_negatives(sentences)
        if published is None
        else published_negatives(published, sentences)
    )
    by_sentence = by_text(negatives, sentences)
    return {
        key: paragraph_negatives(of_paragraph, by_sentence) for key, of_paragraph in english.items()
    }


def percent_by_kind(table: Table) -> dict[str, float]:
    """Kind of negative -> percent of the texts that were taken for one,
    mean over the rows of a table."""
    totals: dict[str, float] = {}
    for row in table.rows:
        for name, errors in row.items():
            if name.startswith("xsimpp_errors/"):
                kind = name.partition("/")[2]
                totals[kind] = totals.get(kind, 0.0) + 100 * errors / row["count"] / len(table.rows)
    return totals


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument(
        "--sets", nargs="+", metavar="NAME", help="of dev_NAME.parquet; default: all"
    )
    parser.add_argument("--languages", nargs="+", default=[], help="beside English; default: all")
    parser.add_argument(
        "--negatives",
        nargs="+",
        choices=("documents", "sentences"),
        default=["documents", "sentences"],
    )
    parser.add_argument(
        "--published", type=Path, metavar="FILE", help="eng_Latn_errtype.SPLIT.json of xsim++"
    )
    parser.add_argument("--max-length", type=int, default=576)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    files = sorted(args.data.glob("dev_*.parquet"))
    if args.sets:
        files = [file for file in files if file.stem.removeprefix("dev_") in args.sets]
    if not files:
        parser.error(
            f"{args.data} holds no dev_NAME.parquet; train_scripts/corpora/long_context_data.py makes them"
        )
    negatives_of = {
        "documents": negatives_of_documents,
        "sentences": partial(negatives_of_paragraphs, published=args.published),
    }
    rows: list[dict[str, Any]] = []
    reports = []
    for name in args.models:
        model, tokenizer = load_encoder(name, dtype="fp32")
        embed = partial(encode, model, tokenizer, max_length=args.max_length)
        for file in files:
            documents = read_documents(file, args.languages)
            for kind in args.negatives:
                table = evaluate_documents(embed, documents, negatives_of[kind](documents[ENGLISH]))
                measured = {"model": name, "set": file.stem, "negatives": kind}
                reports.append(measured | json.loads(table.to_json()))
                errors = {"xsim": table.average["xsim"], "xsim++": table.average["xsimpp"]}
                rows.append(measured | errors | percent_by_kind(table))
    if args.out:
        write_json(args.out, reports)
    table = pd.DataFrame(rows).rename(columns=lambda name: name.replace("_", " "))
    cells = table.map(lambda value: "" if pd.isna(value) else cell_text(value))
    print(markdown_table(cells.columns, cells.to_numpy()))


if __name__ == "__main__":
    main()
