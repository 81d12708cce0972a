"""Files of translations by language: TMX, XLIFF, OPUS's XCES, Moses pairs, two files of lines.

A unit holds texts under names of languages ("en-US", "EN", "eng"). `Sides` says which of them are
the source and the target: the most exact ones first, never one text for both. Each other spelling
of a language counts as it, texts that fit equally well are rows of their own, and what is no row is
counted: units without one of the sides, texts in a less exact variant.

Inline codes of TMX and XLIFF (`<bpt>`, `<ph>` ... with what they hold) are no text; what `<hi>`,
`<g>` and `<mrk>` mark is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product, zip_longest
from pathlib import Path
from typing import Any

from ..languages import EXACT, find_language, language_fit, meanings
from ..utils.extras import extra
from ..utils.text import BLOCK, PACKED, BrokenFile, check_file, name_of, open_bytes, text_blocks
from .delimited import each_line
from .parts import Block, Languages, Part, Unit, blocks_of

MOSES = re.compile(
    r"(?:.*[.-])?([A-Za-z]{2,3}(?:_[A-Za-z0-9]{2,4})*)-([A-Za-z]{2,3}(?:_[A-Za-z0-9]{2,4})*)"
)
# inline elements that hold no text
CODES = (
    "bpt",
    "ept",
    "ph",
    "it",
    "ut",
    "sub",
    "x",
    "bx",
    "ex",
    "sc",
    "ec",
)
BREAK = re.compile(r"<br\s*/?>|^\\?n$|^\n$", re.IGNORECASE)  # a code that stands between two words
Texts = list[tuple[str, str]]  # (name of the language, text) of a unit
Units = Iterator[tuple[int, Texts, str | None]]  # (number, texts, reason why it is none)
SIDES = ("source", "target")


class Sides:
    """The languages of source and target in a file, chosen among the `names` that its first units
    have.

    Args:
        names: of languages, in order of appearance.
        langs: codes (`as_code`, `tagged_code`) of source and target; None: the other language of
            the file.

    Raises:
        ValueError: no text in a language, or not clear which languages are meant.
    """

    def __init__(self, label: str, names: Sequence[str], langs: Languages):
        self.label = label
        self.fits: dict[str, tuple[int, int] | None] = {}  # name -> (side, how well it fits)
        self.langs = list(langs)
        # Two variants of one language are two languages: en-GB and en-US.
        listing = ", ".join(names) or "none"
        tags = [getattr(lang, "tag", lang) for lang in langs]
        if None not in langs and str(langs[0]) == str(langs[1]) and tags[0] == tags[1]:
            raise ValueError(
                f"{label}: source and target are both {langs[0]}: name two of its languages ({listing})"
            )

        self._find_other_languages(names)
        # Each side needs a text of its own: one name cannot serve both.
        for side, lang in enumerate(self.langs):
            if any(self.rank(side, name) is not None for name in names):
                continue
            is_shared = any(language_fit(name, lang) is not None for name in names)
            text = "text of its own" if is_shared else "text"
            tag = getattr(lang, "tag", lang)
            raise ValueError(f"{label}: no {text} in {tag}; its languages are {listing}")

    def _find_other_languages(self, names: Sequence[str]) -> None:
        """A language that is not given is the only other one."""
        asked_langs = [lang for lang in self.langs if lang]
        missing = self.langs.count(None)
        if not missing:
            return
        others = []
        for name in names:
            if not any(language_fit(name, lang) is not None for lang in asked_langs):
                others.append(name)
        codes = _codes_of(others, missing)
        if codes is None:
            listing = ", ".join(names) or "no language"
            raise ValueError(
                f"{self.label} has texts in {listing}: give source_lang and target_lang"
            )
        for code in codes:
            self.langs[self.langs.index(None)] = code

    @property
    def codes(self) -> tuple[str, str]:
        return (str(self.langs[0]), str(self.langs[1]))

    @property
    def choice(self) -> tuple[str, ...]:
        return tuple(getattr(lang, "tag", str(lang)) for lang in self.langs)

    def fit(self, name: str) -> tuple[int, int] | None:
        """(0 for the source or 1 for the target, how well the name fits), or None."""
        if name not in self.fits:
            ranks = [language_fit(name, lang) for lang in self.langs]
            self.fits[name] = _better_side(ranks)
        return self.fits[name]

    def rank(self, side: int, name: str) -> int | None:
        """How well the name of a language fits a side; None where it does not."""
        fit = self.fit(name)
        return fit[1] if fit is not None and fit[0] == side else None

    def rows(self, texts: Texts) -> tuple[list[tuple[str, ...]], Mapping[str, int]]:
        """([(source, target, and their codes)], reason -> number of what is left out) of a unit."""
        texts_of_sides = []
        left_out: Counter[str] = Counter()
        for side, lang in enumerate(self.choice):
            best_texts, others = _most_exact(texts, partial(self.rank, side))
            if not best_texts:
                return [], {f"units without text in {lang}": 1}
            texts_of_sides.append(best_texts)
            left_out += others
        rows: list[tuple[str, ...]] = []
        for source, target in product(*texts_of_sides):
            rows.append((source, target, *self.codes))
        return rows, left_out


def _codes_of(names: Sequence[str], number: int) -> list[str] | None:
    """The codes of so many languages, in order of appearance; None if the names are of more or
    fewer.

    Variants ("en-US", "en-GB") count as one language, if these are not all that there is.
    """
    variants: dict[str, list[str]] = {}  # code without region -> codes
    for name in names:
        code = meanings(name)[0] if meanings(name) else name
        codes = variants.setdefault(code[:8], [])
        if code not in codes:
            codes.append(code)
    # With one variant of each language its exact code; with several the general one.
    if len(variants) == number:
        chosen = [codes[0] if len(codes) == 1 else base for base, codes in variants.items()]
    else:
        chosen = [code for codes in variants.values() for code in codes]
    if len(chosen) != number:
        return None
    return [find_language(code, strict=True) for code in chosen]


def _better_side(ranks: Sequence[int | None]) -> tuple[int, int] | None:
    """The side that a name fits better; None where it fits none, or both alike."""
    source, target = ranks
    if source == target:
        return None
    if source is not None and (target is None or source < target):
        return (0, source)
    assert target is not None  # the two differ
    return (1, target)


def pair_part(
    label: str, units: Callable[[], Units], sides: Sides, langs: Languages, source: Any
) -> Part:
    """A table of source and target, and of the languages that were not given."""
    columns = ["source", "target"]
    for name, lang in zip(("source_lang", "target_lang"), langs):
        if lang is None:
            columns.append(name)

    def rows() -> Iterator[Unit]:
        for number, texts, reason in units():
            unit_rows, left_out = ([], {}) if reason is not None else sides.rows(texts)
            yield number, unit_rows, reason, left_out

    names = (*SIDES, "source_lang", "target_lang")
    read = partial(_read, rows, names)
    return Part(label, columns, read, source, choice=sides.choice)


def _read(
    rows: Callable[[], Iterator[Unit]], columns: Sequence[str], names: Sequence[str]
) -> Iterator[Block]:
    return blocks_of(rows(), columns, names)


def text_part(label: str, units: Callable[[], Units], lang: str | None, source: Path) -> Part:
    """The texts of one language as a table with the column text."""
    names = language_names(units(), (lang, lang))
    listing = ", ".join(names) or "no language"
    if lang is None and len(names) != 1:
        raise ValueError(f"{label} has texts in {listing}: give the language of one of them")
    # Without a language the file must hold one, which is named by its own word.
    wanted_name = names[0] if lang is None else getattr(lang, "tag", str(lang))

    def fits(name: str) -> int | None:
        if lang is None:
            return 0 if name == wanted_name else None
        return language_fit(name, lang)

    if all(fits(name) is None for name in names):
        raise ValueError(f"{label}: no text in {wanted_name}; its languages are {listing}")

    def rows() -> Iterator[Unit]:
        for number, unit_texts, _ in units():
            best_texts, left_out = _most_exact(unit_texts, fits)
            if not best_texts:
                left_out[f"units without text in {wanted_name}"] += 1
            yield number, [(text,) for text in best_texts], None, left_out

    return Part(label, ["text"], partial(_read, rows, ["text"]), source, choice=wanted_name)


def _most_exact(
    unit_texts: Sequence[tuple[str, str]], fits: Callable[[str], int | None]
) -> tuple[list[str], Counter[str]]:
    """The texts of a unit whose language fits best, and the number of those that fit less well, by
    reason.

    Args:
        unit_texts: (language, text) of each.
        fits: how exact a language is, 0 best; None: it is another one.
    """
    ranks = [fits(name) for name, _ in unit_texts]
    best = min((rank for rank in ranks if rank is not None), default=None)
    best_texts = []
    left_out: Counter[str] = Counter()
    for rank, (name, text) in zip(ranks, unit_texts):
        if rank is None:
            continue
        if rank == best:
            best_texts.append(text)
        else:
            left_out[f"texts in {name} beside a more exact variant"] += 1
    return best_texts, left_out


def language_names(units: Units, langs: Languages) -> list[str]:
    """The names of languages in the first units, or in all if the given ones are not among the
    first."""
    names: dict[str, None] = {}
    for number, texts, _ in units:
        names |= dict.fromkeys(name for name, _ in texts)
        if number < BLOCK:
            continue
        exact = [lang for lang in langs if lang is None or _has_exact(names, lang)]
        if len(exact) == len(langs):
            break
    return list(names)


def _has_exact(names: Iterable[str], lang: str) -> bool:
    return any(language_fit(name, lang) == EXACT for name in names)


# Moses pairs, and two files of lines


def moses_pair(path: Path) -> tuple[list[Path], list[str]] | None:
    """([file of the source, file of the target], their names of languages) of a Moses pair,
    or None."""
    name = path.name.removesuffix(path.suffix) if path.suffix.lower() in PACKED else path.name
    # PREFIX.en-fr.en names one of the two files, PREFIX.en-fr the pair.
    stem, _, code = name.rpartition(".")
    match = MOSES.fullmatch(stem)
    if match is None or code not in match.groups():
        stem = path.name
        match = MOSES.fullmatch(stem)
    if match is None:
        return None
    files: list[Path] = []
    for code in match.groups():
        places = [path.with_name(f"{stem}.{code}{packed}") for packed in ("", *PACKED)]
        files += [place for place in places if place.is_file()][:1]
    return (files, list(match.groups())) if len(files) == 2 else None


def files_of(path: Path) -> list[Path]:
    """The files that a path of `open_file` stands for: two for a Moses pair."""
    pair = moses_pair(path)
    return [path] if pair is None else pair[0]


def open_moses(path: Path, files: list[Path], names: list[str], langs: Languages) -> Part:
    """Open a Moses pair such as corpus.fr-en.fr and corpus.fr-en.en; `names` are the codes in its
    name."""
    asked_langs = langs
    if None not in langs and not any(map(meanings, names)):  # corpus.src-tgt.src
        names = [str(langs[0]), str(langs[1])]
        langs = (names[0], names[1])
    sides = Sides(str(path), names, langs)
    return pair_part(str(path), partial(_moses_units, files, names), sides, asked_langs, files)


def _moses_units(files: list[Path], names: Sequence[str]) -> Units:
    for number, texts, reason in pairs_of_lines(
        files, [partial(each_line, text_blocks(file)) for file in files]
    ):
        yield number, list(zip(names, texts)), reason


def pairs_of_lines(
    files: Sequence[Path], readers: Sequence[Callable[[], Iterator[tuple[int, str, str | None]]]]
) -> Iterator[tuple[int, tuple[str, ...], str | None]]:
    """(number, texts, reason) of the rows of two files;
    BrokenFile at the end if one has more rows."""
    counts = [0, 0]
    for pair in zip_longest(*(read() for read in readers)):
        for side, line in enumerate(pair):
            counts[side] += line is not None
        # Where one file has ended, the lines of the other have no partner.
        if counts[0] == counts[1]:
            reason = next((reason for _, _, reason in pair if reason), None)
            yield pair[0][0], tuple(text for _, text, _ in pair), reason
    if counts[0] != counts[1]:
        first, second = (f"{count} {'line' if count == 1 else 'lines'}" for count in counts)
        raise BrokenFile(
            files[0], f"{first}, but {name_of(files[1])} has {second}: line i must translate line i"
        )


def open_two(
    files: Sequence[Path],
    readers: Sequence[Callable[[], Iterator[tuple[int, str, str | None]]]],
    choice: Any = None,
) -> Part:
    """Two files of texts, of which row i translates row i; one of them may be "-"."""
    for file in files:
        check_file(file)

    def rows() -> Iterator[Unit]:
        for number, texts, reason in pairs_of_lines(files, readers):
            yield number, [texts] if reason is None else [], reason, {}

    label = " and ".join(map(name_of, files))
    return Part(label, list(SIDES), partial(_read, rows, SIDES), list(files), choice=choice)


# XML


def _lxml() -> Any:
    with extra("tmx"):
        from lxml import etree
    return etree


def _tag(element: Any) -> str:
    """The name of an element without its namespace; of a comment, none."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def plain_text(element: Any) -> str:
    """The text of a segment without inline codes; a line break among them is a space."""
    # Inline codes go with their content, but the text behind them stays.
    pieces = [element.text or ""]
    for child in element:
        name = _tag(child)
        if name == "cp":  # XLIFF 2: a character that XML cannot hold
            pieces.append("")
        elif name in CODES:
            if BREAK.search("".join(child.itertext())) or child.get("ctype") == "lb":
                pieces.append(" ")
        elif name:
            pieces.append(plain_text(child))
        pieces.append(child.tail or "")
    return "".join(pieces)


