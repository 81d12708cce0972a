"""A toy spoken language: a word is a tone of a frequency of its own,
so a small encoder learns it within seconds."""

import io

import numpy as np
from datasets import Audio, Dataset, Features, Value

RATE = 16_000
WORDS = "abcdefgh"
WORD = 1_920  # samples: 120 ms
AUDIO = dict(
    model_type="wav2vec2-bert", position_embeddings_type="rotary", apply_spec_augment=False
)
AUDIO |= dict(hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2)
SHAPE = dict(features="log-mel", num_mel_bins=20, stride=4, audio_config=AUDIO)
SHAPE |= dict(pooler_layers=1, pooler_heads=2, pooler_intermediate_size=64, pooler_dropout=0.0)


def say(text: str, pitch: float = 1.0, seed: int = 0) -> np.ndarray:
    """A text as tones: each word is a sine wave of its own frequency."""
    time = np.arange(WORD) / RATE
    words = [
        np.sin(2 * np.pi * pitch * 300 * 1.35 ** WORDS.index(word) * time) for word in text.split()
    ]
    noise = np.random.default_rng(seed).normal(size=WORD * len(words))
    return (0.3 * np.concatenate(words) + 0.003 * noise).astype(np.float32)


def speech(rows: int = 120, seed: int = 0, *, english: bool = True) -> Dataset:
    """Two languages (the second at a higher pitch), texts of two to five words,
    from two sources."""
    import soundfile

    rng = np.random.default_rng(seed)
    table = []
    # A third is French, spoken a little higher.
    for number in range(rows):
        is_french = number % 3 == 0
        text = " ".join(rng.choice(list(WORDS), size=rng.integers(2, 6)))
        samples = say(text, 1.08 if is_french else 1.0, seed + number)
        file = io.BytesIO()
        soundfile.write(file, samples, RATE, format="WAV")
        row = {
            "audio": {"path": f"{number}.wav", "bytes": file.getvalue()},
            "text": text,
            "lang": "fra_Latn" if is_french else "eng_Latn",
            "source": "one" if number % 4 else "two",
        }
        if english:  # French has its text in English too, English has None
            row["english"] = text if is_french else None
        table.append(row)
    texts = {name: Value("string") for name in table[0] if name != "audio"}
    stored = Features({"audio": {"path": Value("string"), "bytes": Value("binary")}} | texts)
    return Dataset.from_list(table, features=stored).cast_column("audio", Audio(decode=False))


def save_random_encoder(folder, embedding_size: int = 384, seed: int = 0, **config):
    """A tiny speech encoder with random weights in a folder;
    384 is the size of echo-nano's space."""
    import torch

    from hf_echo.modeling import EchoSpeechEncoder
    from hf_echo.stages.speech import new_config, new_extractor

    torch.manual_seed(seed)
    model = EchoSpeechEncoder(new_config(SHAPE | {"embedding_size": embedding_size}))
    model.config.update(config)
    model.save_pretrained(folder)
    new_extractor(SHAPE).save_pretrained(folder)
    return folder
