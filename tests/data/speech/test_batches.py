"""Speech as a training set: OS Eq. 1, batches by seconds, augmentation that seed,
epoch and row decide."""

import numpy as np
import pytest
from datasets import Dataset

from hf_echo.data.batching import TokenBudgetBatchSampler
from hf_echo.data.speech.batches import SpeechCollator, SpeechRows, audio_lengths, sampled_rows
from hf_echo.modeling import EchoAudioFeatureExtractor

from ...speech_toy import RATE, WORD, speech

soundfile = pytest.importorskip("soundfile")


HOURS = {("a", "x"): 400, ("a", "y"): 100, ("b", "x"): 25, ("b", "z"): 900}


@pytest.fixture
def hourly_clips():
    """A row an hour, in any order, and the (source, language) of each."""
    groups = np.repeat(np.array(list(HOURS)), list(HOURS.values()), axis=0)
    groups = np.random.default_rng(0).permutation(groups)
    data = Dataset.from_dict({"source": groups[:, 0], "lang": groups[:, 1]})
    return data, groups


@pytest.mark.parametrize("source, lang", HOURS)
def test_two_step_sampling_is_eq_1(hourly_clips, source, lang):
    """OS Eq. 1 with exponent 0.5 over sources and within each; rows are repeated as a whole."""
    data, groups = hourly_clips
    lengths = np.full(len(data), 16_000)

    rows = sampled_rows(data, lengths, 0.5, seed=3)

    root_of_source = {"a": np.sqrt(500), "b": np.sqrt(925)}
    roots_within = [np.sqrt(hours) for (name, _), hours in HOURS.items() if name == source]
    source_share = root_of_source[source] / sum(root_of_source.values())
    expected = source_share * np.sqrt(HOURS[source, lang]) / sum(roots_within)
    is_in_group = (groups == [source, lang]).all(axis=1)
    assert is_in_group[rows].mean() == pytest.approx(expected, abs=0.002)
    copies = np.bincount(rows, minlength=len(data))[is_in_group]
    assert np.ptp(copies) <= 1


def test_sampled_rows_follow_from_the_seed(hourly_clips):
    data, _ = hourly_clips
    lengths = np.full(len(data), 16_000)
    rows = sampled_rows(data, lengths, 0.5, seed=3)

    again = sampled_rows(data, lengths, 0.5, seed=3)

    np.testing.assert_array_equal(again, rows)


def test_lengths_are_those_of_the_audio():
    rows = speech(12)

    lengths = audio_lengths(rows, RATE)

    # The toy speaker takes equally long for each word.
    words = [len(text.split()) for text in rows["text"]]
    np.testing.assert_array_equal(lengths, WORD * np.array(words))


def test_lengths_at_half_the_rate_are_half_as_large():
    rows = speech(12)

    lengths = audio_lengths(rows, RATE // 2)

    np.testing.assert_array_equal(lengths, audio_lengths(rows, RATE) // 2)


def test_lengths_are_read_once(tmp_path):
    """A mark in the cache comes back."""
    rows = speech(12)
    lengths = audio_lengths(rows, RATE, tmp_path)
    (cache,) = tmp_path.glob("*.npy")
    np.save(cache, lengths + 1)

    again = audio_lengths(rows, RATE, tmp_path)

    np.testing.assert_array_equal(again, lengths + 1)


@pytest.mark.parametrize("number", [0, 1])
def test_an_epoch_has_every_row_within_the_seconds(number):
    """Batches of at most four seconds with their padding:
    a feature is of 4 frames of 160 samples."""
    rows = speech(30)
    data = SpeechRows(rows, RATE, audio_lengths(rows, RATE))
    sampler = TokenBudgetBatchSampler(data.lengths, 4 * RATE, seed=1, bucket_multiple=1600)
    extractor = EchoAudioFeatureExtractor(features="log-mel", num_mel_bins=20, stride=4)
    collator = SpeechCollator(extractor)
    sampler.set_epoch(number)

    batches = [collator([data[row] for row in batch]) for batch in sampler]

    order = np.concatenate([batch["index"] for batch in batches])
    assert sorted(order) == list(range(30))
    for batch in batches:
        assert batch["attention_mask"].numel() * 4 * 160 <= 4 * RATE
    assert len(batches) < 15
