"""Paragraphs for the long-context stage (OS 10.2) from the parallel corpora, and documents of the
dev parts.

    python train_scripts/corpora/long_context_data.py CORPORA outputs/nano-real-variants/paragraphs

Documents are NTREX's and chapters of the Bible and of the Quran, sentence by sentence with their
English. Stretches of 2 to 12 sentences are cut from them again for each of `--cuts`; contexts of
XQuAD are paragraphs as they are. Public text, which is downloaded where CORPORA is left out, has no
Quran and no XQuAD. Writes
train.parquet (parallel schema, X->eng), and for long_context_report.py (id, lang, sentences)
    dev_ntrex, dev_bible    the last 15 documents of NTREX and John 1-10, cut once into 2 to 8 sentences that all
                            languages have; languages of nano-real
    dev_flores              contiguous sentences of FLORES of one topic, in all languages of FLORES, as the contexts of
                            Belebele are (OS 10.2). echo-nano and nano-real have trained on most of the sentences, one
                            by one
"""

import argparse
import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pandas as pd
from dev_parts import (
    LANGUAGES,
    is_last_document,
    pairs_of_nway,
    read,
    read_bibles,
    schema,
)

from hf_echo.languages import ENGLISH
from hf_echo.steps.public_text import add_corpora, corpora_of

Document = tuple[str, list[str], list[str]]
OTHERS = [lang for lang in LANGUAGES if lang != ENGLISH]


def numbered(verses: pd.DataFrame) -> pd.DataFrame:
    """Verses (b.MAT.5.3) as sentences of a chapter: document, number, lang, text."""
    parts = verses.verse_id.str.rpartition(".")
    return verses.assign(document=parts[0], number=parts[2])[["document", "number", "lang", "text"]]


def sentences(corpora: Path, dev: bool) -> dict[str, pd.DataFrame]:
    """Corpus -> document, number, lang, text of one part."""
    ntrex = read(corpora, "ntrex.parquet")
    ntrex = ntrex[is_last_document(ntrex) == dev]
    bible = read_bibles(corpora, "dev" if dev else "train")
    tables = {"ntrex": ntrex.rename(columns={"id": "number"}), "bible": numbered(bible)}
    if not dev and (corpora / "quran.parquet").exists():
        tables["quran"] = numbered(read(corpora, "quran.parquet"))
    return tables


def documents(table: pd.DataFrame, lang: str) -> list[Document]:
    """(document, sentences in `lang`, their English) in order, without what either side lacks."""
    sentence = ["document", "number"]
    table = table.astype({"number": int}).drop_duplicates([*sentence, "lang"])
    source = table[table.lang == lang]
    english = table[table.lang == ENGLISH]
    pairs = source.merge(english, on=sentence, suffixes=("", "_eng")).sort_values("number")
    rows = []
    for name, of_document in pairs.groupby("document", sort=False):
        rows.append((name, list(of_document.text), list(of_document.text_eng)))
    return rows


def in_all_languages(table: pd.DataFrame) -> pd.DataFrame:
    """Sentences that every language of the table has:
    a cut at the same place leaves the same document."""
    langs = table.groupby(["document", "number"]).lang.transform("nunique")
    return table[langs == table.lang.nunique()]


def flores_paragraphs(table: pd.DataFrame) -> pd.DataFrame:
    """Paragraphs of FLORES (id, lang, sentences) from index_id, lang, category, text.

    A paragraph is a run of at least two sentences whose numbers follow each other and whose topic
    is the same. The files do not say where an article ends: two neighbouring ones of one topic
    become one paragraph. Sentences that a language lacks are left out in all.
    """
    table = table.assign(number=table.index_id.astype(int), document="flores")
    table = in_all_languages(table).sort_values("number")
    english = table[table.lang == ENGLISH]
    # A paragraph begins where the numbers jump or the topic changes.
    is_new = (english.number.diff() != 1) | (english.category != english.category.shift())
    paragraph_of = dict(zip(english.number, is_new.cumsum(), strict=True))
    table["paragraph"] = table.number.map(paragraph_of)
    rows = []
    for (paragraph, lang), sentences in table.groupby(["paragraph", "lang"], sort=False):
        if len(sentences) > 1:
            texts = list(sentences.text)
            rows.append({"id": f"flores:{paragraph}", "lang": lang, "sentences": texts})
    return pd.DataFrame(rows)


