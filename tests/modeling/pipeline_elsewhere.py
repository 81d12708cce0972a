"""Translates by pipeline("sonar-translation") in a process that cannot import hf_echo.

    python pipeline_elsewhere.py RESULT.json FOLDER...

A test imports `translate_all` for the same results in a process with hf_echo.
"""

from __future__ import annotations

import json
import sys

TEXTS = ["un chat rouge dort.", "deux chien bleu mange.", "", "quatre poisson vieux attend."]
LANGUAGES = ["fra_Latn", None, "rus_Cyrl", "fra_Latn"]


def translate_all(folder: str, **options) -> dict[str, list[str]]:
    import torch
    from transformers import pipeline

    pipe = pipeline("sonar-translation", model=folder, device="cpu", **options)
    batch = pipe.tokenizer(TEXTS, lang=LANGUAGES, padding=True, return_tensors="pt")
    with torch.no_grad():
        vectors = pipe.model.encoder(**batch).sentence_embedding
    results = {
        "one": pipe(TEXTS[0], src_lang="fra_Latn", tgt_lang="eng_Latn"),
        "list": pipe(TEXTS, src_lang="fra_Latn", tgt_lang="eng_Latn"),
        "mixed": pipe(TEXTS, src_lang=LANGUAGES),
        "beams": pipe(TEXTS, src_lang="fra_Latn", num_beams=2, max_new_tokens=15),
        "small batches": pipe(TEXTS, src_lang=LANGUAGES, batch_size=3),
        "embeddings": pipe(vectors.numpy()),
        "generator": list(pipe((text for text in TEXTS), src_lang="fra_Latn")),
        "to French": pipe(TEXTS, src_lang=LANGUAGES, tgt_lang="fra_Latn", max_new_tokens=7),
    }
    return {name: [row["translation_text"] for row in rows] for name, rows in results.items()}


class WithoutHfEcho:
    """Makes `import hf_echo` fail as on a machine that never saw it, whatever is installed here."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "hf_echo":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


if __name__ == "__main__":
    sys.meta_path.insert(0, WithoutHfEcho())
    from transformers import pipeline

    result_file, *folders = sys.argv[1:]
    results = {folder: translate_all(folder, trust_remote_code=True) for folder in folders}
    for folder in folders:  # the checkpoint itself says what it is for
        pipe = pipeline(model=folder, trust_remote_code=True, device="cpu")
        results[folder]["task"] = [pipe(TEXTS[0], src_lang="fra_Latn")[0]["translation_text"], pipe.task]
    assert "hf_echo" not in sys.modules
    with open(result_file, "w") as file:
        json.dump(results, file)
