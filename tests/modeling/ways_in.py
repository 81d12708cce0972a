"""Opens an Echo model in the ways a stranger would. Run as a script it does so without hf_echo.

    python ways_in.py RESULT.pt NAME...

A test imports `open_all` for the same results in a process with hf_echo: the two must be equal bit by bit.
"""

from __future__ import annotations

import sys

TEXTS = ["Le chat dort.", "Die Katze schläft auf dem roten Teppich, und der Hund auch.", "", "고양이가 잔다."]
LANGUAGES = ["fra_Latn", "deu_Latn", "eng_Latn", "kor_Hang"]


class WithoutHfEcho:
    """Makes `import hf_echo` fail as on a machine that never saw it, whatever is installed here."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "hf_echo":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def open_all(name: str, *, save_to: str | None = None, decoder: bool = True, **options) -> dict:
    """Embeddings and translations of TEXTS by each way in; the options go to every from_pretrained."""
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers import AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

    tokenizer = AutoTokenizer.from_pretrained(name, **options)
    batch = tokenizer(TEXTS, lang=LANGUAGES, padding=True, return_tensors="pt")
    sentences = SentenceTransformer(name, device="cpu", **options)
    pairs = list(zip(LANGUAGES, TEXTS, strict=True))
    splitting = SentenceTransformer(name, device="cpu", processor_kwargs={"on_long": "split"}, **options)

    def encode(texts, **kwargs):
        return sentences.encode(texts, convert_to_tensor=True, **kwargs)

    with torch.no_grad():
        results = {
            "auto": AutoModel.from_pretrained(name, **options)(**batch).sentence_embedding,
            "by name": torch.cat([encode([text], prompt_name=code) for code, text in pairs]),
            "mixed": encode([sentences.prompts[code] + text for code, text in pairs]),
            "default": encode(TEXTS),
            "split": splitting.encode([*TEXTS, "Le chat " * 300], convert_to_tensor=True),
            "size": torch.tensor(sentences.get_embedding_dimension()),
        }
    if decoder:
        prompt = torch.tensor([tokenizer.decoder_prompt_ids("eng_Latn")] * len(TEXTS))
        model = AutoModelForSeq2SeqLM.from_pretrained(name, **options)
        results["translation"] = model.generate(
            **batch, decoder_input_ids=prompt, max_new_tokens=6, num_beams=2
        )
        translate = pipeline("sonar-translation", model=name, device="cpu", **options)
        found = translate(TEXTS, src_lang=LANGUAGES, tgt_lang="eng_Latn", num_beams=2, max_new_tokens=6)
        texts = tokenizer.batch_decode(results["translation"][:, prompt.shape[1] :], skip_special_tokens=True)
        found = [row["translation_text"].strip() for row in found]
        results["pipeline"] = torch.tensor([a == b.strip() for a, b in zip(found, texts, strict=True)])
    if save_to is not None:
        sentences.save(save_to)
    return results


if __name__ == "__main__":
    sys.meta_path.insert(0, WithoutHfEcho())
    import torch

    result_file, *names = sys.argv[1:]
    results = {}
    for number, name in enumerate(names):
        again = f"{result_file}.{number}"
        results[name] = open_all(name, save_to=again, trust_remote_code=True)
        results[f"{name} saved again"] = open_all(again, decoder=False, trust_remote_code=True)
    assert "hf_echo" not in sys.modules
    torch.save(results, result_file)
