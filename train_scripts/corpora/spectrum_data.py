"""Documents for the recipes of spectrum-nano: English Bible chapters and news, news and topics in five languages.

    python train_scripts/corpora/spectrum_data.py CORPORA outputs/spectrum

CORPORA holds bible.parquet (verse_id, lang, text, split), wmt_news.parquet (src, tgt_lang, source), ntrex.parquet
(id, document, lang, text) and flores_sib.parquet (index_id, lang, category, text, split). The news tests do not mark
their articles: 16 neighbouring sentences are a document there. Of SIB, each sentence is a document with its topic as
the answer, once with the seven topics as choices and once without. spoken.jsonl has sentences for corpora/speak.py.
"""

import json
import sys
from pathlib import Path

import pandas as pd

from hf_echo.evaluation.spectrum import SIB_TOPICS

SENTENCES = 16
LANGUAGES = ("eng_Latn", "fra_Latn", "rus_Cyrl", "tur_Latn", "swh_Latn")


def bible_chapters(corpora: Path, split: str) -> list[dict]:
    verses = pd.read_parquet(corpora / "bible.parquet", filters=[("lang", "=", "eng_Latn"), ("split", "=", split)])
    chapters = verses.groupby(verses.verse_id.str.rsplit(".", n=1).str[0], sort=False).text.agg(list)
    return [{"sentences": texts, "lang": "eng_Latn"} for texts in chapters]


def news_windows(corpora: Path) -> list[dict]:
    rows = pd.read_parquet(corpora / "wmt_news.parquet")
    documents, seen = [], set()
    for _, test in rows.groupby("source", sort=True):
        largest = test.tgt_lang.value_counts().index[0]
        texts = [text for text in test[test.tgt_lang == largest].src.drop_duplicates() if text not in seen]
        seen.update(texts)
        windows = [texts[start : start + SENTENCES] for start in range(0, len(texts), SENTENCES)]
        documents += [{"sentences": window, "lang": "eng_Latn"} for window in windows if len(window) > 2]
    return documents


def news_documents(corpora: Path, lang: str) -> list[dict]:
    rows = pd.read_parquet(corpora / "ntrex.parquet", filters=[("lang", "=", lang)]).sort_values("id")
    return [{"sentences": texts, "lang": lang} for texts in rows.groupby("document", sort=True).text.agg(list)]


def topics(corpora: Path, split: str, lang: str) -> list[dict]:
    rows = pd.read_parquet(corpora / "flores_sib.parquet", filters=[("lang", "=", lang), ("split", "=", split)])
    asked = {"lang": lang, "task": "Name the topic of the text."}
    documents = [{"sentences": [row.text], "answer": row.category} | asked for row in rows.itertuples()]
    return documents + [row | {"choices": list(SIB_TOPICS)} for row in documents] if split == "train" else documents


def write(file: Path, documents: list[dict]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in documents), encoding="utf-8")
    print(f"{file}: {len(documents)} documents, {sum(len(row['sentences']) for row in documents)} sentences")


def main(corpora: Path, out: Path) -> None:
    write(out / "train.jsonl", bible_chapters(corpora, "train") + news_windows(corpora))
    for lang in LANGUAGES:
        write(out / f"news_{lang}.jsonl", news_documents(corpora, lang))
        write(out / f"topics_{lang}.jsonl", topics(corpora, "dev", lang))
    spoken = [row for lang in LANGUAGES for row in topics(corpora, "dev", lang)] + news_documents(corpora, "eng_Latn")
    sentences = [{"text": text, "lang": row["lang"]} for row in spoken for text in row["sentences"]]
    (out / "spoken.jsonl").write_text("".join(json.dumps(row) + "\n" for row in sentences), encoding="utf-8")
    write(out / "topics_train.jsonl", topics(corpora, "train", "eng_Latn"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