def _forget(element: Any) -> None:
    """An element that was read, and those before it, leave the memory."""
    element.clear(keep_tail=True)
    while element.getprevious() is not None:
        del element.getparent()[0]


def _language_of(element: Any) -> str:
    return element.get("{http://www.w3.org/XML/1998/namespace}lang") or element.get("lang") or ""


def tmx_units(path: Path) -> Units:
    """The units of a TMX file: number, (language, text) of each variant, no reason to refuse it."""
    etree = _lxml()
    with open_bytes(path) as file:
        for number, (_, unit) in enumerate(etree.iterparse(file, tag="{*}tu", no_network=True), 1):
            texts = []
            for variant in unit.iterchildren("{*}tuv"):
                segment = next(variant.iterchildren("{*}seg"), None)
                if segment is not None:
                    texts.append((_language_of(variant), plain_text(segment)))
            yield number, texts, None
            _forget(unit)


def xliff_units(path: Path) -> Units:
    """XLIFF 1.2 (`trans-unit`) and 2 (`segment`); a unit with an empty target is not translated."""
    etree = _lxml()
    languages = ["", ""]
    number = 0
    tags = [f"{{*}}{name}" for name in ("xliff", "file", "trans-unit", "segment")]
    with open_bytes(path) as file:
        for event, element in etree.iterparse(
            file, events=("start", "end"), tag=tags, no_network=True
        ):
            name = _tag(element)
            # The languages of a file stand in front of its units.
            if event == "start":
                for place, attributes in enumerate(
                    [("source-language", "srcLang"), ("target-language", "trgLang")]
                ):
                    for attribute in attributes:
                        languages[place] = element.get(attribute) or languages[place]
            elif name in ("trans-unit", "segment"):
                number += 1
                texts = []
                for side, language in zip(SIDES, languages):
                    content = next(element.iterchildren(f"{{*}}{side}"), None)
                    if content is not None:
                        text = plain_text(content)
                        if side == "source" or text.strip():
                            texts.append((_language_of(content) or language or side, text))
                yield number, texts, None
                element.clear(keep_tail=True)


