"""Translation quality with sacrebleu: chrF++, spBLEU and BLEU with a named tokenizer; optionally
BLASER.

spBLEU needs a SentencePiece model that sacrebleu downloads; without it `spbleu` is None and
`spbleu_missing` gives the reason.
"""

from __future__ import annotations

import functools
import os
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tqdm.auto import tqdm

from ..languages import ENGLISH
from ..utils.bars import hidden
from ..utils.files import write_whole
from ..utils.results import Result, Table
from .nway_texts import common_ids, pairs_of_table

# (texts of a language, source_lang, target_lang) -> translations
Translate = Callable[[Any, str, str], Sequence[str]]

# (sources, hypotheses, references, source_lang, target_lang) -> mean score
Blaser = Callable[[Sequence[str], Sequence[str], Sequence[str], str, str], float]
# scripts without spaces get BLEU on characters
UNSPACED = (
    "Jpan",
    "Thai",
    "Laoo",
    "Khmr",
    "Mymr",
    "Tibt",
)


@dataclass(frozen=True)
class TranslationResult(Result):
    """Corpus scores, 0 to 100, higher is better; `signatures` are sacrebleu's."""

    direction: str
    count: int
    chrf: float
    spbleu: float | None
    bleu: float
    bleu_tokenizer: str
    signatures: dict[str, str]
    spbleu_missing: str | None = None


def translation_scores(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    source_lang: str = "",
    target_lang: str = "",
    bleu_tokenizer: str | None = None,
    spbleu: bool = True,
) -> TranslationResult:
    """chrF++ (word_order=2), spBLEU (flores200 tokenizer) and BLEU of hypotheses[i] against
    references[i].

    An empty hypothesis counts as a wrong translation, not as an error.

    Args:
        source_lang, target_lang: NLLB codes, for `direction` ("fra_Latn-eng_Latn") and the default
            tokenizer.
        bleu_tokenizer: of BLEU; None is "zh" for Chinese scripts, "char" for scripts without
            spaces, else "13a".
        spbleu: False leaves it out. True loads the model from sacrebleu's folder ($SACREBLEU or
            ~/.sacrebleu, file models/flores200sacrebleuspm) or downloads it there, within 20
            seconds and once per process.

    Raises:
        ValueError: different numbers of lines, no lines, an unknown tokenizer.
    """
    from sacrebleu.metrics import BLEU, CHRF

    if len(hypotheses) != len(references):
        raise ValueError(
            f"{len(hypotheses)} hypotheses and {len(references)} references: give equal numbers"
        )
    bleu_tokenizer = bleu_tokenizer or _bleu_tokenizer(target_lang)
    missing = _flores200_missing() if spbleu else "not requested"
    # Word order 2 makes chrF to chrF++.
    metrics = {"chrf": CHRF(word_order=2), "bleu": BLEU(tokenize=bleu_tokenizer)}
    if missing is None:
        metrics["spbleu"] = BLEU(tokenize="flores200")
    scores = {}
    for name, metric in metrics.items():
        scores[name] = metric.corpus_score(list(hypotheses), [list(references)]).score
    return TranslationResult(
        direction="-".join(filter(None, (source_lang, target_lang))),
        count=len(hypotheses),
        chrf=scores["chrf"],
        spbleu=scores.get("spbleu"),
        bleu=scores["bleu"],
        bleu_tokenizer=bleu_tokenizer,
        signatures={name: str(metric.get_signature()) for name, metric in metrics.items()},
        spbleu_missing=missing,
    )


