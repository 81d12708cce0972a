"""What the models of spectrum-nano can do on news documents, for docs/trials/spectrum.md.

    python train_scripts/studies/spectrum_report.py outputs/spectrum outputs/spectrum-nano
    python train_scripts/studies/spectrum_report.py outputs/spectrum outputs/smollm2 --rebuild outputs/smollm2/1_rebuild

Prints next-sentence retrieval, the negative log likelihood of a document's text given its own embeddings, those of
another document and none, and BLEU of documents rebuilt from their embeddings. Embeddings are of five languages, the
text is English. With --rebuild only the negative log likelihood of documents that this checkpoint rebuilds.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from transformers import AutoTokenizer

import hf_echo
from hf_echo.data.documents import load_documents
from hf_echo.evaluation.spectrum.next_sentence import next_sentence_retrieval, tower_predictions
from hf_echo.evaluation.spectrum.rebuild import rebuild_bleu
from hf_echo.inference.translate import load_translator, translate
from hf_echo.modeling import SpectrumForCausalLM, SpectrumModel
from hf_echo.modeling.packing_spectrum import PackedDocument, Segment, pack, sentence_segments
from hf_echo.stages.spectrum.documents import DevDocuments
from hf_echo.stages.spectrum.prefix import REBUILD, prompt_ids

LANGUAGES = ("eng_Latn", "fra_Latn", "rus_Cyrl", "tur_Latn", "swh_Latn")
ENCODER = str(hf_echo.pretrained("echo-nano"))
FIRST = 8  # sentences of a document, as in training of the prefix stage
TOKENS = 64


def split(vectors: np.ndarray, documents: list[list[str]]) -> list[np.ndarray]:
    return np.split(vectors, np.cumsum([len(row) for row in documents])[:-1])


@torch.no_grad()
def nll(model, documents: list[PackedDocument]) -> float:
    """Nats per token."""
    total = count = 0.0
    for start in range(0, len(documents), 4):
        batch = pack(documents[start : start + 4])
        known = model.config.decoder.vocab_size
        batch["labels"][batch["labels"] >= known] = -100
        batch["input_ids"].clamp_(max=known - 1)
        tokens = int((batch["labels"] != -100).sum())
        total, count = total + model(**batch).loss.item() * tokens, count + tokens
    return total / count


def by_embeddings(model, vectors: list[np.ndarray], make) -> str:
    """NLL of each document's text given its own embeddings, those of the next document, and none (BOE alone)."""
    groups = {
        "own": vectors,
        "other": [np.resize(vectors[(i + 1) % len(vectors)], v.shape) for i, v in enumerate(vectors)],
        "none": [v[:0] for v in vectors],
    }
    figures = {
        name: nll(model, [make(torch.from_numpy(v), i) for i, v in enumerate(group)]) for name, group in groups.items()
    }
    return ", ".join(f"{name} {value:.3f}" for name, value in figures.items())


def rebuild_report(folder: Path, vectors: dict[str, list[np.ndarray]], texts: list[list[str]]) -> tuple:
    """Print the NLL of the first sentences of each document by language; returns model, tokenizer and prompt."""
    model = SpectrumForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = [[sentence[:TOKENS] for sentence in tokenizer.text_ids(row)] for row in texts]
    end, space = model.config.decoder.eos_token_id, tokenizer.text_ids([" "])[0]
    start = prompt_ids(model.config, tokenizer, REBUILD)

    def rebuilt(own: torch.Tensor, i: int) -> PackedDocument:
        joined = [token for sentence in ids[i][:FIRST] for token in (*sentence, *space)][:200]
        return PackedDocument(own, len(own), [Segment([*start, *joined, end], len(start), len(own) + 1)])

    for lang in LANGUAGES:
        print(folder.name, lang, by_embeddings(model, [v[:FIRST] for v in vectors[lang]], rebuilt), flush=True)
    return model, tokenizer, start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of spectrum_data.py")
    parser.add_argument("models", type=Path, help="folder of spectrum-nano; embeddings are kept in its cache")
    parser.add_argument("--rebuild", type=Path, help="measure only this checkpoint of the stage spectrum_prefix")
    args = parser.parse_args()
    data, models = args.data, args.models
    rows = {lang: load_documents(data / f"news_{lang}.jsonl") for lang in LANGUAGES}
    texts = rows["eng_Latn"]["sentences"]
    cache = str(models / "cache")
    vectors = {lang: split(DevDocuments(rows[lang], ENCODER, cache).embeddings(), texts) for lang in LANGUAGES}
    if args.rebuild:
        rebuild_report(args.rebuild, vectors, texts)
        return

    tower = SpectrumModel.from_pretrained(models / "1_tower", dtype=torch.float32)
    for candidates in ("others", "unread"):
        for lang in LANGUAGES:
            found = next_sentence_retrieval(
                vectors[lang], tower_predictions(tower, vectors[lang]), candidates=candidates
            )
            print("next sentence", candidates, lang, {name: round(value, 1) for name, value in found.items()})

    tokenizer = AutoTokenizer.from_pretrained(ENCODER)
    ids = [[sentence[:TOKENS] for sentence in tokenizer.text_ids(row)] for row in texts]
    model = SpectrumForCausalLM.from_pretrained(models / "2_sentences", dtype=torch.float32).eval()
    end = model.config.decoder.eos_token_id
    prompt = model.config.prompt_ids

    def next_sentences(own: torch.Tensor, i: int) -> PackedDocument:
        return PackedDocument(own, segments=sentence_segments(ids[i], prompt, end))

    for lang in LANGUAGES:
        print("2_sentences", lang, by_embeddings(model, vectors[lang], next_sentences), flush=True)

    model, tokenizer, start = rebuild_report(models / "3_prefix", vectors, texts)
    chosen = range(0, len(texts), 4)
    references, written = [" ".join(texts[i][:FIRST]) for i in chosen], []
    for i in chosen:
        document = model.encode_document(torch.from_numpy(vectors["eng_Latn"][i][:FIRST]))
        out = model.generate(document, torch.tensor([start]), max_new_tokens=200, do_sample=False)
        written.append(tokenizer.decode(out[0, len(start) :], skip_special_tokens=True))
    lengths = [len(texts[i][:FIRST]) for i in chosen]
    print(rebuild_bleu(written, references, lengths).to_markdown())
    print(written[0][:300])
    translator = load_translator(ENCODER)
    alone = [" ".join(translate(*translator, texts[i][:FIRST], "eng_Latn", "eng_Latn")) for i in chosen]
    print("echo-nano's decoder, sentence by sentence")
    print(rebuild_bleu(alone, references, lengths).to_markdown())


if __name__ == "__main__":
    main()
