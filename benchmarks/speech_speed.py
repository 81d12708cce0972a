"""Seconds of audio that a speech encoder embeds per second: `encode_speech` against transformers'
plain padded path.

The plain path reads the recordings in the given order, in batches of equal numbers of rows, and
pads each batch to its longest. Both paths decode nothing (arrays), use the same weights, and take
turns. Lengths are log-normal: half are under 4 s, a few are 25 s.

python benchmarks/speech_speed.py [--model FOLDER] [--rows 128] [--rounds 3] [--dtype fp32]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from hf_echo.inference.encode import pick_dtype
from hf_echo.inference.encode_speech import (
    MAX_SECONDS,
    encode_speech,
    load_speech_encoder,
    seconds_batches,
)
from hf_echo.modeling import EchoSpeechEncoder
from hf_echo.stages.speech import new_config, new_extractor
from hf_echo.utils.vectors import unit_length

RATE = 16_000

# a small conformer on log-mel frames of 40 ms, in the space of echo-nano
SHAPE = {
    "features": "log-mel",
    "num_mel_bins": 80,
    "stride": 4,
    "embedding_size": 384,
    "pooler_layers": 2,
    "pooler_heads": 4,
    "pooler_intermediate_size": 1024,
    "pooler_dropout": 0.1,
    "audio_config": {
        "model_type": "wav2vec2-bert",
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_hidden_layers": 6,
        "num_attention_heads": 4,
        "position_embeddings_type": "rotary",
        "conv_depthwise_kernel_size": 15,
        "apply_spec_augment": False,
    },
}


def clock() -> float:
    """CPU time with one thread, because machines are shared; wall time with more."""
    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


def recordings(rows: int) -> list[np.ndarray]:
    """Noise of 1 to 25 seconds, in lengths as spoken sentences have them."""
    rng = np.random.default_rng(0)
    audio = []
    for seconds in np.clip(rng.lognormal(1.4, 0.7, size=rows), 1, 25):
        noise = rng.normal(scale=0.1, size=int(seconds * RATE))
        audio.append(noise.astype(np.float32))
    return audio


def padding(batches: Sequence[Sequence[int]], lengths: list[int]) -> float:
    """Share of padding in what the model reads: the most that packing could save."""
    padded = 0
    for batch in batches:
        longest = max(lengths[row] for row in batch)
        padded += longest * len(batch)
    return round(1 - sum(lengths) / padded, 3)


@torch.inference_mode()
def plain(
    model: EchoSpeechEncoder, extractor: Any, audio: list[np.ndarray], batch: int
) -> np.ndarray:
    """Embeddings of padded batches in the order of the recordings, as transformers alone would do
    it."""
    vectors = []
    for start in range(0, len(audio), batch):
        inputs = extractor(audio[start : start + batch], return_tensors="pt")
        vectors.append(model(**inputs).sentence_embedding.float().numpy())
    return np.concatenate(vectors)


def opened(name: str | None, dtype: str) -> tuple[EchoSpeechEncoder, Any]:
    if name:
        return load_speech_encoder(name, device="cpu", dtype=dtype)
    torch.manual_seed(0)
    model = EchoSpeechEncoder(new_config(SHAPE)).to(pick_dtype(dtype, "cpu")).eval()
    return model, new_extractor(SHAPE)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", help="speech encoder; default: a small conformer, random weights"
    )
    parser.add_argument("--rows", type=int, default=128)
    parser.add_argument("--batch", type=int, default=16, help="rows of a batch of the plain path")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dtype", default="auto", help="of encode_speech; the plain path is fp32")
    args = parser.parse_args()
    audio = recordings(args.rows)
    lengths = [len(samples) for samples in audio]
    total = sum(lengths) / RATE
    slow, extractor = opened(args.model, "fp32")
    fast, _ = opened(args.model, args.dtype)
    plain_seconds = []
    our_seconds = []
    for _ in range(args.rounds):
        start = clock()
        reference = plain(slow, extractor, audio, args.batch)
        plain_seconds.append(clock() - start)
        start = clock()
        vectors = encode_speech(fast, extractor, audio)
        our_seconds.append(clock() - start)
    plain_speed = total / statistics.median(plain_seconds)
    our_speed = total / statistics.median(our_seconds)
    cosines = (unit_length(reference) * unit_length(vectors)).sum(1)
    # The rows that each path puts into one batch.
    in_order = [rows.tolist() for rows in torch.arange(args.rows).split(args.batch)]
    by_seconds = seconds_batches(lengths, round(MAX_SECONDS["cpu"] * RATE))
    report = {
        "padding": {
            "plain": padding(in_order, lengths),
            "encode_speech": padding(by_seconds, lengths),
        },
        "rows": args.rows,
        "seconds of audio": round(total, 1),
        "dtype": str(fast.dtype),
        "threads": torch.get_num_threads(),
        "audio seconds per second": {
            "plain": round(plain_speed, 1),
            "encode_speech": round(our_speed, 1),
        },
        "times": round(our_speed / plain_speed, 2),
        "lowest cosine": round(float(cosines.min()), 5),
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
