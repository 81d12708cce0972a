"""Paragraphs for the long-context stage (OS 10.2) from the parallel corpora, and documents of the dev parts.

    python train_scripts/corpora/long_context_data.py CORPORA outputs/nano-real-variants/paragraphs

Documents are NTREX's and chapters of the Bible and of the Quran, sentence by sentence with their English. Stretches of
2 to 12 sentences are cut from them again for each of `--cuts`; contexts of XQuAD are paragraphs as they are. Writes
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
from nano_real_data import ENG, LANGUAGES, PARTS, pairs_of_nway, read, schema

Document = tuple[str, list[str], list[str]]


def numbered(verses: pd.DataFrame) -> pd.DataFrame:
    """Verses (b.MAT.5.3) as sentences of a chapter: document, number, lang, text."""
    parts = verses.verse_id.str.rpartition(".")
    return verses.assign(document=parts[0], number=parts[2])[["document", "number", "lang", "text"]]


def sentences(corpora: Path, dev: bool) -> dict[str, pd.DataFrame]:
    """Corpus -> document, number, lang, text of one part."""
    split = "dev" if dev else "train"
    bible = pd.concat(read(corpora, f, split=split) for f in ("bible.parquet", "bible_more.parquet"))
    ntrex = read(corpora, "ntrex.parquet")
    order = list(dict.fromkeys(ntrex[ntrex.lang == ENG].sort_values("id").document))
    held_out = ntrex.document.isin(order[-PARTS["ntrex"]["last_documents"] :])
    found = {"ntrex": ntrex[held_out == dev].rename(columns={"id": "number"}), "bible": numbered(bible)}
    return found if dev else found | {"quran": numbered(read(corpora, "quran.parquet"))}


def documents(table: pd.DataFrame, lang: str) -> list[Document]:
    """(document, sentences in `lang`, their English) in order, without what either side lacks."""
    table = table.assign(number=table.number.astype(int))
    own, english = (table[table.lang == code].drop_duplicates(["document", "number"]) for code in (lang, ENG))
    pairs = own.merge(english, on=["document", "number"], suffixes=("", "_eng")).sort_values("number")
    return [(name, list(g.text), list(g.text_eng)) for name, g in pairs.groupby("document", sort=False)]


def in_all_languages(table: pd.DataFrame) -> pd.DataFrame:
    """Sentences that every language of the table has: a cut at the same place leaves the same document."""
    langs = table.groupby(["document", "number"]).lang.transform("nunique")
    return table[langs == table.lang.nunique()]


def flores_paragraphs(table: pd.DataFrame) -> pd.DataFrame:
    """Paragraphs of FLORES (id, lang, sentences) from index_id, lang, category, text.

    A paragraph is a run of at least two sentences whose numbers follow each other and whose topic is the same. The
    files do not say where an article ends: two neighbouring ones of one topic become one paragraph. Sentences
    that a language lacks are left out in all.
    """
    table = table.assign(number=table.index_id.astype(int), document="flores")
    table = in_all_languages(table).sort_values("number")
    english = table[table.lang == ENG]
    is_new = (english.number.diff() != 1) | (english.category != english.category.shift())
    paragraph_of = dict(zip(english.number, is_new.cumsum(), strict=True))
    rows = []
    for (paragraph, lang), sentences in table.groupby([table.number.map(paragraph_of), "lang"], sort=False):
        if len(sentences) > 1:
            rows.append({"id": f"flores:{paragraph}", "lang": lang, "sentences": list(sentences.text)})
    return pd.DataFrame(rows)


def joined(stretches: Iterable[Document], lang: str) -> pd.DataFrame:
    source, target = [], []
    for _, own, english in stretches:
        source.append(" ".join(own))
        target.append(" ".join(english))
    return schema(source, [lang] * len(source), target)


def paragraphs(
    rows: Sequence[tuple[str, Sequence[str], Sequence[str]]], max_sentences: int, *, seed: int = 0
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Divide parallel documents (name, sentences, translations) into paragraphs of 2 to `max_sentences` sentences.

    Lengths are random, so that a model sees all of them; a rest of one sentence joins the paragraph before it.

    Raises:
        ValueError: a document with different numbers of sentences and translations, or `max_sentences` below 2.
    """
    if max_sentences < 2:
        raise ValueError(f"max_sentences={max_sentences} is below 2; a paragraph has at least 2 sentences")
    rng = random.Random(seed)
    for name, source, target in rows:
        if len(source) != len(target):
            raise ValueError(
                f"document {name!r} has {len(source)} sentences and {len(target)} translations; align it first"
            )
        start = 0
        while start < len(source):
            end = min(start + rng.randint(2, max_sentences), len(source))
            end = len(source) if len(source) - end == 1 else end
            if end - start > 1:
                yield f"{name}:{start}", list(source[start:end]), list(target[start:end])
            start = end


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", type=Path, help="folder with ntrex.parquet, bible.parquet, ...")
    parser.add_argument("out", type=Path)
    parser.add_argument("--cuts", type=int, default=3, help="how often each document is cut")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    others = [lang for lang in LANGUAGES if lang != ENG]
    contexts = read(args.corpora, "qa_parallel.parquet", kind="context")
    parts = [pairs_of_nway(contexts, "id")]
    for table in sentences(args.corpora, dev=False).values():
        for lang in others:
            found = documents(table, lang)
            parts += [joined(paragraphs(found, 12, seed=cut), lang) for cut in range(args.cuts)]
    train = pd.concat(parts).drop_duplicates(["source", "target"]).sample(frac=1, random_state=0)
    train.reset_index(drop=True).to_parquet(args.out / "train.parquet")
    print(f"train: {len(train)} paragraphs\n{train.source_lang.value_counts().to_string()}")
    for name, table in sentences(args.corpora, dev=True).items():
        table = in_all_languages(table[table.lang.isin(LANGUAGES)])
        rows: dict[tuple[str, str], list[str]] = {}
        for lang in others:
            for key, own, english in paragraphs(documents(table, lang), 8):
                rows[key, lang] = own
                rows.setdefault((key, ENG), english)
        out = pd.DataFrame({"id": k, "lang": lang, "sentences": text} for (k, lang), text in rows.items())
        out.to_parquet(args.out / f"dev_{name}.parquet")
        print(f"dev_{name}: {out.id.nunique()} documents, {len(out)} rows")
    flores = flores_paragraphs(pd.read_parquet(args.corpora / "flores_sib.parquet"))
    flores.to_parquet(args.out / "dev_flores.parquet")
    print(f"dev_flores: {flores.id.nunique()} paragraphs, {len(flores)} rows")


if __name__ == "__main__":
    main()
