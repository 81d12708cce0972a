"""Load the papers' public evaluation sets, from the Hub or from local copies, as rows for our evaluations.

Contract: `load_benchmark(name)` returns a list of dicts. `SETS[name].shape` is their shape:

- nway: id, lang, text (`evaluate_xsim`)
- pairs: source, source_lang, target, target_lang (`pairs_as_nway`, `translation_scores`)
- classification: lang, text, label, id if the set has ids (`evaluate_classification`; also an n-way table)
- pair_classification: lang, text1, text2, label (`evaluate_pair_classification`)
- similarity: lang1, lang2, text1, text2, score (`evaluate_similarity`)
- tagging: lang, tokens, tags (`evaluate_tagging`)
- wic: lang, sentence1, start1, end1, sentence2, start2, end2, label (`evaluate_wic`)
- alignment: src_lang, src_tokens, tgt_lang, tgt_tokens, alignment (`evaluate_alignment`)

Languages are NLLB codes; a code that `find_language` does not know keeps the set's spelling.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ...data.formats import KNOWN, open_file, suffix_of
from ...languages import find_language, is_language
from ...utils.text import text_blocks
from ..labelled_rows import read_rows
from .public_tables import SETS, PublicSet, Row

LANG_NAMES = {
    "pairs": ("source_lang", "target_lang"),
    "similarity": ("lang1", "lang2"),
    "alignment": ("src_lang", "tgt_lang"),
}


class _Source(NamedTuple):
    """One table, and the languages that its path or configuration names (in the set's own codes).

    `read(columns)` yields (number of a row or line, row).
    """

    label: str
    columns: list[str]
    read: Callable[[list[str]], Iterable[tuple[int, Row]]]
    codes: tuple[str, ...]


def load_benchmark(
    name: str,
    *,
    langs: Sequence[str] | None = None,
    split: str | None = None,
    path: str | Path | None = None,
) -> list[Row]:
    """Load the rows of a public set; the module docstring lists their shapes.

    Args:
        name: a key of `SETS`, such as "flores_plus", "sib200", "tatoeba", "panx".
        langs: NLLB codes (or language names, or the set's own codes); None is all. A pair is loaded if one side is
            among them and the other side is too, or is English.
        split: "train", "validation" or "test", whatever the set calls them; None is the split on which results are
            usually reported.
        path: file or folder with the set's own columns (Parquet, JSONL, TSV), instead of the Hub. Languages come
            from a column (the set's own, or `lang`), else from names of files and folders, spelled as the Hub's
            configurations (`de/test.parquet`, `deu_Latn.jsonl`), else from a single entry of `langs`. Splits come
            from a column `split` or from names; a file without a split in its name serves every split.

    Raises:
        ValueError: unknown set or split, missing columns, empty value, a language without rows.
        FileNotFoundError: nothing readable at `path` or on the Hub.
    """
    if name not in SETS:
        raise ValueError(f"unknown set {name!r}; choose from {', '.join(SETS)}")
    spec = SETS[name]
    split = split or spec.default_split
    if split not in spec.splits:
        raise ValueError(f"{name} has no split {split!r}; choose from {', '.join(spec.splits)}")
    wanted = None if langs is None else [_nllb(code, spec) for code in langs]
    if path is not None:
        sources = _local(name, spec, Path(path), split)
    else:
        sources = _hub(name, spec, spec.repo, split, wanted)
    rows, seen = [], set()
    for source in sources:
        for row, row_langs in _rows(name, spec, source, wanted, split):
            seen.update(row_langs)
            if _chosen(row_langs, wanted):
                rows.append(row)
    where = path or spec.repo
    kept = {lang for row in rows for key, lang in row.items() if "lang" in key}
    if missing := [code for code in wanted or [] if code not in kept]:
        raise ValueError(f"{where} has no {split} rows in {', '.join(missing)}; found {_few(seen)}")
    if not rows:
        raise ValueError(f"{where} has no {split} rows")
    return rows


def _chosen(langs: tuple[str, ...], wanted: Sequence[str] | None) -> bool:
    return wanted is None or (any(x in wanted for x in langs) and set(langs) <= {*wanted, "eng_Latn"})


def _few(values: Any, most: int = 12) -> str:
    values = sorted(map(str, values))
    return ", ".join(values[:most]) + (f" and {len(values) - most} more" if len(values) > most else "") or "none"


def _nllb(code: str, spec: PublicSet) -> str:
    """The NLLB code of a set's code. A variety without an NLLB code ("zh-classical", "cat_Latn_vale1252") keeps its own
    code, so that it does not count as the main language."""
    code = spec.aliases.get(code, code)
    plain = re.fullmatch(r"[A-Za-z]{2,3}([-_][A-Za-z]{4})?([-_][A-Z]{2})?", code)
    if is_language(code) or not (plain or re.fullmatch(r"[A-Za-z ()]{4,}", code)):
        return code
    try:
        return find_language(code)
    except ValueError:
        return code


def _codes(name: str, spec: PublicSet) -> tuple[str, ...] | None:
    """The languages in a configuration's name; None if it names none."""
    found = re.fullmatch(spec.config, name) if spec.config else None
    if found is None:
        return None
    groups = found.groupdict()
    if "two" not in groups:
        return (groups["one"],)
    return (groups.get("one", "en"), groups["two"])  # pairs whose one side is always English


def _hub(name: str, spec: PublicSet, repo: str | None, split: str, wanted: list[str] | None) -> Iterator[_Source]:
    if repo is None:
        raise ValueError(f"{name} is not on the Hub: download {spec.source} and give path=")
    try:
        configs = _configs(spec, repo)
        for config, codes in configs.items():
            if codes and not _chosen(tuple(_nllb(code, spec) for code in codes), wanted):
                # the training split of an XL-WiC pair is in the other language than its name says
                if not (spec.shape == "wic" and split == "train"):
                    continue
            data = _load(spec, repo, config, split).flatten()
            read = lambda columns, data=data: enumerate(data.select_columns(columns), 1)  # noqa: E731
            yield _Source(f"{repo} {config or ''}".strip(), data.column_names, read, codes)
    except (OSError, RuntimeError, ValueError) as error:
        from datasets.exceptions import DatasetNotFoundError

        absent = isinstance(error, DatasetNotFoundError)
        problem = "does not exist on the Hub, or is private or gated" if absent else "cannot be read"
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise FileNotFoundError(
            f"{name}: {repo} {problem} ({reason}); give path= with a local copy of the same columns"
        ) from None


def _configs(spec: PublicSet, repo: str) -> dict[str | None, tuple[str, ...]]:
    """{configuration: its languages}, for configurations of one language or one pair."""
    if spec.config is None:
        return {spec.only_config: (spec.language,) if spec.language else ()}
    if spec.revision is not None:  # one folder per configuration
        names = dict.fromkeys(file.split("/")[0] for file in _converted(spec, repo))
    else:
        from datasets import get_dataset_config_names

        names = get_dataset_config_names(repo)
    configs: dict[str | None, tuple[str, ...]] = {config: codes for config in names if (codes := _codes(config, spec))}
    if not configs and spec.lang_columns:
        configs = {None: ()}  # one table with a language column
    if not configs:
        raise OSError(f"no configuration of one language; found {_few(names)}")
    return configs


@functools.lru_cache(maxsize=4)
def _repo_files(repo: str, revision: str) -> tuple[str, ...]:
    from huggingface_hub import HfApi

    return tuple(HfApi().list_repo_files(repo, repo_type="dataset", revision=revision))


def _converted(spec: PublicSet, repo: str) -> list[str]:
    """Parquet files of the Hub's converted copy, CONFIGURATION/SPLIT/0000.parquet."""
    return [f for f in _repo_files(repo, spec.revision) if "/" in f and f.endswith(".parquet")]


def _load(spec: PublicSet, repo: str, config: str | None, split: str) -> Any:
    from datasets import load_dataset

    theirs = spec.splits[split][0]
    if spec.revision is None:
        return load_dataset(repo, config, split=theirs)
    inside = [f for f in _converted(spec, repo) if config is None or f.startswith(f"{config}/")]
    files = [f for f in inside if _split_of(Path(f).relative_to(config or ""), spec) == split]
    if not files:
        raise OSError(f"no {split} files of {config} among {_few(inside)}")
    return load_dataset(repo, data_files={theirs: files}, split=theirs, revision=spec.revision)


def _local(name: str, spec: PublicSet, path: Path, split: str) -> Iterator[_Source]:
    if not path.exists():
        raise FileNotFoundError(f"{name}: no file or folder {path}; give path= with a local copy")
    files = [path] if path.is_file() else sorted(f for f in path.rglob("*") if f.is_file() and suffix_of(f))
    if not files:
        raise FileNotFoundError(f"{name}: no file of a known kind in {path} ({KNOWN})")
    of = {file: _split_of(file.relative_to(path), spec) for file in files}
    if path.is_dir() and any(of.values()):
        files = [file for file in files if of[file] == split]
        if not files:
            present = _few({other for other in of.values() if other})
            raise FileNotFoundError(f"{name}: {path} has no file of split {split!r}; it has {present}")
    for file in files:
        codes = _codes_of_file(file, path, spec)
        if spec.header and (suffix_of(file) or "").startswith(".tsv"):
            yield _Source(str(file), list(spec.header), partial(_headless, file, spec.header), codes)
        else:
            yield _Source(str(file), open_file(file).columns, partial(_read, file), codes)


def _read(file: Path, columns: list[str]) -> Iterator[tuple[int, Row]]:
    return read_rows(file, columns, ())


def _headless(file: Path, header: tuple[str, ...], columns: list[str]) -> Iterator[tuple[int, Row]]:
    """A TSV without a header line gets its columns by position."""
    for texts, numbers, _ in text_blocks(file):
        for number, text in zip(numbers, texts, strict=True):
            fields = text.rstrip("\t").split("\t")
            if len(fields) != len(header):
                raise ValueError(f"{file}:{number}: {len(fields)} fields, expected {len(header)} ({', '.join(header)})")
            yield number, dict(zip(header, fields, strict=True))


def _split_of(file: Path, spec: PublicSet) -> str | None:
    words = re.split(r"[^a-z]+", str(file).lower())
    return next((ours for ours, names in spec.splits.items() for word in words if word in names), None)


def _codes_of_file(file: Path, top: Path, spec: PublicSet) -> tuple[str, ...]:
    def known(codes: tuple[str, ...]) -> bool:
        return all(is_language(_nllb(code, spec)) for code in codes)

    folders = file.relative_to(top).parts[:-1]  # below `path`: each is a configuration, even of an unknown language
    for part in (file.name.split(".")[0], *reversed(folders), *([file.parent.name] if file == top else [])):
        codes = _codes(part, spec) if _split_of(Path(part), spec) is None else None
        if codes and (part in folders or known(codes)):
            return codes
    return (spec.language,) if spec.language else ()


def _rows(
    name: str, spec: PublicSet, source: _Source, wanted: list[str] | None, split: str
) -> Iterator[tuple[Row, tuple[str, ...]]]:
    """Yield (row, its languages as NLLB codes)."""
    lang_columns = spec.lang_columns if set(spec.lang_columns) <= set(source.columns) else ()
    if not lang_columns and "lang" in source.columns:
        lang_columns = ("lang",)
    columns = spec.columns
    if missing := [column for column in columns.values() if column not in source.columns]:
        found = _few(source.columns, 40)
        raise ValueError(f"{source.label} has no column {', '.join(missing)} of {name}; found {found}")
    extra = [*lang_columns, *(["split"] if "split" in source.columns else [])]
    for line, values in source.read(list(dict.fromkeys([*columns.values(), *extra]))):
        if "split" in extra and values["split"] not in (split, *spec.splits[split]):
            continue
        own = _codes_of_row([str(values[column]) for column in lang_columns], source.codes, spec)
        if not own and wanted and len(wanted) == 1:
            own = (wanted[0],) if spec.shape not in LANG_NAMES else ("en", wanted[0])
        if not own:
            raise ValueError(
                f"{source.label}: unknown language; add a column lang, name the file or folder as the Hub's "
                "configuration is named, or give one entry of langs"
            )
        row = {ours: values[column] for ours, column in columns.items()}
        if empty := next((column for ours, column in columns.items() if row[ours] in (None, "")), None):
            raise ValueError(f"{source.label}:{line} ({'-'.join(own)}): {empty} is empty")
        row = spec.make(row, own) if spec.make else row
        if row is not None:
            langs = tuple(_nllb(code, spec) for code in own)
            yield dict(zip(LANG_NAMES.get(spec.shape, ("lang",)), langs)) | row, langs


def _codes_of_row(row_codes: list[str], codes: tuple[str, ...], spec: PublicSet) -> tuple[str, ...]:
    if not row_codes:
        return codes
    joined = "_".join(row_codes)
    if spec.shape in LANG_NAMES:
        return _codes(joined, spec) or codes
    # "de" or "deu_Latn"; XL-WiC writes DE
    return (joined if len(joined) > 3 else joined.lower(),)
