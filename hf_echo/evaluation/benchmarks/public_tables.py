"""Table of the public evaluation sets on the Hub: repository, configurations, splits and columns of each set.

Other sets (NTREX, MASSIVE intents, IWSLT 2017, Taxi1500 ...) are tasks of mteb: `mteb_model.EchoForMTEB`.

Contract: data, and the functions that convert a row with the set's columns to a row that our evaluations read.
`public_sets` reads the files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

CONVERTED = "refs/convert/parquet"  # the Hub's own Parquet copy of a set whose main branch is a loading script

CODE = r"[a-z]{2,3}(?:[-_][A-Za-z0-9]+)*"  # de, zh-CN, deu_Latn, cat_Latn_vale1252
ONE = rf"(?P<one>{CODE})"
TWO = r"(?P<one>[a-z]{2,3})-(?P<two>[a-z]{2,3})"
TRAIN, VALIDATION, TEST = ("train", "training"), ("validation", "valid", "val", "dev"), ("test",)

Row = dict[str, Any]
# (row with our column names, its languages in the set's codes) -> row, rows, or None to drop it
Make = Callable[[Row, tuple[str, ...]], "Row | list[Row] | None"]


@dataclass(frozen=True)
class PublicSet:
    """Where a public set is and how its columns map to ours.

    Attributes:
        repo: Hub repository; None if the labelled data is not on the Hub (`source` then says where it is).
        shape: shape of the rows; see `public_sets`.
        columns: our name -> the set's column; "a.b" is field b of struct a.
        config: pattern of a configuration's name (locally: of a file or folder name). Group `one`, and `two` for
            pairs, is a language in the set's code. None: one configuration; `language` or a column is the language.
        lang_columns: columns of the language, joined by "_".
        splits: our split -> its names in the set; the first is the Hub's.
        aliases: codes that mean another language in this set than elsewhere.
        header: columns of a TSV without a header line.
    """

    repo: str | None
    shape: str
    columns: Mapping[str, str] = field(default_factory=dict)
    config: str | None = ONE
    only_config: str | None = None
    language: str | None = None
    lang_columns: tuple[str, ...] = ()
    splits: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: {"train": TRAIN, "validation": VALIDATION, "test": TEST}
    )
    default_split: str = "test"
    aliases: Mapping[str, str] = field(default_factory=dict)
    make: Make | None = None
    revision: str | None = None
    header: tuple[str, ...] = ()
    source: str = ""


def _entailment(row: Row, langs: tuple[str, ...]) -> Row | None:
    """Map entailment to 1 and contradiction to 0, drop neutral: mteb's binary XNLI."""
    label = int(row["label"])  # a TSV has text
    return None if label == 1 else {**row, "label": int(label == 0)}


NER_TAGS = ("O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC")


def _entities(row: Row, langs: tuple[str, ...]) -> Row:
    return {**row, "tags": [NER_TAGS[tag] if isinstance(tag, int) else tag for tag in row["tags"]]}


BY_CHARACTER = ("ja", "zh")  # in MASSIVE, each character of these languages is a word


def _slots(row: Row, langs: tuple[str, ...]) -> Row:
    """Convert "wake me at [time : nine am]" to words and B-/I- tags."""
    split = list if langs[0].split("-")[0] in BY_CHARACTER else str.split
    tokens, tags = [], []
    for slot, inside, outside in re.findall(r"\[\s*([^\[\]:]+?)\s*:\s*([^\[\]]*?)\s*\]|([^\[\]]+)", row["marked"]):
        words = [word for word in split(inside or outside) if word.strip()]
        tokens += words
        tags += [f"{'I' if i else 'B'}-{slot}" for i in range(len(words))] if slot else ["O"] * len(words)
    return {"tokens": tokens, "tags": tags}


def _links(row: Row, langs: tuple[str, ...]) -> Row:
    words = {side: row[side].split() for side in ("src_tokens", "tgt_tokens")}
    return {**row, **words, "alignment": " ".join(row["alignment"].split())}


def _programs(row: Row, langs: tuple[str, ...]) -> Row:
    """Write XLCoST's tokens as programs: NEW_LINE ends a line, INDENT and DEDENT move the next ones (Python)."""
    return {side: "\n".join(_lines(row[side])) for side in ("source", "target")}


def _lines(tokens: list[str]) -> Iterator[str]:
    depth, line = 0, []
    for token in [*tokens, "NEW_LINE"]:
        if token in ("INDENT", "DEDENT"):
            depth += 1 if token == "INDENT" else -1
        elif token != "NEW_LINE":
            line.append(token)
        elif line:
            yield "    " * depth + " ".join(line)
            line = []


def _labelled(row: Row, langs: tuple[str, ...]) -> Row | None:
    """Drop the rows of test sets with hidden labels (-1)."""
    return None if str(row["label"]) == "-1" else row


def _question(row: Row, langs: tuple[str, ...]) -> Row:
    """Make the id from the passage's link and the question's number, which are the same in all languages."""
    row = dict(row)
    answers = [row.pop(f"answer{i}") for i in "1234"]
    return {"id": f"{row.pop('link')}#{row.pop('number')}", **row, "answers": answers}


def _sentence(row: Row, langs: tuple[str, ...]) -> Row | None:
    """Keep BOUQuET's sentences; the same table also has whole paragraphs."""
    row = dict(row)
    return row if row.pop("level") == "sentence_level" else None


