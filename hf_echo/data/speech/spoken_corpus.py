"""Speak sentences with speech engines such as espeak-ng: a speech corpus of Parquet files that
`load_speech` reads.

    hf-echo data speak sentences.tsv spoken --engine espeak-ng --engine flite --copies 2

Each clip has its own random numbers, from the seed, its language, text and copy. So a clip is the
same in every corpus with these settings, in whatever order it is made, and an interrupted run
resumes to the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from tqdm.auto import tqdm

from ...utils.bars import hidden
from ...utils.files import make_once, short_hash
from .readers import features
from .speech_engines import Engine
from .spoken_sentences import Effects, Sentence, apply_effects, seeded_number

logger = logging.getLogger(__name__)

SHARD = 256  # clips of a file
SETTINGS = "settings.yaml"
# in the metadata of a shard: the reasons of clips that an engine could not speak
FAILED = b"failed"
MOST_FAILED = 0.5  # share of failed clips of a shard that ends the run


@dataclass(frozen=True)
class SpeechPlan:
    """How sentences are spoken.

    Args:
        copies: clips of each sentence, each with another voice drawn from all voices of its
            language.
        speed, pitch: ranges relative to the voice's own, drawn log-uniformly.
        effects: probabilities of room, noise and narrow band.
        measure: speak with the voices that are kept for measuring, and no others. Training refuses
            such a corpus.
        voices: only these, as ENGINE:VOICE; otherwise all.
    """

    copies: int = 1
    speed: tuple[float, float] = (0.8, 1.25)
    pitch: tuple[float, float] = (0.85, 1.2)
    effects: Effects = field(default_factory=Effects)
    seed: int = 0
    sampling_rate: int = 16_000
    measure: bool = False
    voices: tuple[str, ...] = ()

    def __post_init__(self):
        for name in ("speed", "pitch"):
            low, high = getattr(self, name)
            if not 0.3 <= low <= high <= 3:
                raise ValueError(
                    f"{name} is {low:g} to {high:g}; give two factors between 0.3 and 3, the lower first"
                )


class Clip(NamedTuple):
    sentence: Sentence
    engine: str
    voice: str
    speed: float
    pitch: float
    seed: int


def speech_plan(
    sentences: Sequence[Sentence], engines: Sequence[Engine], plan: SpeechPlan
) -> list[Clip]:
    """The clips of all sentences: first an engine that speaks the language, then one of its voices,
    equally likely.

    Raises:
        ValueError: a language that no engine speaks; a voice that no engine has, or that is kept
            for measuring.
    """
    pools = _pools(engines, plan)
    clips = []
    for sentence in sentences:
        speakers = [
            (engine, voices[sentence.lang])
            for engine, voices in pools.items()
            if sentence.lang in voices
        ]
        if not speakers:
            kind = "voice kept for measuring" if plan.measure else "voice"
            names = ", ".join(engine.name for engine in engines)
            raise ValueError(
                f"no {kind} speaks {sentence.lang} ({names}); leave the language out, or install an engine"
            )
        # The numbers depend on the sentence alone: a clip is the same in every corpus.
        for copy in range(plan.copies):
            rng = np.random.default_rng(
                seeded_number(plan.seed, sentence.lang, sentence.text, copy)
            )
            name, voices = speakers[rng.integers(len(speakers))]
            voice = voices[rng.integers(len(voices))]
            speed = round(float(np.exp(rng.uniform(*np.log(plan.speed)))), 3)
            pitch = round(float(np.exp(rng.uniform(*np.log(plan.pitch)))), 3)
            clips.append(Clip(sentence, name, voice, speed, pitch, int(rng.integers(2**32))))
    return clips


def _pools(engines: Sequence[Engine], plan: SpeechPlan) -> dict[str, dict[str, list[str]]]:
    """{engine: {language: voices}} that the plan may use."""
    pools = {engine.name: engine.voices(plan.measure) for engine in engines}
    if not plan.voices:
        return pools
    chosen: dict[str, dict[str, list[str]]] = {}
    unused = set(plan.voices)
    for name, languages in pools.items():
        chosen[name] = {}
        for lang, voices in languages.items():
            for voice in voices:
                if f"{name}:{voice}" in plan.voices:
                    chosen[name].setdefault(lang, []).append(voice)
                    unused.discard(f"{name}:{voice}")
    if unused:
        _refuse_voice(min(unused), engines, plan.measure)
    return chosen


def _refuse_voice(unknown: str, engines: Sequence[Engine], measure: bool) -> None:
    """Raises ValueError with the reason why a voice cannot be used."""
    reason = "no installed engine has it"
    for engine in engines:
        for voices in engine.voices(not measure).values():
            if unknown in [f"{engine.name}:{voice}" for voice in voices]:
                reason = "it is for training" if measure else "it is kept for measuring"
    raise ValueError(
        f"voice {unknown!r}: {reason}; a voice is written ENGINE:VOICE, such as espeak-ng:de+f2"
    )


def speak_corpus(
    sentences: Sequence[Sentence],
    out: str | Path,
    engines: Sequence[Engine],
    plan: SpeechPlan | None = None,
    *,
    workers: int | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """Speak sentences into a folder of Parquet files that `load_speech` reads; a later run speaks
    only what is missing.

    A clip is FLAC with the columns of the speech schema: `source` is the engine, `speaker` the
    voice. `seconds` and `effects` describe it. Sentences that an engine cannot speak are counted
    and left out.

    Returns:
        clips, hours, the same by language and by engine, and the number of failed clips by reason.

    Raises:
        ValueError: as `speech_plan`; the folder holds a corpus with other settings; half of the
            clips of a file fail.
    """
    plan = plan or SpeechPlan()
    out = Path(out)
    clips = speech_plan(sentences, engines, plan)
    out.mkdir(parents=True, exist_ok=True)
    _same_settings(out, clips, plan)
    by_name = {engine.name: engine for engine in engines}
    files = []
    with (
        ThreadPoolExecutor(workers or os.cpu_count()) as pool,
        tqdm(total=len(clips), disable=hidden(progress)) as bar,
    ):
        for start in range(0, len(clips), SHARD):
            shard = clips[start : start + SHARD]
            file = out / f"{start // SHARD:06d}.parquet"
            files.append(make_once(file, partial(_write, shard, by_name, plan, pool)))
            bar.update(len(shard))
    return _report(files)


def _same_settings(out: Path, clips: Sequence[Clip], plan: SpeechPlan) -> None:
    """Write the settings of a new corpus; compare those of one that was begun."""
    # The settings name the clips by a digest: a changed list is another corpus.
    digest = hashlib.sha256(json.dumps(clips, ensure_ascii=False).encode()).hexdigest()
    settings = {"clips": len(clips), "plan": json.loads(json.dumps(asdict(plan))), "sha256": digest}
    place = out / SETTINGS
    if place.exists():
        old = yaml.safe_load(place.read_text(encoding="utf-8"))
        if old != settings:
            changed = (
                "plan" if old.get("plan") != settings["plan"] else "sentences, engines or voices"
            )
            raise ValueError(
                f"{out} holds a corpus with another {changed} ({SETTINGS}): give another folder"
            )
        return
    if any(out.glob("*.parquet")):
        raise ValueError(f"{out} holds other Parquet files: give another folder")
    make_once(
        place,
        lambda unfinished: (
            unfinished.write_text(yaml.safe_dump(settings, sort_keys=False)) and None
        ),
    )


def _write(
    clips: Sequence[Clip],
    engines: dict[str, Engine],
    plan: SpeechPlan,
    pool: ThreadPoolExecutor,
    to: Path,
):
    """Speak clips and write them as a Parquet file; the clips that failed stand in its metadata."""
    from datasets import Value

    # A few sentences may fail (signs that an engine cannot read); half of them is a fault.
    rows = list(pool.map(partial(_spoken, engines=engines, plan=plan), clips))
    failed = [row for row in rows if isinstance(row, str)]
    if len(failed) > MOST_FAILED * len(rows):
        raise ValueError(f"{len(failed)} of {len(rows)} clips failed, the first: {failed[0]}")
    for reason in failed:
        logger.warning("left out: %s", reason)
    # The columns of speech, and two that describe the clip.
    schema = features(("english", "source", "speaker"))
    schema |= {"seconds": Value("float32"), "effects": Value("string")}
    schema = type(features())(schema).arrow_schema
    schema = schema.with_metadata(
        {**schema.metadata, FAILED: json.dumps(failed, ensure_ascii=False).encode()}
    )
    pq.write_table(pa.Table.from_pylist([row for row in rows if isinstance(row, dict)], schema), to)


def _spoken(clip: Clip, engines: dict[str, Engine], plan: SpeechPlan) -> dict[str, Any] | str:
    """One row of the corpus, or why there is none."""
    import soundfile
    import soxr

    sentence = clip.sentence
    try:
        samples, rate = engines[clip.engine].say(sentence.text, clip.voice, clip.speed, clip.pitch)
    except ValueError as error:
        return str(error)
    samples = (
        soxr.resample(samples, rate, plan.sampling_rate) if rate != plan.sampling_rate else samples
    )
    # The clip as a recording: its effects follow from its own seed.
    samples, names = apply_effects(
        samples, plan.sampling_rate, plan.effects, np.random.default_rng(clip.seed)
    )
    content = io.BytesIO()
    soundfile.write(content, samples, plan.sampling_rate, format="FLAC", subtype="PCM_16")
    name = short_hash(repr(clip))
    return {
        "audio": {"bytes": content.getvalue(), "path": f"{name}.flac"},
        "text": sentence.text,
        "lang": sentence.lang,
        "english": sentence.english,
        "source": clip.engine,
        "speaker": clip.voice,
        "seconds": len(samples) / plan.sampling_rate,
        "effects": ", ".join([f"speed {clip.speed:g}", f"pitch {clip.pitch:g}", *names]),
    }


def _report(files: Sequence[Path]) -> dict[str, Any]:
    """Hours and clips of all files, by language and engine, and how often a clip failed."""
    reasons: Counter[str] = Counter()
    for file in files:
        failed = json.loads(pq.read_schema(file).metadata[FAILED])
        reasons.update(reason.partition(": ")[0] for reason in failed)
    rows = pd.concat(
        [pd.read_parquet(file, columns=["lang", "source", "seconds"]) for file in files]
    )
    return {
        **_clips_and_hours(rows),
        "languages": {
            lang: _clips_and_hours(part) for lang, part in rows.groupby("lang", sort=False)
        },
        "engines": {
            engine: _clips_and_hours(part) for engine, part in rows.groupby("source", sort=False)
        },
        "failed": dict(reasons),
    }


def _clips_and_hours(rows: pd.DataFrame) -> dict[str, float]:
    return {"clips": len(rows), "hours": round(float(rows.seconds.sum()) / 3600, 3)}
