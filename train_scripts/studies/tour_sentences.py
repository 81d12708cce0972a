"""Draw the sentences of `hf-echo tour` from a dev set, by a fixed order that has nothing to do with the texts.

    python train_scripts/studies/tour_sentences.py outputs/echo-nano/data > hf_echo/cli/tour_sentences.tsv

The dev set is dev_everyday.parquet of the recipe echo-nano/00_data. Each language gives the first sentences in that
order whose English no earlier language gave, good and bad as they fall.
"""

import argparse
from pathlib import Path

import pandas as pd
from echo_nano_report import ENG, in_order

LANGUAGES = "fra_Latn deu_Latn spa_Latn rus_Cyrl zho_Hans jpn_Jpan arb_Arab hin_Deva tur_Latn vie_Latn".split()
SENTENCES = 2  # of each language


def draw(rows: pd.DataFrame) -> list[tuple[str, str, str]]:
    """(language, sentence, its English) from the columns id, lang, text."""
    english = rows[rows.lang == ENG].set_index("id").text
    drawn: dict[str, tuple[str, str, str]] = {}
    for lang in LANGUAGES:
        text = rows[(rows.lang == lang) & rows.id.isin(english.index)].set_index("id").text
        unused = [i for i in in_order(text.index) if i not in drawn]
        drawn |= {i: (lang, text[i], english[i]) for i in unused[:SENTENCES]}
    return list(drawn.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of the recipe echo-nano/00_data")
    args = parser.parse_args()
    print("lang\ttext\tenglish")
    for row in draw(pd.read_parquet(args.data / "dev_everyday.parquet")):
        print("\t".join(row))


if __name__ == "__main__":
    main()
