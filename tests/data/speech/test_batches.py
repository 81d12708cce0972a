"""Speech as a training set: OS Eq. 1, batches by seconds, augmentation that seed, epoch and row decide."""

from __future__ import annotations

import numpy as np
import pytest
from datasets import Dataset
from transformers.audio_utils import mel_filter_bank

from hf_echo.data.batching import TokenBudgetBatchSampler
from hf_echo.data.speech.batches import (
    EpochSampler,
    SpeechCollator,
    SpeechRows,
    audio_lengths,
    change_speed,
    characters_of,
    mask_features,
    sampled_rows,
    spoken_characters,
    warp_frequencies,
)
from hf_echo.modeling import EchoAudioFeatureExtractor

from ...speech_toy import RATE, WORD, speech

soundfile = pytest.importorskip("soundfile")


def test_two_step_sampling_is_eq_1():
    """Hours by (source, language) against the formula written out."""
    rng = np.random.default_rng(0)
    hours = {("a", "x"): 400, ("a", "y"): 100, ("b", "x"): 25, ("b", "z"): 900}
    rows = [name for name, n in hours.items() for _ in range(n)]
    order = rng.permutation(len(rows))
    data = Dataset.from_dict({"source": [rows[i][0] for i in order], "lang": [rows[i][1] for i in order]})
    lengths = np.full(len(rows), 16000) + 0 * order
    picked = sampled_rows(data, lengths, 0.5, seed=3)
    found = data.select(picked)
    total = sum(hours.values())
    of_source = {s: np.sqrt(sum(n for (source, _), n in hours.items() if source == s) / total) for s in "ab"}
    for source, lang in hours:
        within = {k: np.sqrt(m) for k, m in hours.items() if k[0] == source}
        want = of_source[source] / sum(of_source.values()) * within[source, lang] / sum(within.values())
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


def test_a_bad_file_is_named():
    rows = Dataset.from_dict({"audio": [{"path": "no.wav", "bytes": b"RIFF"}], "text": ["a"], "lang": ["eng_Latn"]})
    with pytest.raises(ValueError, match="not a readable wav"):
        audio_lengths(rows, RATE)


def batches(epochs: int, **options):
    rows = speech(30)
    data = SpeechRows(rows, RATE, audio_lengths(rows, RATE))
    sampler = EpochSampler(TokenBudgetBatchSampler(data.lengths, 4 * RATE, seed=1, bucket_multiple=1600), len(data))
    extractor = EchoAudioFeatureExtractor(features="log-mel", num_mel_bins=20, stride=4)
    collator = SpeechCollator(extractor, characters="abcdefgh", seed=2, **options)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        yield [collator([data[number] for number in batch]) for batch in sampler]


def by_row(epoch):
    return {
        int(i): (audio[: int(mask.sum())].numpy())
        for batch in epoch
        for i, audio, mask in zip(batch["index"], batch["input_features"], batch["attention_mask"])
    }


def test_an_epoch_has_every_row_within_the_seconds():
    for epoch in batches(2):
        assert sorted(i for batch in epoch for i in batch["index"].tolist()) == list(range(30))
        assert all(batch["attention_mask"].numel() * 4 * 160 <= 4 * RATE for batch in epoch)
        assert len(epoch) < 15


def test_augmentation_is_decided_by_seed_epoch_and_row():
    options = dict(speeds=[0.9, 1.1], time_masks=2, frequency_masks=2, vocal_tract=0.1)
    first, second = (by_row(epoch) for epoch in batches(2, **options))
    again, _ = (by_row(epoch) for epoch in batches(2, **options))
    plain = by_row(next(batches(1)))
    assert all(np.array_equal(first[i], again[i]) for i in first)
    assert sum(first[i].shape == second[i].shape and np.array_equal(first[i], second[i]) for i in first) < 5
    ratio = [len(plain[i]) / len(first[i]) for i in plain]
    assert min(ratio) < 0.95 and max(ratio) > 1.05


def test_labels_are_the_characters():
    batch = next(batches(1))[0]
    texts, head = speech(30)["text"], "abcdefgh"
    for i, row, n in zip(batch["index"], batch["labels"], batch["label_lengths"]):
        want = [head.index(c) + 1 for c in texts[int(i)] if c != " "]  # the head knows no space
        assert row[:n].tolist() == want
    collator = SpeechCollator(EchoAudioFeatureExtractor(), characters="ab ")
    assert collator.labels(["?!", "a B"])["labels"].tolist() == [[0, 0, 0], [1, 3, 2]]


def test_spoken_characters():
    assert spoken_characters("  Ça va?\tNON — l'été №2!") == "ça va non l'été no2"
    assert characters_of(["ba", "b!"]) == "ab" and characters_of(["ba", "b"], most=1) == "b"


def test_speed_changes_length_and_pitch():
    pytest.importorskip("soxr")
    tone = np.sin(2 * np.pi * 400 * np.arange(RATE) / RATE).astype(np.float32)
    fast = change_speed(tone, 1.25)
    assert len(fast) == pytest.approx(RATE / 1.25, abs=2)
    assert np.abs(np.fft.rfft(fast)).argmax() * RATE / len(fast) == pytest.approx(500, abs=2)
    assert change_speed(tone, 1) is tone


def tone_frames(hertz: float, bins: int) -> np.ndarray:
    """(1, bins) what the mel filters of transformers give for a tone."""
    width = RATE / 2 / 4000
    filters = mel_filter_bank(4001, bins, 20, RATE / 2, RATE, mel_scale="kaldi", triangularize_in_mel_space=True)
    return np.log(filters[round(hertz / width)][None] + 1e-3).astype(np.float32)


@pytest.mark.parametrize("factor", [0.8, 0.9, 1.1, 1.2])
@pytest.mark.parametrize("hertz", [200, 500, 1000, 2000, 3500])
def test_a_warp_moves_a_tone_by_its_factor(hertz, factor):
    warped = warp_frequencies(tone_frames(hertz, 80), factor, 80, RATE)
    assert abs(int(warped.argmax()) - int(tone_frames(hertz * factor, 80).argmax())) <= 1


def test_a_warp_keeps_joined_frames_apart_and_the_ends():
    frames = np.random.default_rng(0).normal(size=(6, 80)).astype(np.float32)
    joined = warp_frequencies(frames.reshape(3, 160), 1.15, 80, RATE)
    np.testing.assert_array_equal(joined.reshape(6, 80), warp_frequencies(frames, 1.15, 80, RATE))
    np.testing.assert_allclose(warp_frequencies(frames, 1.0, 80, RATE), frames, atol=1e-5)


def test_masks_are_spans_of_real_frames_and_bands_of_all_frames():
    options = dict(time_masks=3, frequency_masks=0, bins=20)
    for seed in range(20):
        features = np.ones((60, 80), np.float32)
        mask_features(features, 40, np.random.default_rng(seed), **options)
        rows = (features == 0).all(1)
        assert ((features == 0).any(1) == rows).all() and not rows[40:].any() and rows.sum() <= 3 * 4
        features = np.ones((60, 80), np.float32)
        mask_features(features, 40, np.random.default_rng(seed), time_masks=0, frequency_masks=1, bins=20)
        masked = (features == 0).all(0).reshape(4, 20)
        assert (masked == masked[0]).all() and masked[0].sum() <= 6
        assert (np.diff(np.flatnonzero(masked[0])) == 1).all()
