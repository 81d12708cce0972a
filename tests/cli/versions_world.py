"""What the tests of versions read: small checkpoints and datasets by seed, and files in a working directory."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Wav2Vec2BertConfig, Wav2Vec2BertModel, WhisperModel

from hf_echo.checkpoints import convert_sonar
from hf_echo.modeling import BlaserConfig, BlaserModel, EchoAudioFeatureExtractor, EchoEncoder, EchoSpeechEncoder
from hf_echo.stages.speech_rows import new_config

from .. import sonar_toy, speech_toy, toy, whisper_toy

SMALL = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4)
LINES = [toy.say(meaning, "fra_Latn") for meaning in toy.MEANINGS[::9]]
TAGS = ("B-N", "O", "B-A", "B-V")
ENGLISH = [toy.say(meaning, "eng_Latn") for meaning in toy.MEANINGS[::9]]


def echo(folder: Path, seed: int, words: int = 400, **changes) -> None:
    tokenizer = toy.make_tokenizer() if words == 400 else smaller_tokenizer(words)
    model = toy.make_model(tokenizer, seed=seed, **changes)
    with torch.no_grad():
        for weight in model.parameters():  # or every embedding would be much the same, and every translation empty
            weight.add_(torch.randn_like(weight) * 0.15)
    model.save_release(folder)
    tokenizer.save_pretrained(folder)


def smaller_tokenizer(words: int):
    from hf_echo.vocabulary import train_tokenizer

    return train_tokenizer([*LINES, *ENGLISH] * 9, words, max_length=64, progress=False)


def xlmr(folder: Path, seed: int) -> None:
    tokenizer = toy.plain_tokenizer(template="<s> $A </s>" if seed == 1 else "<s> $A")
    toy.plain_encoder(tokenizer, seed=seed).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def llama(folder: Path, seed: int) -> None:
    from ..checkpoints.test_from_llama import byte_level_tokenizer

    tokenizer = byte_level_tokenizer(bos_token="<s>", eos_token="</s>")
    torch.manual_seed(seed)
    shape = SMALL | {"max_position_embeddings": 2048, "bos_token_id": 0, "eos_token_id": 1, "initializer_range": 0.5}
    LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **shape)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def sonar(folder: Path, seed: int) -> None:
    pieces = sonar_toy.train_sentencepiece(folder.parent)
    weights = sonar_toy.weights(len(sonar_toy.Ids(pieces)), "encoder", seed=seed)
    file = sonar_toy.write_fairseq2(weights, folder.with_suffix(".pt"))
    convert_sonar(file, folder, tokenizer=pieces)
    EchoEncoder.from_pretrained(folder).backbone.save_pretrained(folder)
    if seed == 2:  # another tokenizer of the same size
        text = (folder / "tokenizer.json").read_text(encoding="utf-8")
        (folder / "tokenizer.json").write_text(text.replace("zul_Latn", "zuu_Latn"), encoding="utf-8")


def audio(folder: Path, seed: int) -> None:
    torch.manual_seed(seed)
    Wav2Vec2BertModel(Wav2Vec2BertConfig(**SMALL)).save_pretrained(folder)


def whisper(folder: Path, seed: int) -> None:
    torch.manual_seed(seed)
    WhisperModel(whisper_toy.config()).save_pretrained(folder)


def speech(folder: Path, seed: int) -> None:
    torch.manual_seed(seed)
    EchoSpeechEncoder(new_config(speech_toy.SHAPE | {"embedding_size": 32})).save_pretrained(folder)
    EchoAudioFeatureExtractor(features="log-mel", num_mel_bins=20, stride=4).save_pretrained(folder)


def blaser(folder: Path, seed: int) -> None:
    torch.manual_seed(seed)
    BlaserModel(BlaserConfig(kind="qe", embedding_size=32, hidden_sizes=[8, 4])).save_pretrained(folder)


def pairs(folder: Path, seed: int) -> None:
    (folder / "data").mkdir(parents=True)
    rows = [row | {"hard_negatives": None} for row in toy.parallel_rows()[seed::5]]
    pq.write_table(pa.Table.from_pylist(rows).drop_columns("hard_negatives"), folder / "data" / "train-0.parquet")


def spoken(folder: Path, seed: int) -> None:
    (folder / "data").mkdir(parents=True)
    speech_toy.speech(48, seed=seed).to_parquet(folder / "data" / "train-0.parquet")


MAKE = {
    "echo": echo,
    "echo-380": lambda folder, seed: echo(folder, seed, 380 + 10 * seed, num_hidden_layers=seed),
    "llama": llama,
    "xlmr": xlmr,
    "sonar": sonar,
    "audio": audio,
    "whisper": whisper,
    "speech": speech,
    "blaser": blaser,
    "pairs": pairs,
    "spoken": spoken,
}


def write_data(place: Path) -> None:
    from hf_echo.vocabulary.counts import count_words

    soundfile = pytest.importorskip("soundfile")
    (place / "fr.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    (place / "en.txt").write_text("\n".join(ENGLISH) + "\n", encoding="utf-8")
    rows = ["source\tsource_lang\ttarget\ttarget_lang"]
    rows += [f"{fr}\tfra_Latn\t{en}\teng_Latn" for fr, en in zip(LINES, ENGLISH)]
    (place / "pairs.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    write_jsonl(place / "nway.jsonl", [row | {"id": str(row["id"])} for row in toy.nway_rows()])
    aligned = [
        {"src_tokens": fr.split(), "tgt_tokens": en.split(), "alignment": "0-0 1-1 2-2 3-3"}
        | {"src_lang": "fra_Latn", "tgt_lang": "eng_Latn"}
        for fr, en in zip(LINES, ENGLISH)
    ]
    write_jsonl(place / "alignment.jsonl", aligned)
    tags = [
        {"tokens": en.split(), "tags": [TAGS[number * 7 % 4]] * 4, "lang": "eng_Latn"}
        for number, en in enumerate(ENGLISH)
    ]
    write_jsonl(place / "tags.jsonl", tags)
    wic = [
        {"sentence1": a, "start1": 0, "end1": 3, "sentence2": b, "start2": 0, "end2": 3, "label": number % 2 == 0}
        | {"lang": "eng_Latn"}
        for number, (a, b) in enumerate(zip(ENGLISH, ENGLISH[1:]))
    ]
    write_jsonl(place / "wic.jsonl", wic)
    soundfile.write(place / "say.flac", speech_toy.say("a b c"), speech_toy.RATE)
    (place / "audio.tsv").write_text("audio\nsay.flac\n")
    count_words([place / "nway.jsonl"], place / "counts.parquet")
    recipe = {"stage": "contrastive", "train_data": "pairs.tsv", "max_steps": 1, "max_tokens": 2048, "use_cpu": True}
    recipe |= {"report_to": "none", "save_strategy": "no", "shape": toy.SHAPE, "warmup_steps": 0, "learning_rate": 0.1}
    (place / "train.yaml").write_text(json.dumps(recipe))
    for name, source in {"folder": "pairs", "v1": "tester/pairs@v1.0.0", "v2": "tester/pairs@v2.0.0"}.items():
        (place / f"{name}.yaml").write_text(f"sources: [{{path: {source}, label: pairs}}]\n")


def write_jsonl(file: Path, rows: list[dict]) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
