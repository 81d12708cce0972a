"""Documents for the recipes of spectrum-nano: English Bible chapters and news, news and topics in
five languages.

    python train_scripts/corpora/spectrum_data.py CORPORA outputs/spectrum

CORPORA holds bible.parquet (verse_id, lang, text, split), wmt_news.parquet (src, tgt_lang, source),
ntrex.parquet (id, document, lang, text) and flores_sib.parquet (index_id, lang, category, text,
split). The news tests do not mark their articles: 16 neighbouring sentences are a document there.
Of SIB, each sentence is a document with its topic as the answer, once with the seven topics as
choices and once without. spoken.jsonl has sentences for `hf-echo data speak`. Without CORPORA
public text is downloaded after a question; the news tests are for research.
"""

import argparse
from pathlib import Path

import pandas as pd

from hf_echo.evaluation.spectrum import SIB_TOPICS
from hf_echo.languages import ENGLISH
from hf_echo.steps.public_text import add_corpora, corpora_of

SENTENCES = 16
LANGUAGES = (ENGLISH, "fra_Latn", "rus_Cyrl", "tur_Latn", "swh_Latn")


def bible_chapters(corpora: Path) -> pd.DataFrame:
    """The chapters of the English Bible that are for training, as documents of verses."""
    is_english = ("lang", "=", ENGLISH)
    is_train = ("split", "=", "train")
    verses = pd.read_parquet(corpora / "bible.parquet", filters=[is_english, is_train])
    chapter = verses.verse_id.str.rpartition(".")[0]
    texts = verses.groupby(chapter, sort=False).text.agg(list)
    return pd.DataFrame({"sentences": texts, "lang": ENGLISH})


def news_windows(corpora: Path) -> pd.DataFrame:
    """Of each news test the English of its largest language pair,
    without the texts of tests before it."""
    rows = pd.read_parquet(corpora / "wmt_news.parquet")
    # The test of a year stands once for each language pair, with nearly the same English.
    largest = rows.groupby("source").tgt_lang.transform(lambda langs: langs.value_counts().index[0])
    rows = rows[rows.tgt_lang == largest].sort_values("source", kind="stable")
    rows = rows.drop_duplicates("src")
    # Neighbouring sentences of a test become one document.
    window = rows.groupby("source").cumcount() // SENTENCES
    texts = rows.groupby(["source", window]).src.agg(list)
    return pd.DataFrame({"sentences": texts[texts.str.len() > 2], "lang": ENGLISH})


def news_documents(corpora: Path, lang: str) -> pd.DataFrame:
    rows = pd.read_parquet(corpora / "ntrex.parquet", filters=[("lang", "=", lang)]).sort_values(
        "id"
    )
    return pd.DataFrame({"sentences": rows.groupby("document").text.agg(list), "lang": lang})


def topics(corpora: Path, split: str, lang: str) -> pd.DataFrame:
    """Each sentence is a document; the topic is its answer."""
    rows = pd.read_parquet(
        corpora / "flores_sib.parquet", filters=[("lang", "=", lang), ("split", "=", split)]
    )
    sentences = [[text] for text in rows.text]
    columns = {
        "sentences": sentences,
        "answer": rows.category,
        "lang": lang,
        "task": "Name the topic of the text.",
    }
    return pd.DataFrame(columns)


def write(file: Path, documents: pd.DataFrame) -> None:
    documents.to_json(file, orient="records", lines=True, force_ascii=False)
    print(f"{file}: {len(documents)} documents, {documents.sentences.str.len().sum()} sentences")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_corpora(parser)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    corpora = corpora_of(args, "bible", "wmt_news", "ntrex", "flores_sib", license="research")
    write_documents(corpora, args.out)


def write_documents(corpora: Path, out: Path) -> None:
    """Write training and dev documents, and the sentences that are to be spoken."""
    out.mkdir(parents=True, exist_ok=True)
    write(out / "train.jsonl", pd.concat([bible_chapters(corpora), news_windows(corpora)]))
    spoken = []
    for lang in LANGUAGES:
        of_language = topics(corpora, "dev", lang)
        write(out / f"news_{lang}.jsonl", news_documents(corpora, lang))
        write(out / f"topics_{lang}.jsonl", of_language)
        spoken.append(of_language)
    spoken.append(news_documents(corpora, ENGLISH))
    sentences = pd.concat(spoken).explode("sentences").rename(columns={"sentences": "text"})
    sentences[["text", "lang"]].to_json(out / "spoken.jsonl", orient="records", lines=True)
    train = topics(corpora, "train", ENGLISH)
    # Spectrum learns to answer with and without the choices.
    with_choices = train.assign(choices=[list(SIB_TOPICS)] * len(train))
    write(out / "topics_train.jsonl", pd.concat([train, with_choices]))


if __name__ == "__main__":
    main()
