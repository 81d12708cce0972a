"""Peak memory of encoding one long file, stereo at 48 kHz, cut at pauses: one process for each length.

The file is noise with pauses, written to a temporary folder; the encoder has the shape of Whisper base, random weights.

python benchmarks/speech_memory.py [--minutes 1 20 180]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import soundfile
import torch

from hf_echo.inference.encode_speech import encode_speech
from hf_echo.modeling import EchoSpeechEncoder
from hf_echo.stages.speech_rows import new_config, new_extractor

RATE = 48_000

# Whisper base, in the space of echo-nano
SHAPE = {
    "embedding_size": 384,
    "pooler_layers": 1,
    "audio_config": {
        **{"model_type": "whisper", "d_model": 512, "encoder_layers": 6, "encoder_attention_heads": 8},
        **{"encoder_ffn_dim": 2048, "decoder_layers": 1, "decoder_ffn_dim": 32, "vocab_size": 51_865},
    },
}


def write_file(file: Path, minutes: int) -> None:
    """Four seconds of noise and half a second of near silence in turn."""
    rng = np.random.default_rng(0)
    loud, pause = (rng.normal(size=(int(s * RATE), 2)).astype(np.float32) * v for s, v in ((4, 0.1), (0.5, 0.001)))
    with soundfile.SoundFile(file, "w", RATE, 2) as out:
        for _ in range(round(minutes * 60 / 4.5)):
            out.write(loud)
            out.write(pause)


def encode_one(minutes: int) -> dict[str, float]:
    model, extractor = EchoSpeechEncoder(new_config(SHAPE)).to(torch.bfloat16).eval(), new_extractor(SHAPE)
    with tempfile.TemporaryDirectory() as folder:
        write_file(Path(folder, "long.wav"), minutes)
        before, start = peak(), time.process_time()
        encode_speech(model, extractor, [str(Path(folder, "long.wav"))], on_long="split")
        seconds = time.process_time() - start
    return {"minutes": minutes, "MiB before": before, "MiB at most": peak(), "CPU seconds": round(seconds, 1)}


def peak() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=int, nargs="+", default=[1, 20, 180])
    args = parser.parse_args()
    if len(args.minutes) == 1:
        print(json.dumps(encode_one(args.minutes[0])))
        return
    for minutes in args.minutes:  # the peak of a process never falls
        subprocess.run([sys.executable, __file__, "--minutes", str(minutes)], check=True)


if __name__ == "__main__":
    main()