def root_of(path: Path) -> str:
    """The name of the root element of an XML file; "" where there is none."""
    etree = _lxml()
    with open_bytes(path) as file:
        try:
            _, root = next(
                etree.iterparse(file, events=("start",), no_network=True, load_dtd=False)
            )
        except (StopIteration, etree.XMLSyntaxError):
            return ""
        return _tag(root)


def xces_units(path: Path) -> Units:
    """OPUS's sentence alignments (`cesAlign`):
    links between sentences of documents, which lie in folders beside it."""
    etree = _lxml()
    number = 0
    documents: list[dict[str, str]] = [{}, {}]  # of each side: id -> sentence
    languages = ["", ""]
    with open_bytes(path) as file:
        for event, element in etree.iterparse(
            file, events=("start", "end"), tag=["{*}linkGrp", "{*}link"]
        ):
            # A group of links names its two documents, whose sentences are read whole.
            if event == "start" and _tag(element) == "linkGrp":
                for side, attribute in enumerate(("fromDoc", "toDoc")):
                    name = element.get(attribute) or ""
                    documents[side] = dict(xces_sentences(_document(path, name)))
                    language, slash, _ = name.partition("/")
                    languages[side] = language if slash else _side_of_name(path, side)
            elif event == "end" and _tag(element) == "link":
                number += 1
                texts, reason = _linked_texts(element.get("xtargets") or "", documents, languages)
                yield number, texts, reason
                element.clear(keep_tail=True)


