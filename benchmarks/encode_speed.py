"""Sentences per second: sentence-transformers' paths against `hf_echo.inference.encode`, in one run.

    python benchmarks/encode_speed.py [--model CHECKPOINT] [--english FILE] [--mixed FILE] [--threads 2]

Without files, texts of one to six sentences of the built-in corpus. `mixed` lines may be `code<TAB>text`. Without a
model, random weights of the recipe nano-real's size with a tokenizer trained on the texts: speed does not depend on it.
Rounds are interleaved (A B C, A B C, ...), the best of each is taken; cosines are to the fp32 path of the same model.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling
from transformers import AutoModel, LlamaConfig, LlamaModel

import hf_echo  # noqa: F401
from hf_echo.data.builtin import LANGUAGES, builtin_nway
from hf_echo.inference import encode, load_encoder
from hf_echo.inference.encode import has_fast_bf16
from hf_echo.modeling.prompting_echo import language_name
from hf_echo.training import new_config
from hf_echo.vocabulary import train_tokenizer

SORTED = "ST, Echo, fp32, sorted by tokens"


def builtin_texts(n: int, languages) -> list[tuple[str, str]]:
    rng = random.Random(0)
    by_lang = {lang: builtin_nway(2000, languages=[lang])["text"] for lang in languages}
    return [
        (lang, " ".join(rng.choices(by_lang[lang], k=rng.choice((1, 1, 2, 3, 6)))))
        for lang in rng.choices(languages, k=n)
    ]


def read(path: Path, n: int, default: str) -> list[tuple[str, str]]:
    lines = [line.split("\t", 1) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return [(row[0], row[1]) if len(row) == 2 else (default, row[0]) for row in lines][:n]


def random_checkpoint(texts: list[str], folder: Path) -> Path:
    tokenizer = train_tokenizer(texts, 8000, max_length=256, progress=False)
    shape = dict(hidden_size=256, intermediate_size=1024, num_hidden_layers=6, num_attention_heads=8,
                 num_key_value_heads=4, embedding_size=256, pooling="mean", decoder_layers=1)  # fmt: skip
    model = hf_echo.EchoForTranslation(new_config(shape, tokenizer))
    model.save_release(folder)
    tokenizer.save_pretrained(folder)
    return folder


def plain_llama(checkpoint: Path, folder: Path) -> SentenceTransformer:
    """A bidirectional LlamaModel of the same shape and weights, opened by sentence-transformers with mean pooling."""
    encoder = AutoModel.from_pretrained(checkpoint)
    names = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
             "num_key_value_heads", "head_dim", "rms_norm_eps", "rope_parameters", "max_position_embeddings",
             "pad_token_id")  # fmt: skip
    llama = LlamaModel(
        LlamaConfig(**{name: getattr(encoder.config, name) for name in names}, is_causal=False)
    )
    llama.load_state_dict(encoder.state_dict(), strict=False)
    llama.save_pretrained(folder)
    from transformers import PreTrainedTokenizerFast

    PreTrainedTokenizerFast(
        tokenizer_file=str(checkpoint / "tokenizer.json"), pad_token="<pad>"
    ).save_pretrained(folder)
    from sentence_transformers.base.modules import Transformer

    return SentenceTransformer(
        modules=[Transformer(str(folder)), Pooling(encoder.config.hidden_size, "mean")]
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path)
    parser.add_argument("--english", type=Path)
    parser.add_argument("--mixed", type=Path)
    parser.add_argument("-n", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    sets = {
        "english": read(args.english, args.n, "eng_Latn")
        if args.english
        else builtin_texts(args.n, ["eng_Latn"]),
        "mixed": read(args.mixed, args.n, "eng_Latn")
        if args.mixed
        else builtin_texts(args.n, list(LANGUAGES)),
    }
    with tempfile.TemporaryDirectory() as tmp:
        model = args.model or random_checkpoint(
            [text for rows in sets.values() for _, text in rows], Path(tmp) / "echo"
        )
        st, plain = SentenceTransformer(str(model)), plain_llama(model, Path(tmp) / "llama")
        encoder, tokenizer = load_encoder(model, dtype="fp32")
        bf16 = load_encoder(model, dtype="bf16")[0] if has_fast_bf16() else None
        report = {"threads": args.threads, "native_bf16": bf16 is not None, "sets": {}}
        for name, rows in sets.items():
            langs, texts = [lang for lang, _ in rows], [text for _, text in rows]
            # The plain model reads the same language names in front of the same texts.
            named = [f"{language_name(lang)}: {text}" for lang, text in rows]
            prompted = [st.prompts[lang] + text for lang, text in rows]
            order = np.argsort([len(tokenizer(t, lang=lang)["input_ids"]) for lang, t in rows])

            def by_tokens(prompted=prompted, order=order):
                # sentence-transformers sorts by characters: batches of equal token length are given one by one
                out = np.empty((len(order), st.get_embedding_dimension()), np.float32)
                for i in range(0, len(order), 32):
                    out[order[i : i + 32]] = st.encode(
                        [prompted[j] for j in order[i : i + 32]], batch_size=32
                    )
                return out

            paths = {
                "ST, plain bidirectional Llama, fp32": lambda named=named: plain.encode(named, batch_size=32),
                "ST, Echo, fp32": lambda prompted=prompted: st.encode(prompted, batch_size=32),
                SORTED: by_tokens,
                "hf-echo encode, fp32": lambda texts=texts, langs=langs: encode(
                    encoder, tokenizer, texts, langs
                ),
            }
            if bf16 is not None:
                paths["hf-echo encode, bf16"] = lambda texts=texts, langs=langs: encode(
                    bf16, tokenizer, texts, langs
                )
            best, vectors = dict.fromkeys(paths, float("inf")), {}
            for _ in range(args.rounds):
                for path, run in paths.items():
                    start = time.perf_counter()
                    vectors[path] = run()
                    best[path] = min(best[path], time.perf_counter() - start)
            reference = vectors["ST, Echo, fp32"]
            report["sets"][name] = {}
            for path, seconds in best.items():
                row = {"sentences_per_second": round(len(texts) / seconds, 1),
                       "times_st": round(best["ST, Echo, fp32"] / seconds, 2),
                       "times_st_sorted_by_tokens": round(best[SORTED] / seconds, 2)}  # fmt: skip
                if "plain" not in path:
                    x = vectors[path]
                    cosine = (
                        (x * reference).sum(1) / np.linalg.norm(x, axis=1) / np.linalg.norm(reference, axis=1)
                    )
                    row["min_cosine"] = round(float(cosine.min()), 5)
                report["sets"][name][path] = row
                print(f"{name:8} {path:40} {row}")
    if args.json:
        args.json.write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
