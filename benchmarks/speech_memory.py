"""Peak memory of `hf-echo encode --audio --on-long split` on one long file, stereo at 48 kHz.

The file is noise with pauses, written to a temporary folder; the encoder has the shape of Whisper
base, random weights, in a release of 8 bits.

python benchmarks/speech_memory.py [--minutes 1 20 180] [--layers 6]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import soundfile

RATE = 48_000

# Whisper base, in the space of echo-nano
SHAPE = {
    "embedding_size": 384,
    "pooler_layers": 1,
    "pooler_heads": 8,
    "pooler_intermediate_size": 2048,
    "audio_config": {
        "model_type": "whisper",
        "d_model": 512,
        "encoder_layers": 6,
        "encoder_attention_heads": 8,
        "encoder_ffn_dim": 2048,
        "decoder_layers": 1,
        "decoder_ffn_dim": 32,
        "vocab_size": 51_865,
    },
}


def write_file(file: Path, minutes: int) -> None:
    """Four seconds of noise and half a second of near silence in turn."""
    rng = np.random.default_rng(0)
    loud = 0.1 * rng.normal(size=(4 * RATE, 2)).astype(np.float32)
    pause = 0.001 * rng.normal(size=(RATE // 2, 2)).astype(np.float32)
    with soundfile.SoundFile(file, "w", RATE, 2) as out:
        for _ in range(round(minutes * 60 / 4.5)):
            out.write(loud)
            out.write(pause)


def build(folder: Path) -> None:
    """In a process of its own: the peak of a child counts from that of its parent."""
    from hf_echo.hub.release import release_speech
    from hf_echo.modeling import EchoSpeechEncoder
    from hf_echo.stages.speech import new_config, new_extractor

    EchoSpeechEncoder(new_config(SHAPE)).save_pretrained(folder / "model")
    new_extractor(SHAPE).save_pretrained(folder / "model")
    release_speech(folder / "model", folder / "release", dtype="bf16", matrix_dtype="int8")


def encode_one(minutes: int, folder: Path) -> dict[str, float]:
    """Memory and seconds of `hf-echo encode --audio` on a file of so many minutes."""
    write_file(folder / "long.wav", minutes)
    encode = [sys.executable, "-m", "hf_echo.cli", "encode", "--on-long", "split"]
    files = ["--audio", folder / "long.wav", folder / "out.npy", "--model", folder / "release"]
    begun = time.monotonic()
    process = subprocess.Popen([*encode, *files])
    # The usage of this process alone.
    _, status, usage = os.wait4(process.pid, 0)
    return {
        "minutes": minutes,
        "MiB at most": round(usage.ru_maxrss / 1024),
        "CPU seconds": round(usage.ru_utime + usage.ru_stime),
        "seconds": round(time.monotonic() - begun),
        "status": status,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=int, nargs="+", default=[1, 20, 180])
    parser.add_argument(
        "--layers", type=int, default=6, help="of the encoder; with 1 it is mostly reading"
    )
    args = parser.parse_args()
    SHAPE["audio_config"]["encoder_layers"] = args.layers
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        builder = multiprocessing.Process(target=build, args=(folder,))
        builder.start()
        builder.join()
        for minutes in args.minutes:
            print(json.dumps(encode_one(minutes, folder)), flush=True)


if __name__ == "__main__":
    main()