CODE_NAMES = {"C++": "cpp", "C#": "csharp", "C": "c"}
CODE_LANG = r"C|C\+\+|C#|Java|Javascript|PHP|Python"
LOCATION = {f"{side}{n}": f"target_word_location_{n}.char_{side}" for n in "12" for side in ("start", "end")}
PAIR = {"text1": "sentence1", "text2": "sentence2"}
BITEXT = {"source": "sentence1", "target": "sentence2"}
QUESTION = {
    "link": "link",
    "number": "question_number",
    "text": "question",
    "passage": "flores_passage",
    "correct": "correct_answer_num",
    **{f"answer{i}": f"mc_answer{i}" for i in "1234"},
}
TEST_ONLY = {"test": TEST}

SETS: dict[str, PublicSet] = {
    "flores_plus": PublicSet(
        "openlanguagedata/flores_plus",
        "nway",
        {"id": "id", "text": "text"},
        lang_columns=("iso_639_3", "iso_15924"),
        splits={"validation": ("dev", "validation"), "test": ("devtest", "test")},
    ),
    "sib200": PublicSet("Davlan/sib200", "classification", {"id": "index_id", "text": "text", "label": "category"}),
    "tatoeba": PublicSet("mteb/tatoeba-bitext-mining", "pairs", BITEXT, TWO, lang_columns=("lang",), splits=TEST_ONLY),
    "bucc": PublicSet("mteb/bucc-bitext-mining", "pairs", BITEXT, TWO, lang_columns=("lang",), splits=TEST_ONLY),
    "xnli": PublicSet(
        "facebook/xnli",
        "pair_classification",
        {"text1": "premise", "text2": "hypothesis", "label": "label"},
        r"(?P<one>[a-z]{2})",
        make=_entailment,
    ),
    "sts17": PublicSet(
        "mteb/sts17-crosslingual-sts",
        "similarity",
        {**PAIR, "score": "score"},
        TWO,
        lang_columns=("lang",),
        splits=TEST_ONLY,
    ),
    "massive_slots": PublicSet(
        "AmazonScience/massive",
        "tagging",
        {"marked": "annot_utt"},
        r"(?P<one>[a-z]{2}-[A-Z]{2})",
        lang_columns=("locale",),
        make=_slots,
        revision=CONVERTED,
    ),
    "panx": PublicSet(
        "unimelb-nlp/wikiann",
        "tagging",
        {"tokens": "tokens", "tags": "ner_tags"},
        aliases={"als": "gsw_Latn", "zh-yue": "yue_Hant"},  # Wikipedia's codes
        make=_entities,
    ),
    "wic": PublicSet(
        "aps/super_glue",
        "wic",
        {name: name for name in ("sentence1", "start1", "end1", "sentence2", "start2", "end2", "label")},
        config=None,
        only_config="wic",
        language="eng_Latn",
        default_split="validation",
        make=_labelled,
        revision=CONVERTED,
    ),
    "xlwic": PublicSet(
        "pasinit/xlwic",
        "wic",
        {"sentence1": "context_1", "sentence2": "context_2", "label": "label", **LOCATION},
        r"(?:xlwic_)?(?:en|de|fr|it)_(?P<one>[a-z]{2})",
        lang_columns=("language",),  # the training split of xlwic_en_de is English
        make=_labelled,
        revision=CONVERTED,
    ),
    "xlwa": PublicSet(
        None,
        "alignment",
        {"src_tokens": "source", "tgt_tokens": "target", "alignment": "alignment"},
        r"(?:en-)?(?P<two>[a-z]{2})",
        make=_links,
        header=("source", "target", "alignment"),
        source="github.com/SapienzaNLP/XL-WA, folder data",
    ),
    "xlcost": PublicSet(  # code to code
        None,
        "pairs",
        {"source": "docstring_tokens", "target": "code_tokens"},
        rf"\d+-(?P<one>{CODE_LANG})(?:-\d+)?/\d+-(?P<two>{CODE_LANG})(?:-\d+)?",  # 9359-C-1/9359-Python-1
        lang_columns=("idx",),
        aliases=CODE_NAMES,
        make=_programs,
        source="the data of github.com/reddy-lab-code-research/XLCoST, folder code2code_search/snippet_level",
    ),
    "gmmlu": PublicSet(  # the questions; the papers find each one's English original. Columns, splits: the set's card
        "CohereLabs/Global-MMLU",
        "nway",
        {"id": "sample_id", "text": "question"},
        splits={"validation": ("dev", "validation"), "test": TEST},
    ),
    "belebele": PublicSet("facebook/belebele", "nway", QUESTION, splits=TEST_ONLY, make=_question),
    # Columns of the next two as in scripts that use them; not checked against their cards.
    "bouquet": PublicSet(
        "facebook/bouquet",
        "nway",
        {"id": "uniq_id", "text": "src_text", "level": "level"},
        lang_columns=("src_lang",),
        splits={"validation": ("dev", "validation"), "test": TEST},
        make=_sentence,
    ),
    "afrolingu_mt": PublicSet(
        "UBC-NLP/AfroLingu-MT",
        "pairs",
        {"source": "input", "target": "output"},
        TWO,
        lang_columns=("langcode",),
    ),
}
