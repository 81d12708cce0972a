"""Measure Spectrum on the multiple choice of OS 9.1 (Figure 9, Tables 21 and 22): accuracy by
language.

    python train_scripts/studies/spectrum_choices.py MODEL belebele --lang fra_Latn --lang swh_Latn
    python train_scripts/studies/spectrum_choices.py MODEL taxi1500 --path Taxi1500
    python train_scripts/studies/spectrum_choices.py MODEL speech_belebele --path 2M --english-path belebele

Sets: belebele, speech_belebele, hellaswag, spoken_story_cloze, sib200, taxi1500. XHellaSwag and
Spoken StoryCloze are measured after prefix training in the paper (3_prefix), the others after
fine-tuning (4_tasks). Passages are cut into sentences by rules, topics are not.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from study_parts import command_line
from transformers import AutoModelForCausalLM, AutoTokenizer

import hf_echo
from hf_echo.data.segmentation import rule_segmenter
from hf_echo.evaluation.benchmarks.choices import load_choices
from hf_echo.evaluation.spectrum import Choice, choice_accuracy
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.inference.encode_speech import encode_speech, load_speech_encoder
from hf_echo.stages.spectrum.prompts import SYSTEMS, Prompt, written_prompt

SPEECH = ("speech_belebele", "spoken_story_cloze")


def decoder_ids(ids: Sequence[int], tokenizer: Any, size: int) -> list[int]:
    """Ids beyond the decoder's vocabulary of `size` are read as in training: as the separator."""
    return [number if number < size else tokenizer.sep_token_id for number in ids]


def prompted(choice: Choice, tokenizer: Any, size: int) -> Choice:
    """The choice with the ids of its prompt as in fine-tuning:
    system prompt and chat template (Figure 7)."""
    if not choice.prompt:
        return choice
    ids = written_prompt(Prompt(SYSTEMS[0], str(choice.prompt), "", []), tokenizer)
    return replace(choice, prompt=decoder_ids(ids, tokenizer, size))


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("model", type=Path, help="folder of a Spectrum")
    parser.add_argument("set")
    parser.add_argument("--path", type=Path, help="local copy of the set; default: the Hub")
    parser.add_argument(
        "--english-path", type=Path, help="local copy of Belebele, for the questions of its speech"
    )
    parser.add_argument("--lang", action="append", help="repeatable; default: all")
    parser.add_argument("--split")
    parser.add_argument(
        "--as-text", action="store_true", help="the texts of the speech (the paper's T -> T)"
    )
    parser.add_argument(
        "--fleurs-train",
        type=Path,
        help="sentences of FLEURS' training split, one a line: left out",
    )
    parser.add_argument("--encoder", default=hf_echo.pretrained("echo-nano"))
    parser.add_argument("--speech", default=hf_echo.pretrained("echo-nano-speech"))
    args = parser.parse_args()
    heard = args.fleurs_train.read_text(encoding="utf-8").splitlines() if args.fleurs_train else ()
    choices = load_choices(
        args.set,
        langs=args.lang,
        split=args.split,
        path=args.path,
        english_path=args.english_path,
        cut=rule_segmenter,
        as_text=args.as_text,
        exclude=heard,
    )
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    choices = [prompted(choice, tokenizer, model.config.decoder.vocab_size) for choice in choices]
    encode = any_encoder(args.encoder)
    if args.set in SPEECH and not args.as_text:
        speech_model, extractor = load_speech_encoder(args.speech)

        def encode(clips: Sequence[Any], lang: str | None) -> np.ndarray:
            return encode_speech(speech_model, extractor, clips, on_long="split")

    print(choice_accuracy(model, tokenizer, encode, choices).to_markdown())


if __name__ == "__main__":
    main()
