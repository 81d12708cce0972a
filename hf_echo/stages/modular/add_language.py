"""Add a language to a modular encoder: vocabulary, language adapter, sentence adapter, alignment to
the pivot.

The folder of the new language is the only thing that is written. The embeddings of all other
languages stay equal in every bit (Modular Sentence Encoders, 3.1 and 3.2).
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer
from transformers import set_seed

from ...data.readers import load_parallel
from ...data.texts import read_texts
from ...inference.modular import modular_module, open_modular
from ...modeling.sentence_transformer_modular import ModularEncoder
from ...utils.fingerprint import fingerprint, sha256
from ...utils.folders import write_folder
from ...utils.lineage import write_lineage
from ...vocabulary.match import language_vocabulary
from .folder import LANGUAGES, check_addition, languages_of, pivot_of

logger = logging.getLogger(__name__)

# partner language -> columns source (in it), target and, of triplets, negative
# (in the new language)
PairsOfPartners = dict[str, dict[str, list[str]]]


def add_language(  # noqa: PLR0913 (the options of `hf-echo modular add-language`)
    model: str | Path,
    language: str,
    *,
    texts: str | Path | None = None,
    paraphrases: str | Path | None = None,
    cross_paraphrases: str | Path | None = None,
    parallel: str | Path | None = None,
    output_dir: str | Path | None = None,
    vocab_size: int = 50_048,
    mlm_steps: int = 200_000,
    mlm_learning_rate: float = 1e-4,
    epochs: float = 1.0,
    learning_rate: float = 2e-5,
    batch_size: int = 128,
    alignment_batch_size: int = 256,
    max_length: int = 128,
    seed: int = 0,
) -> dict[str, Any]:
    """Add one language. A part whose data are not given is left out, as in the paper's ablations.

    Arguments as in `hf-echo modular add-language --help`, with the paper's values (B.2, without
    `mlm_learning_rate`). Without texts, the language has the backbone's vocabulary. Paraphrases may
    be triplets (column `negative`); those with another language learn by a softmax over the batch,
    translations (`parallel`) by cosine. The other language is the pivot (the paper's choice), or
    any that the model has: with pairs of all of them this is the all-pair alignment of 6.1, in
    which batches of the languages take turns and the earlier languages stay as they are.

    Returns:
        {"language", "parts", "losses": {part: its mean loss}}.

    Raises:
        FileNotFoundError: no modular encoder, or no data file.
        ValueError: unknown language, or one that is there; no data; alignment data for the pivot
            language or before it is there; pairs with a language that the model does not have.
    """
    settings = dict(
        vocab_size=vocab_size,
        mlm_steps=mlm_steps,
        mlm_learning_rate=mlm_learning_rate,
        epochs=epochs,
        learning_rate=learning_rate,
        batch_size=batch_size,
        alignment_batch_size=alignment_batch_size,
        max_length=max_length,
        seed=seed,
    )
    data = dict(
        texts=texts, paraphrases=paraphrases, cross_paraphrases=cross_paraphrases, parallel=parallel
    )
    check_addition(model, language, data)
    pivot = pivot_of(model)
    set_seed(seed)

    # The data, and of the model the languages that they need: the pivot, and partners of the pairs.
    earlier = languages_of(model)
    pairs: dict[str, PairsOfPartners] = {}
    for name, file in data.items():
        if name != "texts" and file is not None:
            partners = [language] if name == "paraphrases" else earlier
            pairs[name] = _pairs(file, language, partners, pivot)
    needed = {pivot}.intersection(earlier)
    for name in ("cross_paraphrases", "parallel"):
        needed.update(pairs.get(name, ()))
    lines = None
    if texts is not None:
        lines = [line for line in read_texts(texts) if line.strip()]
    opened = open_modular(model, sorted(needed))
    module = modular_module(opened)
    losses = _train(opened, language, lines, pairs, settings)

    # What the folder of the language says about itself.
    files = {}
    for name, file in data.items():
        if file is not None:
            files[name] = {"name": Path(file).name, "sha256": _digest(file)}
    module.notes[language] = {
        # Adapters belong to exactly one backbone; a pivot without data trains nothing.
        "backbone": fingerprint(Path(model) / "model.safetensors"),
        "losses": losses,
        "settings": settings if module.parts[language] else {},
        "data": files,
    }
    result = {"language": language, "parts": module.parts[language], "losses": losses}
    if output_dir is None:
        _save(module, model, language)
        return result
    with write_folder(output_dir) as out:
        shutil.copytree(model, out, dirs_exist_ok=True)
        _save(module, out, language)
        values = {"language": language, **settings}
        write_lineage(
            out,
            "add_language",
            values,
            parents={"model": model},
            data=data,
            output_dir=output_dir,
            results={"losses": losses},
        )
    return result


def _train(
    opened: SentenceTransformer,
    language: str,
    lines: list[str] | None,
    pairs: dict[str, PairsOfPartners],
    settings: dict[str, Any],
) -> dict[str, float]:
    """Train the parts in the paper's order; returns their mean losses."""
    from .training import PairSet, train_masked, train_pairs

    module = modular_module(opened)
    losses = {}
    common = {name: settings[name] for name in ("batch_size", "seed")}
    pair_settings = common | {name: settings[name] for name in ("epochs", "learning_rate")}
    with tempfile.TemporaryDirectory() as scratch:
        # Vocabulary and language adapter, by masked language modelling; or the backbone's
        # vocabulary as it is.
        if lines is None:
            module.add_language(language)
        else:
            old = module.backbone.get_input_embeddings().get_parameter("weight").detach()
            tokenizer, rows = language_vocabulary(
                module.tokenizer, old, lines, settings["vocab_size"], seed=settings["seed"]
            )
            module.add_language(language, tokenizer, rows.contiguous())
            module.add_part(language, "language_adapter")
            losses["language_adapter"] = train_masked(
                module,
                language,
                lines,
                scratch,
                steps=settings["mlm_steps"],
                learning_rate=settings["mlm_learning_rate"],
                max_length=settings["max_length"],
                **common,
            )
        # The sentence adapter, in the language itself.
        if "paraphrases" in pairs:
            module.add_part(language, "sentence_adapter")
            pair_sets = [PairSet("paraphrases", language, pairs["paraphrases"][language])]
            losses["sentence_adapter"] = train_pairs(
                opened, language, "sentence_adapter", pair_sets, scratch, **pair_settings
            )
        # The alignment to the pivot, or to all languages before it.
        pair_sets = []
        for first, columns in pairs.get("cross_paraphrases", {}).items():
            pair_sets.append(PairSet("paraphrases", first, columns))
        for first, columns in pairs.get("parallel", {}).items():
            pair_sets.append(PairSet("parallel", first, columns))
        if pair_sets:
            module.add_part(language, "alignment")
            pair_settings["batch_size"] = settings["alignment_batch_size"]
            losses["alignment"] = train_pairs(
                opened, language, "alignment", pair_sets, scratch, **pair_settings
            )
    module.learn(language, ())
    module.eval()
    return losses


def _save(module: ModularEncoder, folder: str | Path, language: str) -> None:
    """Write the language's folder whole or not at all."""
    place = Path(folder) / LANGUAGES / language
    unfinished = place.with_name(f".{language}")
    shutil.rmtree(unfinished, ignore_errors=True)
    module.save_language(unfinished, language)
    unfinished.rename(place)


def _pairs(file: str | Path, language: str, partners: Sequence[str], pivot: str) -> PairsOfPartners:
    """The pairs of a file by partner.

    Pairs may be given either way round. A file without languages has the only partner, or the
    pivot.
    """
    if _headless(file):
        first = pivot if pivot in partners else partners[0]
        rows = load_parallel(file, source_lang=first, target_lang=language)
    else:
        rows = load_parallel(file)

    # The partner's text is the source, whichever way round a pair is given; a triplet has its
    # order.
    of_partner: PairsOfPartners = {}
    for row in rows:
        sides = [(row["source_lang"], row["source"]), (row["target_lang"], row["target"])]
        negatives = row.get("hard_negatives")
        if row["source_lang"] not in partners and not negatives:
            sides.reverse()
        (first, text), (second, translation) = sides
        if first not in partners or second != language:
            pair = f"{row['source_lang']}-{row['target_lang']}"
            raise ValueError(
                f"{file}: a pair is {pair}, it must be {language} with {', '.join(partners)}"
            )
        columns = of_partner.setdefault(first, {"source": [], "target": [], "negative": []})
        columns["source"].append(text)
        columns["target"].append(translation)
        columns["negative"] += (negatives or [])[:1]

    # A data set of sentence-transformers has the column `negative` in all of its rows or in none.
    for columns in of_partner.values():
        negatives = len(columns["negative"])
        count = len(columns["source"])
        if negatives not in (0, count):
            raise ValueError(
                f"{file}: {negatives} of {count} rows have a negative; give pairs and triplets in files of their own"
            )
        if not negatives:
            del columns["negative"]
    return of_partner


def _headless(file: str | Path) -> bool:
    """Whether a TSV file has two columns and no header:
    its languages are then known from its role."""
    path = Path(file)
    if path.suffix != ".tsv":
        return False
    with path.open(encoding="utf-8") as lines:
        columns = lines.readline().rstrip("\n").split("\t")
    return len(columns) == 2 and not {"source", "src", "sentence1", "text1"} & set(columns)


def _digest(file: str | Path) -> str | None:
    return sha256(file) if Path(file).is_file() else None