def joined(stretches: Iterable[Document], lang: str) -> pd.DataFrame:
    """The sentences of each paragraph as one text, in the parallel schema."""
    texts = pd.DataFrame(stretches, columns=["document", "source", "target"])
    return schema(texts.source.str.join(" "), lang, texts.target.str.join(" "))


def paragraphs(
    rows: Sequence[Document], max_sentences: int, *, seed: int = 0
) -> Iterator[Document]:
    """Divide parallel documents (name, sentences, translations) into paragraphs of 2 to
    `max_sentences` sentences.

    Lengths are random, so that a model sees all of them; a rest of one sentence joins the paragraph
    before it.
    """
    rng = random.Random(seed)
    for name, source, target in rows:
        start = 0
        while start < len(source):
            end = start + rng.randint(2, max_sentences)
            # A rest of one sentence is no paragraph: it joins this one.
            if end >= len(source) - 1:
                end = len(source)
            if end - start > 1:
                yield f"{name}:{start}", list(source[start:end]), list(target[start:end])
            start = end


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_corpora(parser)
    parser.add_argument("out", type=Path)
    parser.add_argument("--cuts", type=int, default=3, help="how often each document is cut")
    args = parser.parse_args()
    corpora = corpora_of(args, "ntrex", "bible", "bible_more", "flores_sib")
    args.out.mkdir(parents=True, exist_ok=True)
    train = train_paragraphs(corpora, args.cuts)
    train.to_parquet(args.out / "train.parquet")
    print(f"train: {len(train)} paragraphs\n{train.source_lang.value_counts().to_string()}")
    tables = {name: dev_paragraphs(table) for name, table in sentences(corpora, dev=True).items()}
    tables["flores"] = flores_paragraphs(read(corpora, "flores_sib.parquet"))
    for name, table in tables.items():
        table.to_parquet(args.out / f"dev_{name}.parquet")
        print(f"dev_{name}: {table.id.nunique()} documents, {len(table)} rows")


def train_paragraphs(corpora: Path, cuts: int) -> pd.DataFrame:
    """Paragraphs in the parallel schema, mixed: contexts of XQuAD, and `cuts` cuts of each
    document."""
    parts = []
    if (corpora / "qa_parallel.parquet").exists():
        contexts = read(corpora, "qa_parallel.parquet", kind="context")
        parts.append(pairs_of_nway(contexts))
    for table in sentences(corpora, dev=False).values():
        for lang in OTHERS:
            of_language = documents(table, lang)
            # Other cuts of the same documents give other paragraphs.
            for cut in range(cuts):
                parts.append(joined(paragraphs(of_language, 12, seed=cut), lang))
    pairs = pd.concat(parts).drop_duplicates(["source", "target"])
    return pairs.sample(frac=1, random_state=0, ignore_index=True)


def dev_paragraphs(table: pd.DataFrame) -> pd.DataFrame:
    """Rows id, lang, sentences: the same paragraphs in all languages of nano-real."""
    table = in_all_languages(table[table.lang.isin(LANGUAGES)])
    rows = []
    for lang in OTHERS:
        for key, source, english in paragraphs(documents(table, lang), 8):
            rows.append({"id": key, "lang": lang, "sentences": source})
            rows.append({"id": key, "lang": ENGLISH, "sentences": english})
    # The English of a paragraph comes with each language.
    return pd.DataFrame(rows).drop_duplicates(["id", "lang"], ignore_index=True)


if __name__ == "__main__":
    main()
