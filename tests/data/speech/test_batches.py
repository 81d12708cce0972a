"""Speech as a training set: OS Eq. 1, batches by seconds, augmentation that seed, epoch and row decide."""

import numpy as np
import pytest
from datasets import Dataset

from hf_echo.data.batching import TokenBudgetBatchSampler
from hf_echo.data.speech.batches import SpeechCollator, SpeechRows, audio_lengths, sampled_rows
from hf_echo.modeling import EchoAudioFeatureExtractor

from ...speech_toy import RATE, WORD, speech

soundfile = pytest.importorskip("soundfile")


def test_two_step_sampling_is_eq_1():
    """Hours by (source, language) against the formula written out."""
    rng = np.random.default_rng(0)
    hours = {("a", "x"): 400, ("a", "y"): 100, ("b", "x"): 25, ("b", "z"): 900}
    rows = [name for name, n in hours.items() for _ in range(n)]
    order = rng.permutation(len(rows))
    data = Dataset.from_dict(
        {"source": [rows[i][0] for i in order], "lang": [rows[i][1] for i in order]}
    )
    lengths = np.full(len(rows), 16000) + 0 * order
    picked = sampled_rows(data, lengths, 0.5, seed=3)
    found = data.select(picked)
    total = sum(hours.values())
    of_source = {
        s: np.sqrt(sum(n for (source, _), n in hours.items() if source == s) / total) for s in "ab"
    }
    for source, lang in hours:
        within = {k: np.sqrt(m) for k, m in hours.items() if k[0] == source}
        want = (
            of_source[source]
            / sum(of_source.values())
            * within[source, lang]
            / sum(within.values())
        )
        have = np.mean([a == source and b == lang for a, b in zip(found["source"], found["lang"])])
        assert have == pytest.approx(want, abs=0.002)
        copies = np.bincount(picked)[[i for i, j in enumerate(order) if rows[j] == (source, lang)]]
        assert copies.max() - copies.min() <= 1  # repeated as a whole
    assert (sampled_rows(data, lengths, 0.5, seed=3) == picked).all()


def test_lengths_are_those_of_the_audio(tmp_path):
    rows = speech(12)
    lengths = audio_lengths(rows, RATE, tmp_path)
    assert lengths.tolist() == [WORD * len(text.split()) for text in rows["text"]]
    (kept,) = tmp_path.glob("*.npy")
    np.save(kept, lengths + 1)
    assert (audio_lengths(rows, RATE, tmp_path) == lengths + 1).all()  # read once
    assert audio_lengths(rows, RATE // 2).tolist() == (lengths // 2).tolist()


def test_an_epoch_has_every_row_within_the_seconds():
    rows = speech(30)
    data = SpeechRows(rows, RATE, audio_lengths(rows, RATE))
    sampler = TokenBudgetBatchSampler(data.lengths, 4 * RATE, seed=1, bucket_multiple=1600)
    collator = SpeechCollator(
        EchoAudioFeatureExtractor(features="log-mel", num_mel_bins=20, stride=4)
    )
    for number in range(2):
        sampler.set_epoch(number)
        epoch = [collator([data[row] for row in batch]) for batch in sampler]
        assert sorted(i for batch in epoch for i in batch["index"].tolist()) == list(range(30))
        assert all(batch["attention_mask"].numel() * 4 * 160 <= 4 * RATE for batch in epoch)
        assert len(epoch) < 15