def evaluate_translation(
    translate: Translate,
    rows: Iterable[Mapping[str, Any]],
    *,
    target_lang: str = ENGLISH,
    source_langs: Sequence[str] | None = None,
    direction: str = "to",
    blaser: Blaser | None = None,
    progress: bool = False,
    **score_options: Any,
) -> Table:
    """Translation scores by direction on an n-way table.

    Args:
        translate: called once per direction with the source texts and the two languages. For a
            checkpoint: `lambda x, source, target: hf_echo.inference.translate(model, tokenizer, x, source, target)`;
            to combine encoder and decoder of two checkpoints of one space, use
            `EchoForTranslation.from_parts`.
        rows: mappings with id, lang, text.
        source_langs: the other languages, in this order; None is all except the target, in order of
            appearance.
        direction: "to" the target (X -> eng), "from" it (eng -> X), "both", or "all" ordered pairs.
        blaser: as from `blaser_scorer`; adds the column blaser.
        score_options: of `translation_scores` (bleu_tokenizer, spbleu).

    A direction uses the sentences that both languages have (`count`). Two languages without a
    common sentence are left out with one warning, and named in the note `not_measured`.

    Returns:
        Table with direction, source_lang, target_lang and the fields of `TranslationResult`; the
        mean over directions.

    Raises:
        ValueError: missing columns, two texts for one id and language, an unknown direction or
            language, no two languages with a common sentence, a translator that loses sentences.
    """
    texts, pairs, skipped = pairs_of_table(rows, target_lang, source_langs, direction)
    results = []
    for source, target in tqdm(pairs, desc="Translation", disable=hidden(progress)):
        # The sentences that both languages have.
        ids = common_ids(texts[source], texts[target])
        originals = [texts[source][key] for key in ids]
        references = [texts[target][key] for key in ids]
        hypotheses = list(translate(originals, source, target))
        scores = translation_scores(
            hypotheses, references, source_lang=source, target_lang=target, **score_options
        )
        row = {
            "direction": scores.direction,
            "source_lang": source,
            "target_lang": target,
        } | scores.to_row()
        if blaser is not None:
            row["blaser"] = blaser(originals, hypotheses, references, source, target)
        results.append(row)
    measures = ["chrf", "spbleu", "bleu"]
    if blaser is not None:
        measures.append("blaser")
    notes: dict[str, Any] = {"direction": direction}
    if skipped:
        notes["not_measured"] = skipped
    return Table(results, notes=notes).with_average(measures)


def blaser_scorer(blaser: str, encoder: str) -> Blaser:
    """The mean BLASER 2.0 score of translations, by a model of `hf-echo convert blaser` (ref or qe)
    on an encoder.

    Args:
        blaser, encoder: folders or Hub names; published BLASER weights read SONAR's embeddings.
    """
    from ..inference.scorer import EchoScorer

    scorer = EchoScorer(encoder, blaser=blaser)

    def score(
        sources: Sequence[str],
        hypotheses: Sequence[str],
        references: Sequence[str],
        source_lang: str,
        target_lang: str,
    ) -> float:
        """The mean score of these translations."""
        source_langs = [source_lang] * len(sources)
        target_langs = [target_lang] * len(sources)
        scores = scorer(
            list(sources), list(hypotheses), source_langs, target_langs, references=list(references)
        )
        return float(scores.mean())

    return score


def _bleu_tokenizer(target_lang: str) -> str:
    scripts = target_lang.split("_")[1:]
    if {"Hans", "Hant"} & set(scripts):
        return "zh"
    return "char" if set(UNSPACED) & set(scripts) else "13a"


@functools.cache
def _flores200_missing() -> str | None:
    """None if sacrebleu can load its flores200 model, downloaded with a time limit if missing, else
    the reason."""
    from sacrebleu.tokenizers import tokenizer_spm

    url = tokenizer_spm.SPM_MODELS["flores200"]["url"]
    path = os.path.join(tokenizer_spm.SACREBLEU_DIR, "models", os.path.basename(url))
    try:
        from sentencepiece import SentencePieceProcessor

        if not os.path.exists(path):
            # sacrebleu's own download has no time limit, and keeps whatever comes.
            with urllib.request.urlopen(url, timeout=20) as answer:
                content = answer.read()
            # raises if the download is not a model, before it is stored
            SentencePieceProcessor(model_proto=content)
            with write_whole(path) as unfinished:
                unfinished.write_bytes(content)
        tokenizer_spm.Flores200Tokenizer()
    except Exception as error:
        # No network, a proxy's error page, no sentencepiece, no write access
        reason, *_ = [*str(error).strip().splitlines(), ""]
        return f"no flores200 model at {path} ({type(error).__name__}: {reason})"
    return None
