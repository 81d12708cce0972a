"""The cascade that a speech encoder is compared with: Whisper transcribes, echo-nano embeds the transcript.

    pip install 'hf-echo[speech,cascade]'
    python train_scripts/studies/whisper_cascade.py base outputs/speech/real/prompts.tsv outputs/speech/test_espeak

The first argument is a model of faster-whisper, by name or folder. Whisper gets the language of each recording, which a
speech encoder does not, and decodes greedily in float32. Prints the columns of `hf-echo evaluate speech` and the speed.
"""

from __future__ import annotations

import argparse
import time

from faster_whisper import WhisperModel
from tqdm import tqdm

from hf_echo import pretrained
from hf_echo.data import load_speech
from hf_echo.data.speech import read_audio
from hf_echo.evaluation import evaluate_speech
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.language_table import ISO_639_1

RATE = 16_000
OF_WHISPER = {code: short for short, code in ISO_639_1.items()}  # swh_Latn: sw


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("whisper", help="model of faster-whisper: a name, or a folder with model.bin")
    parser.add_argument("data", nargs="+", help="speech that load_speech reads")
    args = parser.parse_args()
    whisper = WhisperModel(args.whisper, device="cpu", compute_type="float32", cpu_threads=1)
    encode = any_encoder(str(pretrained("echo-nano")))
    for data in args.data:
        rows = load_speech(data)
        start, seconds, texts = time.process_time(), 0.0, []
        for row in tqdm(rows, desc=data):
            samples = read_audio(row["audio"], RATE)
            seconds += len(samples) / RATE
            found, _ = whisper.transcribe(samples, language=OF_WHISPER[row["lang"]], beam_size=1, temperature=0.0)
            texts.append(" ".join(segment.text.strip() for segment in found) or "-")
        spent = time.process_time() - start
        report = evaluate_speech(rows, encode(texts), encode)
        for line in report.languages.rows:
            print(data, line)
        print(f"{data}: {seconds / spent:.1f} seconds of audio per CPU second of transcription")


if __name__ == "__main__":
    main()