def _linked_texts(
    link: str, documents: Sequence[Mapping[str, str]], languages: Sequence[str]
) -> tuple[list[tuple[str, str]], str | None]:
    """(language and text of each side, why the link is broken).

    A link is ids of one side, a semicolon, and ids of the other; a side may be empty.
    """
    source_ids, _, target_ids = link.partition(";")
    texts = []
    for ids, document, language in zip((source_ids, target_ids), documents, languages):
        sentences = []
        for sentence_id in ids.split():
            if sentence_id not in document:
                return [], f"no sentence {sentence_id!r} in the document of {language}"
            sentences.append(document[sentence_id])
        if sentences:
            texts.append((language, " ".join(sentences)))
    return texts, None


def _side_of_name(path: Path, side: int) -> str:
    """The language of a side, as the file's name says it: "en-fr.xml" -> "en", "fr"."""
    match = MOSES.fullmatch(path.name.split(".")[0])
    if match is None:
        raise BrokenFile(path, "its documents have no language; name it such as en-fr.xml")
    return match.group(side + 1)


def _document(path: Path, name: str) -> Path:
    """The file of a document that an alignment names as `name`, such as "en/1999/film.xml.gz".

    OPUS writes names from the folder that holds the languages, which may be up to four folders
    above the alignment, or in "xml" or "raw" there; the file may be packed where the name is not,
    or the other way round.
    """
    missing = f"{path}: no document {name} beside it; unpack the documents of OPUS there"
    if not name:
        raise FileNotFoundError(missing)
    for folder in [path.parent, *list(path.absolute().parents)[1:4]]:
        for place in (folder / name, folder / "xml" / name, folder / "raw" / name):
            packed = place.with_name(f"{place.name}.gz")
            unpacked = place.with_suffix("")
            for file in (place, packed, unpacked):
                if file.is_file():
                    return file
    raise FileNotFoundError(missing)


def xces_sentences(path: Path) -> Iterator[tuple[str, str]]:
    """(id, text) of the sentences of a document; words stand apart."""
    etree = _lxml()
    with open_bytes(path) as file:
        for _, sentence in etree.iterparse(file, tag="{*}s", no_network=True):
            words = [word.text or "" for word in sentence.iter("{*}w")]
            text = " ".join(words) if words else " ".join("".join(sentence.itertext()).split())
            yield sentence.get("id") or "", text
            sentence.clear(keep_tail=True)
