"""Translation quality of one direction by sacrebleu: chrF++, spBLEU and a BLEU whose tokenizer is named.

Contract: texts in, a TranslationResult out. sacrebleu does the counting; this module chooses its settings,
prints its signatures, and never lets one number stand for another: spBLEU needs a SentencePiece model that
sacrebleu downloads, and where it cannot be had `spbleu` is None and `spbleu_missing` says why.
"""

from __future__ import annotations

import functools
import os
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass

from .results import Result

UNSPACED = ("Jpan", "Thai", "Laoo", "Khmr", "Mymr", "Tibt")  # scripts without spaces: BLEU on characters


@dataclass(frozen=True)
class TranslationResult(Result):
    """Corpus scores, 0 to 100, higher is better; `signatures` as sacrebleu prints them."""

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
    timeout: float = 20.0,
) -> TranslationResult:
    """chrF++ (word_order=2), spBLEU (flores200 tokenizer) and BLEU of hypotheses[i] against references[i].

    Args:
        source_lang, target_lang: NLLB codes, for `direction` ("fra_Latn-eng_Latn") and for the tokenizer
            below.
        bleu_tokenizer: of the plain BLEU; None takes "zh" for Chinese scripts, "char" for scripts without
            spaces and "13a" else. An empty hypothesis is a wrong translation, not an error.
        spbleu: False leaves it out. True loads the model from sacrebleu's folder ($SACREBLEU or ~/.sacrebleu,
            file models/flores200sacrebleuspm) or downloads it there, giving up after `timeout` seconds (once
            a process).

    Raises:
        ValueError: different numbers of lines, no lines, a single string instead of a list, an unknown
            tokenizer.
    """
    from sacrebleu.metrics import BLEU, CHRF

    if isinstance(hypotheses, str) or isinstance(references, str):
        raise ValueError("hypotheses and references must be lists of sentences, got a single string")
    if len(hypotheses) != len(references):
        raise ValueError(
            f"{len(hypotheses)} hypotheses and {len(references)} references: one of each per sentence"
        )
    if not len(hypotheses):
        raise ValueError("no hypotheses: nothing to score")
    if bleu_tokenizer is not None and bleu_tokenizer not in BLEU.TOKENIZERS:
        raise ValueError(f"bleu_tokenizer is {bleu_tokenizer!r}, must be one of {', '.join(BLEU.TOKENIZERS)}")

    bleu_tokenizer = bleu_tokenizer or _bleu_tokenizer(target_lang)
    missing = _flores200_missing(timeout) if spbleu else "not asked for"
    metrics = {"chrf": CHRF(word_order=2), "bleu": BLEU(tokenize=bleu_tokenizer)}
    if missing is None:
        metrics["spbleu"] = BLEU(tokenize="flores200")
    lines = list(hypotheses)
    scores = {name: metric.corpus_score(lines, [list(references)]).score for name, metric in metrics.items()}
    return TranslationResult(
        direction="-".join(code for code in (source_lang, target_lang) if code),
        count=len(hypotheses),
        chrf=scores["chrf"],
        spbleu=scores.get("spbleu"),
        bleu=scores["bleu"],
        bleu_tokenizer=bleu_tokenizer,
        signatures={name: str(metric.get_signature()) for name, metric in metrics.items()},
        spbleu_missing=missing,
    )


def _bleu_tokenizer(target_lang: str) -> str:
    scripts = target_lang.split("_")[1:]
    if {"Hans", "Hant"} & set(scripts):
        return "zh"
    return "char" if set(UNSPACED) & set(scripts) else "13a"


@functools.cache
def _flores200_missing(timeout: float) -> str | None:
    """None when sacrebleu can load its flores200 model, else the reason. Downloads it if it is not there.

    Done here and not by sacrebleu, whose download has no time limit and can leave half a file that it then
    trusts.
    """
    from sacrebleu.tokenizers import tokenizer_spm

    url = tokenizer_spm.SPM_MODELS["flores200"]["url"]
    path = os.path.join(tokenizer_spm.SACREBLEU_DIR, "models", os.path.basename(url))
    try:
        from sentencepiece import SentencePieceProcessor

        if not os.path.exists(path):
            with urllib.request.urlopen(url, timeout=timeout) as answer:
                content = answer.read()
            SentencePieceProcessor(model_proto=content)  # a page that is no model must not stay on disk
            os.makedirs(os.path.dirname(path), exist_ok=True)
            part = f"{path}.{os.getpid()}.part"
            with open(part, "wb") as out:
                out.write(content)
            os.replace(part, path)
        tokenizer_spm.Flores200Tokenizer()
    except Exception as error:  # no network, a proxy's page for a model, no sentencepiece, no write access
        reason = str(error).strip().splitlines()
        return f"no flores200 model at {path} ({type(error).__name__}: {reason[0] if reason else ''})"
    return None
