"""Load the papers' public evaluation sets that mteb does not have, as rows for our evaluations.

`SETS[name].shape` is the shape of the rows (dicts) of `load_benchmark(name)`:

- nway: id, lang, text (`evaluate_xsim`)
- pairs: source, source_lang, target, target_lang (`pairs_as_nway`, `translation_scores`)
- tagging: lang, tokens, tags (`evaluate_tagging`)
- wic: lang, sentence1, start1, end1, sentence2, start2, end2, label (`evaluate_wic`)
- choices: id, lang, document (text, or a list of sentences or clips), question, options, answer
  (from 0), and for speech also spoken_texts (`benchmarks.choices`)
- topics: id, lang, text, label (`benchmarks.choices`)

Languages are NLLB codes; a code that `find_language` does not know keeps the set's spelling.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from ...data.flores import FLORES_200, FLORES_PLUS, nllb_code
from ...data.flores import SPLITS as FLORES_SPLITS
from ...languages import ENGLISH, find_language
from ...utils.files import files_below, first_line
from .set_rows import (
    NumberedRow,
    Row,
    belebele_row,
    hellaswag_row,
    sib_row,
    spoken_belebele_row,
    story_rows,
    taxi_rows,
)

CONVERTED = "refs/convert/parquet"  # the Hub's own Parquet copy of a set whose main branch is a loading script
SPLITS = {"train": "train", "validation": "validation", "test": "test"}
LANGS = ("lang", "source_lang", "target_lang")


@dataclass(frozen=True)
class PublicSet:
    """Where a public set is and how its rows become ours.

    Attributes:
        repo: Hub repository; None if the labelled data is not on the Hub (`source` then says where
            it is).
        read: (row of the set, code in the folder's name) -> our row, with languages in the set's
            codes; None drops it. No reader: the set has `read_folder`.
        folders: pattern of the folders of one language; its group is the code. None: one folder,
            rows have languages.
        files: pattern of whole paths of files, instead of folders; its group `code` is the language
            and its group `split`, if any, the set's split. Only files of the languages asked for
            are downloaded.
        read_folder: (folder, the set's split) -> (place of a row, row in the set's codes), for sets
            whose rows lie in several files; only from a local copy.
        splits: our split -> the set's.
        aliases: codes that mean another language in this set than elsewhere.
    """

    repo: str | None
    shape: str
    read: Callable[[Row, str], Row | None] | None
    folders: str | None = None
    files: str | None = None
    read_folder: Callable[[Path, str], Iterator[tuple[str, Row]]] | None = None
    splits: Mapping[str, str] = field(default_factory=lambda: SPLITS)
    default_split: str = "test"
    aliases: Mapping[str, str] = field(default_factory=dict)
    revision: str | None = None
    source: str = ""
    example: str = ""


def load_benchmark(
    name: str,
    *,
    langs: Sequence[str] | None = None,
    split: str | None = None,
    path: str | Path | None = None,
) -> list[Row]:
    """Load the rows of a public set; the module docstring lists their shapes.

    Args:
        name: a key of `SETS`, such as "flores_plus", "gmmlu", "panx".
        langs: NLLB codes or language names; None is all. A pair is loaded if one side is among them
            and the other side is too, or is English.
        split: "train", "validation" or "test", whatever the set calls them; None is the split on
            which results are usually reported.
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
    # Rows with a chosen language on one side, and a chosen one or English on the other.
    languages = None if langs is None else [find_language(lang) for lang in langs]
    rows = []
    kept_languages: set[str] = set()
    seen_languages: set[str] = set()
    for row in _rows_of(name, spec, path, split, languages, seen_languages):
        row_languages = set()
        for column in LANGS:
            if column in row:
                row[column] = _nllb(row[column], spec)
                row_languages.add(row[column])
        seen_languages |= row_languages
        if languages is None or (
            row_languages & set(languages) and row_languages <= {*languages, ENGLISH}
        ):
            rows.append(row)
            kept_languages |= row_languages
    missing = [lang for lang in languages or [] if lang not in kept_languages]
    if not rows and not missing:
        missing = ["any language"]
    if missing:
        seen = ", ".join(sorted(seen_languages)[:12]) or "none"
        raise ValueError(
            f"{path or spec.repo} has no {split} rows in {', '.join(missing)}; found {seen}"
        )
    return rows


def _rows_of(
    name: str,
    spec: PublicSet,
    path: str | Path | None,
    split: str,
    languages: Sequence[str] | None,
    seen_languages: set[str],
) -> Iterator[Row]:
    """Our rows, in the set's codes. `seen_languages` gets those that are there but were not asked
    for.

    Raises:
        ValueError: a bad row, with its file and number.
    """
    if spec.read_folder is not None:
        _check_folder(name, path)
        for _, row in spec.read_folder(Path(str(path)), spec.splits[split]):
            yield row
        return
    assert spec.read is not None
    if spec.files is None:
        places = _folders(name, spec, path)
    else:
        places = _files(name, spec, path, spec.splits[split])
    for place, code in places:
        # The training split of an XL-WiC pair is in the other language than its name says.
        other_language_inside = (spec.shape, split) == ("wic", "train")
        if code and languages and _nllb(code, spec) not in languages and not other_language_inside:
            seen_languages.add(_nllb(code, spec))
            continue
        # Files are read here; a folder of one language is left to `datasets`.
        if spec.files is None:
            numbered: Iterator[tuple[int, Row]] = enumerate(
                _read(name, spec, path, place, spec.splits[split]), 1
            )
        else:
            numbered = _file_rows(_local(name, spec, path, place))
        where = str(Path(path, place)) if path is not None else f"{spec.repo} {place}".strip()
        for number, set_row in numbered:
            try:
                checked_row = spec.read(set_row, code)
            except KeyError as error:
                raise ValueError(
                    f"{where}, row {number}: no column {error}; found {', '.join(set_row)}"
                ) from None
            except ValueError as error:
                raise ValueError(f"{where}, row {number}: {error}") from None
            if checked_row is not None:
                yield checked_row


def _nllb(code: str, spec: PublicSet) -> str:
    return nllb_code(spec.aliases.get(code, code))


def _check_folder(name: str, path: str | Path | None) -> None:
    if path is not None and not Path(path).is_dir():
        raise FileNotFoundError(f"{name}: no folder {path}; give path= with a local copy")


def _files(
    name: str, spec: PublicSet, path: str | Path | None, split: str
) -> list[tuple[str, str]]:
    """[(path of a file inside the set, code of its language)] of a split, by name."""
    _check_folder(name, path)
    if path is not None:
        # The folder's own name counts: a copy may be the folder of a split alone.
        root = Path(path).absolute()
        names = {}
        for file in files_below(root):
            names[file.as_posix()] = file.relative_to(root).as_posix()
    else:
        from huggingface_hub import HfApi

        with _named(name, spec):
            repo_files = HfApi().list_repo_files(
                str(spec.repo), repo_type="dataset", revision=spec.revision
            )
        names = {file: file for file in repo_files}
    files = []
    for location in sorted(names):
        match = re.fullmatch(str(spec.files), location)
        if match and match.groupdict().get("split", split) == split:
            files.append((names[location], match["code"]))
    if not files:
        raise FileNotFoundError(
            f"{name}: {path or spec.repo} has no file of split {split!r}, such as {spec.example}"
        )
    return files


def _local(name: str, spec: PublicSet, path: str | Path | None, file: str) -> Path:
    """A file of a set on this machine; from the Hub it is downloaded once."""
    if path is not None:
        return Path(path, file)
    from huggingface_hub import hf_hub_download

    with _named(name, spec):
        return Path(
            hf_hub_download(str(spec.repo), file, repo_type="dataset", revision=spec.revision)
        )


def _file_rows(file: Path) -> Iterator[NumberedRow]:
    """(number from 1, row) of a file: Parquet, JSON lines, TSV with a header, or plain lines
    (columns id and text).

    JSON is read line by line: sets whose columns change their type from row to row exist
    (HellaSwag in Chinese).
    """
    if file.suffix == ".parquet":
        # Rows with audio are large; pre_buffer would keep the whole file in memory.
        batches = pq.ParquetFile(file, pre_buffer=False).iter_batches(64)
        yield from enumerate(chain.from_iterable(batch.to_pylist() for batch in batches), 1)
    elif file.suffix == ".tsv":
        options = pacsv.ParseOptions(delimiter="\t", quote_char=False)
        yield from enumerate(pacsv.read_csv(file, parse_options=options).to_pylist(), 1)
    else:
        for number, line in enumerate(
            file.read_text(encoding="utf-8").removesuffix("\n").split("\n"), 1
        ):
            if file.suffix != ".jsonl":
                yield number, {"id": number, "text": line}
            elif line.strip():
                try:
                    yield number, json.loads(line)
                except ValueError as error:
                    raise ValueError(f"{file}, row {number}: no JSON ({error})") from None


def _folders(name: str, spec: PublicSet, path: str | Path | None) -> list[tuple[str, str]]:
    """[(folder, code of its language)]; [("", "")] for a set whose rows name their languages."""
    _check_folder(name, path)
    if spec.folders is None:
        return [("", "")]
    # The folders of a local copy, or of the set's repository.
    if path is not None:
        names = [folder.name for folder in Path(path).iterdir() if folder.is_dir()]
    else:
        from huggingface_hub import HfApi
        from huggingface_hub.hf_api import RepoFolder

        with _named(name, spec):
            tree = HfApi().list_repo_tree(
                str(spec.repo), repo_type="dataset", revision=spec.revision
            )
            names = [entry.path for entry in tree if isinstance(entry, RepoFolder)]
    folders = []
    for folder in sorted(names):
        # Other folders are those of the set's scripts and pictures.
        match = re.fullmatch(spec.folders, folder)
        if match:
            folders.append((folder, match[1]))
    if not folders:
        raise FileNotFoundError(
            f"{name}: {path or spec.repo} has no folder of one language; found {sorted(names)[:12]}"
        )
    return folders


def _read(
    name: str, spec: PublicSet, path: str | Path | None, folder: str, split: str
) -> Iterator[Row]:
    """Rows of a folder of a public set, from a local copy or from the Hub."""
    from datasets import load_dataset

    if path is None:
        with _named(name, spec):
            yield from load_dataset(
                spec.repo, data_dir=folder or None, split=split, revision=spec.revision
            )
        return
    files = []
    # A local copy may have other names: a part of the name says the split.
    for file in files_below(Path(path, folder)):
        if split in re.split(r"[-_.]", file.name):
            files.append(file)
    if not files:
        raise FileNotFoundError(
            f"{name}: {Path(path, folder)} has no file of split {split!r}, such as {split}.parquet"
        )
    kind = {".parquet": "parquet", ".tsv": "csv"}.get(files[0].suffix, "json")
    options = {"delimiter": "\t"} if kind == "csv" else {}
    yield from load_dataset(kind, data_files=list(map(str, files)), split="train", **options)


@contextmanager
def _named(name: str, spec: PublicSet) -> Iterator[None]:
    """Errors of the Hub begin with the set and say the way out."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        reason = first_line(error)
        raise FileNotFoundError(
            f"{name}: {spec.repo} cannot be read, or is private or gated ({reason}); give path= with a local copy"
        ) from None


def _flores(row: Row, code: str) -> Row:
    """The file's name is the language: rows of two varieties have the same iso_639_3 and
    iso_15924."""
    return {"id": row["id"], "lang": code, "text": row["text"]}


def _question(row: Row, code: str) -> Row:
    """The papers find each question's English original."""
    return {"id": row["sample_id"], "lang": code, "text": row["question"]}


def _bouquet(row: Row, code: str) -> Row | None:
    """Sentence level. A set that holds both levels in one file says so in `level`."""
    if row.get("level", "sentence_level") != "sentence_level":
        return None
    return {"id": row["uniq_id"], "lang": row["src_lang"], "text": row["src_text"]}


def _afrolingu(row: Row, code: str) -> Row:
    source, target = row["langcode"].split("-")
    return {
        "source_lang": source,
        "target_lang": target,
        "source": row["input"],
        "target": row["output"],
    }


def _programs(row: Row, code: str) -> Row:
    """Code to code; a pair's name is such as 9359-C-1/9359-Python-1."""
    source_name, target_name = row["idx"].split("/")
    return {
        "source_lang": source_name.split("-")[1].lower(),
        "target_lang": target_name.split("-")[1].lower(),
        "source": program(row["docstring_tokens"]),
        "target": program(row["code_tokens"]),
    }


def program(tokens: Sequence[str]) -> str:
    """XLCoST's tokens as a program: NEW_LINE ends a line, INDENT and DEDENT move the next ones
    (Python)."""
    depth = 0
    line: list[str] = []
    lines: list[str] = []
    for token in [*tokens, "NEW_LINE"]:
        if token == "INDENT":
            depth += 1
        elif token == "DEDENT":
            depth -= 1
        elif token != "NEW_LINE":
            line.append(token)
        elif line:
            lines.append("    " * depth + " ".join(line))
            line = []
    return "\n".join(lines)


def _slots(row: Row, code: str) -> Row:
    """Convert "wake me at [time : nine am]" to words and B-/I- tags;
    a word is a character in Japanese and Chinese."""
    # `list` cuts a text into characters, `str.split` into words.
    has_no_spaces = row["locale"].split("-")[0] in ("ja", "zh")
    split = list if has_no_spaces else str.split
    tokens: list[str] = []
    tags: list[str] = []
    # Each part is a slot "[time : nine am]", or text outside of slots.
    pattern = r"\[\s*([^\[\]:]+?)\s*:\s*([^\[\]]*?)\s*\]|([^\[\]]+)"
    for slot, inside, outside in re.findall(pattern, row["annot_utt"]):
        words = [word for word in split(inside or outside) if word.strip()]
        tokens += words
        if not slot:
            tags += ["O"] * len(words)
        elif words:
            tags += [f"B-{slot}"] + [f"I-{slot}"] * (len(words) - 1)
    return {"lang": row["locale"], "tokens": tokens, "tags": tags}


NER_TAGS = ("O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC")


def _entities(row: Row, code: str) -> Row:
    tags = []
    for tag in row["ner_tags"]:
        tags.append(NER_TAGS[tag] if isinstance(tag, int) else tag)
    return {"lang": code, "tokens": list(row["tokens"]), "tags": tags}


WIC = ("sentence1", "start1", "end1", "sentence2", "start2", "end2", "label")


def _wic(row: Row, code: str) -> Row | None:
    """Test sets have hidden labels (-1)."""
    if row["label"] == -1:
        return None
    return {"lang": ENGLISH} | {name: row[name] for name in WIC}


def _xlwic(row: Row, code: str) -> Row | None:
    """A row of XL-WiC in the columns of word-in-context; None without a label."""
    if row["label"] == -1:
        return None
    pair = {"lang": row["language"].lower(), "label": row["label"]}
    for side in ("1", "2"):
        place = row[f"target_word_location_{side}"]
        pair[f"sentence{side}"] = row[f"context_{side}"]
        pair[f"start{side}"] = place["char_start"]
        pair[f"end{side}"] = place["char_end"]
    return pair


TEST = {"test": "test"}
NLLB = r"[a-z]{3}_[A-Za-z]{4}"  # "ary_arab" is spelled so
DEV_AND_TEST = {"validation": "dev", "test": "test"}
WIKIPEDIA = {"als": "gsw_Latn", "zh-yue": "yue_Hant"}  # Wikipedia's codes
MASSIVE = {"en-US": ENGLISH}  # its only English
SETS: dict[str, PublicSet] = {
    "flores200": PublicSet(
        None,
        "nway",
        _flores,
        files=FLORES_200,
        splits=FLORES_SPLITS,
        source="flores200_dataset.tar.gz of github.com/facebookresearch/flores",
        example="devtest/fra_Latn.devtest",
    ),
    "flores_plus": PublicSet(
        "openlanguagedata/flores_plus",
        "nway",
        _flores,
        files=FLORES_PLUS,
        splits=FLORES_SPLITS,
        example="devtest/fra_Latn.parquet",
    ),
    "gmmlu": PublicSet(
        "CohereLabs/Global-MMLU", "nway", _question, r"([a-z]{2,3})", splits=DEV_AND_TEST
    ),
    # The repository also has data/paragraph_level and, with other columns, pairs in benchmark_data.
    "bouquet": PublicSet(
        "facebook/bouquet",
        "nway",
        _bouquet,
        files=r"(?:.*/)?data/sentence_level/(?P<split>dev|test)/(?P<code>\w+)\.parquet",
        splits=DEV_AND_TEST,
        example="data/sentence_level/test/fra_Latn.parquet",
    ),
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
        "AmazonScience/massive",
        "tagging",
        _slots,
        r"([a-z]{2}-[A-Z]{2})",
        revision=CONVERTED,
        aliases=MASSIVE,
    ),
    "panx": PublicSet(
        "unimelb-nlp/wikiann", "tagging", _entities, r"([a-z]{2,3}(?:-[a-z-]+)?)", aliases=WIKIPEDIA
    ),
    "wic": PublicSet(
        "aps/super_glue", "wic", _wic, "wic()", default_split="validation", revision=CONVERTED
    ),
    "xlwic": PublicSet(
        "pasinit/xlwic", "wic", _xlwic, r"(?:xlwic_)?(?:en|de|fr|it)_([a-z]{2})", revision=CONVERTED
    ),
    "belebele": PublicSet(
        "facebook/belebele",
        "choices",
        belebele_row,
        files=rf"(?:.*/)?(?P<code>{NLLB})\.jsonl",
        splits=TEST,
        example="data/fra_Latn.jsonl",
    ),
    "speech_belebele": PublicSet(
        "facebook/2M-Belebele",
        "choices",
        spoken_belebele_row,
        files=rf"(?:.*/)?lang=(?P<code>{NLLB})/\w+\.parquet",
        splits=TEST,
        example="data/lang=fra_Latn/fra_Latn.parquet",
    ),
    "hellaswag": PublicSet(
        "alexandrainst/m_hellaswag",
        "choices",
        hellaswag_row,
        files=r"(?:.*/)?(?P<code>[a-z]{2})/(?P<split>train|val|test)\.jsonl",
        splits={"train": "train", "validation": "val", "test": "test"},
        default_split="validation",  # the labels of the test split are hidden
        example="data/fr/val.jsonl",
    ),
    "spoken_story_cloze": PublicSet(
        None,
        "choices",
        None,
        read_folder=story_rows,
        splits={"test": "*", "topic": "tSC", "story": "sSC"},
        source="sSC and tSC of github.com/slp-rl/SpokenStoryCloze, as clips and texts that github.com/slp-rl/slamkit "
        "reads",
    ),
    "sib200": PublicSet(
        "Davlan/sib200",
        "topics",
        sib_row,
        files=rf"(?:.*/)?(?P<code>{NLLB})/(?P<split>train|dev|test)\.tsv",
        splits={"train": "train", **DEV_AND_TEST},
        example="data/fra_Latn/test.tsv",
    ),
    "taxi1500": PublicSet(
        None,
        "topics",
        None,
        read_folder=taxi_rows,
        splits={"train": "train", **DEV_AND_TEST},
        source="eng_data and the corpora Taxi1500-c of github.com/cisnlp/Taxi1500",
    ),
}
