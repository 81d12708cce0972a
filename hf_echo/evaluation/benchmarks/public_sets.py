"""Load the papers' public evaluation sets that mteb does not have, as rows for our evaluations; `datasets` reads them.

`SETS[name].shape` is the shape of the rows (dicts) of `load_benchmark(name)`:

- nway: id, lang, text (`evaluate_xsim`)
- pairs: source, source_lang, target, target_lang (`pairs_as_nway`, `translation_scores`)
- tagging: lang, tokens, tags (`evaluate_tagging`)
- wic: lang, sentence1, start1, end1, sentence2, start2, end2, label (`evaluate_wic`)

Languages are NLLB codes; a code that `find_language` does not know keeps the set's spelling.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...languages import find_language
from ...utils.files import files_below

CONVERTED = "refs/convert/parquet"  # the Hub's own Parquet copy of a set whose main branch is a loading script
SPLITS = {"train": "train", "validation": "validation", "test": "test"}
LANGS = ("lang", "source_lang", "target_lang")

Row = dict[str, Any]


@dataclass(frozen=True)
class PublicSet:
    """Where a public set is and how its rows become ours.

    Attributes:
        repo: Hub repository; None if the labelled data is not on the Hub (`source` then says where it is).
        read: (row of the set, code in the folder's name) -> our row, with languages in the set's codes; None drops it.
        folders: pattern of the folders of one language; its group is the code. None: one folder, rows have languages.
        splits: our split -> the set's.
        aliases: codes that mean another language in this set than elsewhere.
    """

    repo: str | None
    shape: str
    read: Callable[[Row, str], Row | None]
    folders: str | None = None
    splits: Mapping[str, str] = field(default_factory=lambda: SPLITS)
    default_split: str = "test"
    aliases: Mapping[str, str] = field(default_factory=dict)
    revision: str | None = None
    source: str = ""


def load_benchmark(
    name: str, *, langs: Sequence[str] | None = None, split: str | None = None, path: str | Path | None = None
) -> list[Row]:
    """Load the rows of a public set; the module docstring lists their shapes.

    Args:
        name: a key of `SETS`, such as "flores_plus", "gmmlu", "panx".
        langs: NLLB codes or language names; None is all. A pair is loaded if one side is among them and the other side
            is too, or is English.
        split: "train", "validation" or "test", whatever the set calls them; None is the split on which results are
            usually reported.
        path: folder of a local copy of the repository (`hf download`), instead of the Hub.

    Raises:
        ValueError: unknown set or split, a missing column, a language without rows.
        FileNotFoundError: nothing readable at `path` or on the Hub.
    """
    if name not in SETS:
        raise ValueError(f"unknown set {name!r}; choose from {', '.join(SETS)}")
    spec = SETS[name]
    split = split or spec.default_split
    if split not in spec.splits:
        raise ValueError(f"{name} has no split {split!r}; choose from {', '.join(spec.splits)}")
    if path is None and spec.repo is None:
        raise ValueError(f"{name} is not on the Hub: download {spec.source} and give path=")
    wanted = None if langs is None else [find_language(lang) for lang in langs]
    rows, seen = [], set()
    for folder, code in _folders(name, spec, path):
        # the training split of an XL-WiC pair is in the other language than its name says
        if code and wanted and _nllb(code, spec) not in wanted and (spec.shape, split) != ("wic", "train"):
            seen.add(_nllb(code, spec))
            continue
        for number, theirs in enumerate(_read(name, spec, path, folder, spec.splits[split]), 1):
            try:
                row = spec.read(theirs, code)
            except KeyError as error:
                where = f"{path or spec.repo} {folder}".strip()
                raise ValueError(f"{where}, row {number}: no column {error}; found {', '.join(theirs)}") from None
            if row is None:
                continue
            row |= {key: _nllb(row[key], spec) for key in LANGS if key in row}
            own = {row[key] for key in LANGS if key in row}
            seen |= own
            if wanted is None or (own & set(wanted) and own <= {*wanted, "eng_Latn"}):
                rows.append(row)
    kept = {row[key] for row in rows for key in LANGS if key in row}
    if missing := [lang for lang in wanted or [] if lang not in kept] or ([] if rows else ["any language"]):
        found = ", ".join(sorted(seen)[:12]) or "none"
        raise ValueError(f"{path or spec.repo} has no {split} rows in {', '.join(missing)}; found {found}")
    return rows


def _nllb(code: str, spec: PublicSet) -> str:
    """The NLLB code of a set's code. A variety without an NLLB code ("zh-classical", "cat_Latn_vale1252") keeps its own
    code, so that it does not count as the main language."""
    code = spec.aliases.get(code, code)
    if not re.fullmatch(r"[A-Za-z]{2,3}([-_][A-Za-z]{4})?([-_][A-Z]{2})?", code):
        return code
    try:
        return find_language(code)
    except ValueError:
        return code


def _folders(name: str, spec: PublicSet, path: str | Path | None) -> list[tuple[str, str]]:
    """[(folder, code of its language)]; [("", "")] for a set whose rows name their languages."""
    if path is not None and not Path(path).is_dir():
        raise FileNotFoundError(f"{name}: no folder {path}; give path= with a local copy")
    if spec.folders is None:
        return [("", "")]
    if path is not None:
        names = [folder.name for folder in Path(path).iterdir() if folder.is_dir()]
    else:
        from huggingface_hub import HfApi
        from huggingface_hub.hf_api import RepoFolder

        with _named(name, spec):
            tree = HfApi().list_repo_tree(str(spec.repo), repo_type="dataset", revision=spec.revision)
            names = [entry.path for entry in tree if isinstance(entry, RepoFolder)]
    matches = [match for folder in sorted(names) if (match := re.fullmatch(spec.folders, folder))]
    if not matches:
        raise FileNotFoundError(
            f"{name}: {path or spec.repo} has no folder of one language; found {sorted(names)[:12]}"
        )
    return [(match[0], match[1]) for match in matches]


def _read(name: str, spec: PublicSet, path: str | Path | None, folder: str, split: str) -> Iterator[Row]:
    from datasets import load_dataset

    if path is None:
        with _named(name, spec):
            yield from load_dataset(spec.repo, data_dir=folder or None, split=split, revision=spec.revision)
        return
    files = [file for file in files_below(Path(path, folder)) if split in re.split(r"[-_.]", file.name)]
    if not files:
        raise FileNotFoundError(f"{name}: {Path(path, folder)} has no file of split {split!r}, such as {split}.parquet")
    kind = {".parquet": "parquet", ".tsv": "csv"}.get(files[0].suffix, "json")
    more = {"delimiter": "\t"} if kind == "csv" else {}
    yield from load_dataset(kind, data_files=[str(file) for file in files], split="train", **more)


@contextmanager
def _named(name: str, spec: PublicSet) -> Iterator[None]:
    """Errors of the Hub begin with the set and say the way out."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        start, fix = f"{name}: {spec.repo}", "give path= with a local copy"
        raise FileNotFoundError(f"{start} cannot be read, or is private or gated ({reason}); {fix}") from None


def _flores(row: Row, code: str) -> Row:
    return {"id": row["id"], "lang": f"{row['iso_639_3']}_{row['iso_15924']}", "text": row["text"]}


def _question(row: Row, code: str) -> Row:
    """The papers find each question's English original."""
    return {"id": row["sample_id"], "lang": code, "text": row["question"]}


def _bouquet(row: Row, code: str) -> Row | None:
    """The same table also has whole paragraphs."""
    if row["level"] != "sentence_level":
        return None
    return {"id": row["uniq_id"], "lang": row["src_lang"], "text": row["src_text"]}


def _afrolingu(row: Row, code: str) -> Row:
    source, target = row["langcode"].split("-")
    return {"source_lang": source, "target_lang": target, "source": row["input"], "target": row["output"]}


def _programs(row: Row, code: str) -> Row:
    """Code to code; a pair's name is such as 9359-C-1/9359-Python-1."""
    langs = [side.split("-")[1].lower() for side in row["idx"].split("/")]
    source, target = (program(row[side]) for side in ("docstring_tokens", "code_tokens"))
    return {"source_lang": langs[0], "target_lang": langs[1], "source": source, "target": target}


def program(tokens: Sequence[str]) -> str:
    """XLCoST's tokens as a program: NEW_LINE ends a line, INDENT and DEDENT move the next ones (Python)."""
    depth, line, lines = 0, [], []
    for token in [*tokens, "NEW_LINE"]:
        if token in ("INDENT", "DEDENT"):
            depth += 1 if token == "INDENT" else -1
        elif token != "NEW_LINE":
            line.append(token)
        elif line:
            lines.append("    " * depth + " ".join(line))
            line = []
    return "\n".join(lines)


def _slots(row: Row, code: str) -> Row:
    """Convert "wake me at [time : nine am]" to words and B-/I- tags; a word is a character in Japanese and Chinese."""
    split = list if row["locale"].split("-")[0] in ("ja", "zh") else str.split
    tokens, tags = [], []
    for slot, inside, outside in re.findall(r"\[\s*([^\[\]:]+?)\s*:\s*([^\[\]]*?)\s*\]|([^\[\]]+)", row["annot_utt"]):
        words = [word for word in split(inside or outside) if word.strip()]
        tokens += words
        tags += [f"{'I' if i else 'B'}-{slot}" for i in range(len(words))] if slot else ["O"] * len(words)
    return {"lang": row["locale"], "tokens": tokens, "tags": tags}


NER_TAGS = ("O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC")


def _entities(row: Row, code: str) -> Row:
    tags = [NER_TAGS[tag] if isinstance(tag, int) else tag for tag in row["ner_tags"]]
    return {"lang": code, "tokens": list(row["tokens"]), "tags": tags}


WIC = ("sentence1", "start1", "end1", "sentence2", "start2", "end2", "label")


def _wic(row: Row, code: str) -> Row | None:
    """Test sets have hidden labels (-1)."""
    return None if row["label"] == -1 else {"lang": "eng_Latn"} | {name: row[name] for name in WIC}


def _xlwic(row: Row, code: str) -> Row | None:
    if row["label"] == -1:
        return None
    found = {"lang": row["language"].lower(), "label": row["label"]}
    for n in "12":
        place = row[f"target_word_location_{n}"]
        found |= {f"sentence{n}": row[f"context_{n}"], f"start{n}": place["char_start"], f"end{n}": place["char_end"]}
    return found


DEV_AND_TEST = {"validation": "dev", "test": "test"}
WIKIPEDIA = {"als": "gsw_Latn", "zh-yue": "yue_Hant"}  # Wikipedia's codes
MASSIVE = {"en-US": "eng_Latn"}  # its only English
SETS: dict[str, PublicSet] = {
    "flores_plus": PublicSet(
        "openlanguagedata/flores_plus", "nway", _flores, splits={"validation": "dev", "test": "devtest"}
    ),
    "gmmlu": PublicSet("CohereLabs/Global-MMLU", "nway", _question, r"([a-z]{2,3})", splits=DEV_AND_TEST),
    # Columns of the next two as in scripts that use them; not checked against their cards.
    "bouquet": PublicSet("facebook/bouquet", "nway", _bouquet, splits=DEV_AND_TEST),
    "afrolingu_mt": PublicSet("UBC-NLP/AfroLingu-MT", "pairs", _afrolingu),
    "xlcost": PublicSet(
        None,
        "pairs",
        _programs,
        splits={"train": "train", "validation": "val", "test": "test"},
        aliases={"c++": "cpp", "c#": "csharp"},
        source="the data of github.com/reddy-lab-code-research/XLCoST, folder code2code_search/snippet_level",
    ),
    "massive_slots": PublicSet(
        "AmazonScience/massive", "tagging", _slots, r"([a-z]{2}-[A-Z]{2})", revision=CONVERTED, aliases=MASSIVE
    ),
    "panx": PublicSet("unimelb-nlp/wikiann", "tagging", _entities, r"([a-z]{2,3}(?:-[a-z-]+)?)", aliases=WIKIPEDIA),
    "wic": PublicSet("aps/super_glue", "wic", _wic, "wic()", default_split="validation", revision=CONVERTED),
    "xlwic": PublicSet("pasinit/xlwic", "wic", _xlwic, r"(?:xlwic_)?(?:en|de|fr|it)_([a-z]{2})", revision=CONVERTED),
}
