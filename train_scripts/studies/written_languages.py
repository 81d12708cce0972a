"""chrF++ and BLEU of a decoder that writes several languages, beside copying and the nearest training sentence.

    python train_scripts/studies/written_languages.py echo-nano outputs/echo-nano-languages/2_decoder \\
        outputs/echo-nano/data

For each language that the decoder writes: everyday sentences of dev_everyday.parquet from English (into English: from
French) and from the other languages of echo_nano_report.py's twelve, as many of each as there are, up to --sentences in
all. "nearest" is the sentence of train_written.parquet in that language whose embedding is nearest.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pandas as pd
from echo_nano_figures import MOST_TOKENS, chrf_and_bleu
from echo_nano_report import ENG, TWELVE, in_order

from hf_echo.evaluation.probes.downstream import vectors_of
from hf_echo.inference import load_translator, translate
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.modeling import EchoForTranslation
from hf_echo.search.margin import best_matches

POOL = 100_000  # training sentences of a language that are searched


def parallel(rows: pd.DataFrame, source: str, target: str, number: int) -> pd.DataFrame:
    """Columns source, source_lang, target: sentences that dev_everyday has in both languages, by way of English."""
    sides = [rows[rows.lang == lang].set_index("id").text for lang in (source, target)]
    ids = in_order(sides[0].index.intersection(sides[1].index))[:number]
    return pd.DataFrame({"source": sides[0][ids].tolist(), "source_lang": source, "target": sides[1][ids].tolist()})


def measure(model, tokenizer, encode, data: Path, number: int) -> list[dict]:
    """A row for each pair of a target language and its sources (English, or the others)."""
    rows = pd.read_parquet(data / "dev_everyday.parquet")
    train = pd.read_parquet(data / "train_written.parquet", columns=["target", "target_lang"])
    found = []
    for target in model.decoder.config.languages:
        pool = train[train.target_lang == target].target.drop_duplicates()
        pool = pool.sample(min(len(pool), POOL), random_state=0).tolist()
        known = vectors_of(encode, pool, target)
        pivot = "fra_Latn" if target == ENG else ENG
        others = [lang for lang in TWELVE if lang not in (target, pivot)]
        for name, sources in ((pivot, [pivot]), ("others", others)):
            parts = [parallel(rows, source, target, number // len(sources)) for source in sources]
            pairs = pd.concat(parts, ignore_index=True)
            outputs: dict[str, list[str]] = {"decoder": [], "greedy": [], "nearest": []}
            for source, group in pairs.groupby("source_lang", sort=False):
                texts = group.source.tolist()
                for key, beams in (("decoder", None), ("greedy", 1)):
                    options = dict(num_beams=beams, max_new_tokens=MOST_TOKENS)
                    outputs[key] += translate(model, tokenizer, texts, source, target, **options)
                outputs["nearest"] += [pool[i] for i in best_matches(vectors_of(encode, texts, source), known)]
            references = pairs.target.tolist()
            outputs["copied"] = pairs.source.tolist()
            figures = {key: chrf_and_bleu(lines, references, target) for key, lines in outputs.items()}
            example = dict(zip(("source", "reference"), pairs.loc[0, ["source", "target"]], strict=True))
            example["translation"] = outputs["decoder"][0]
            found.append({"target": target, "source": name, "sentences": len(pairs), **figures, "example": example})
            print(json.dumps(found[-1], ensure_ascii=False), flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="encoder: folder, Hub name or echo-nano")
    parser.add_argument("decoder", help="checkpoint with the decoder, of the same space and vocabulary")
    parser.add_argument("data", type=Path, help="folder of echo_nano_data.py")
    parser.add_argument("--sentences", type=int, default=300, help="of each language and kind of source")
    parser.add_argument("--out", type=Path, help="JSON file of the figures")
    args = parser.parse_args()
    model, tokenizer = load_translator(args.model, dtype="fp32")
    other, _ = load_translator(args.decoder, dtype="fp32")
    other.decoder.generation_config = model.decoder.generation_config
    model = EchoForTranslation.from_parts(model.encoder, other.decoder).eval()
    found = measure(model, tokenizer, any_encoder(args.model), args.data, args.sentences)
    if args.out:
        args.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
