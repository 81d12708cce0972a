"""Opens an Echo model in the ways a stranger would. Run as a script it does so without hf_echo, or
after importing it.

    python ways_in.py RESULT.pt NAME...
    python ways_in.py --installed RESULT.pt TRAINING RELEASE    uploads the two folders and opens them from the Hub

NAME@REVISION opens a version of a name on the Hub.

A test imports `open_all` for the same results in its own process: all must be equal bit by bit.
"""

import sys
from collections.abc import Callable

TEXTS = [
    "Le chat dort.",
    "Die Katze schläft auf dem roten Teppich, und der Hund auch.",
    "",
    "고양이가 잔다.",
]
LANGUAGES = ["fra_Latn", "deu_Latn", "eng_Latn", "kor_Hang"]


class WithoutHfEcho:
    """Makes `import hf_echo` fail as on a machine that never saw it, whatever is installed here."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "hf_echo":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def open_all(name: str, *, save_to: str | None = None, decoder: bool = True, **options) -> dict:
    """Embeddings and translations of TEXTS by each way in;
    the options go to every from_pretrained."""
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers import AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

    tokenizer = AutoTokenizer.from_pretrained(name, **options)
    batch = tokenizer(TEXTS, lang=LANGUAGES, padding=True, return_tensors="pt")
    sentences = SentenceTransformer(name, device="cpu", **options)
    pairs = list(zip(LANGUAGES, TEXTS, strict=True))
    splitting = SentenceTransformer(
        name, device="cpu", processor_kwargs={"on_long": "split"}, **options
    )

    def encode(texts, **kwargs):
        return sentences.encode(texts, convert_to_tensor=True, **kwargs)

    # Embeddings: by transformers and by sentence-transformers in five ways.
    with torch.no_grad():
        results = {
            "auto": AutoModel.from_pretrained(name, **options)(**batch).sentence_embedding,
            "by name": torch.cat([encode([text], prompt_name=code) for code, text in pairs]),
            "mixed": encode([sentences.prompts[code] + text for code, text in pairs]),
            "default": encode(TEXTS),
            "split": splitting.encode([*TEXTS, "Le chat " * 300], convert_to_tensor=True),
            "size": torch.tensor(sentences.get_embedding_dimension()),
        }
    # Translations: by `generate` and by the pipeline, which must agree.
    if decoder:
        prompt = torch.tensor([tokenizer.decoder_prompt_ids("eng_Latn")] * len(TEXTS))
        model = AutoModelForSeq2SeqLM.from_pretrained(name, **options)
        results["translation"] = model.generate(
            **batch, decoder_input_ids=prompt, max_new_tokens=6, num_beams=2
        )
        by_generate = tokenizer.batch_decode(
            results["translation"][:, prompt.shape[1] :], skip_special_tokens=True
        )
        translate = pipeline("sonar-translation", model=name, device="cpu", **options)
        rows = translate(
            TEXTS, src_lang=LANGUAGES, tgt_lang="eng_Latn", num_beams=2, max_new_tokens=6
        )
        agree = []
        for text, translation, row in zip(TEXTS, by_generate, rows, strict=True):
            # The pipeline translates nothing as nothing.
            expected = translation.strip() if text else ""
            agree.append(row["translation_text"].strip() == expected)
        results["pipeline"] = torch.tensor(agree)
    if save_to is not None:
        sentences.save(save_to)
    return results


def first_ways(name: str) -> list[tuple[str, Callable]]:
    """(class to come, way to it): what a program may do first after `import hf_echo`."""
    import transformers
    from sentence_transformers import SentenceTransformer

    import hf_echo

    def of(auto: str):
        return lambda: getattr(transformers, auto).from_pretrained(name)

    def from_config():
        return transformers.AutoModel.from_config(hf_echo.EchoConfig(vocab_size=9, hidden_size=32))

    return [
        ("EchoConfig", of("AutoConfig")),
        ("EchoEncoder", of("AutoModel")),
        ("EchoEncoder", from_config),
        ("EchoForTranslation", of("AutoModelForSeq2SeqLM")),
        ("EchoTokenizer", of("AutoTokenizer")),
        ("SentenceTransformer", lambda: SentenceTransformer(name, device="cpu")),
        (
            "SonarTranslationPipeline",
            lambda: transformers.pipeline("sonar-translation", name, device="cpu"),
        ),
        ("EchoDecoder", lambda: hf_echo.EchoDecoder.from_pretrained(name)),
    ]


def try_first_ways(name: str) -> None:
    """Each way opens the class that it names, after `import hf_echo` alone."""
    for wanted_class, way in first_ways(name):
        opened = type(way()).__name__
        assert opened == wanted_class, f"{name}: {opened} instead of {wanted_class}"


ON_HUB = ("tester/training", "tester/release")


def installed(folders: list[str]) -> dict[str, dict]:
    """Push the folders to the Hub of the test; what each way of opening them by name gives."""
    from huggingface_hub import HfApi

    import hf_echo  # its import is all that is needed to open a name

    for name, folder in zip(ON_HUB, folders, strict=True):
        HfApi().create_repo(name)
        HfApi().upload_folder(repo_id=name, folder_path=folder)
    try_first_ways(ON_HUB[-1])
    results = {name: open_all(name) for name in ON_HUB}

    # What a user pushes replaces the upload; a process without hf_echo opens it.
    training, _ = folders
    hf_echo.EchoForTranslation.from_pretrained(training).push_to_hub(ON_HUB[0])
    hf_echo.EchoTokenizer.from_pretrained(training).push_to_hub(ON_HUB[0])
    return results


def elsewhere(names: list[str], result_file: str) -> dict[str, dict]:
    """The same without the package, by the code beside the weights."""
    sys.meta_path.insert(0, WithoutHfEcho())
    results = {}
    for number, name in enumerate(names):
        again = f"{result_file}.{number}"
        repo, _, revision = name.partition("@")
        pinned = {"revision": revision} if revision else {}
        results[name] = open_all(repo, save_to=again, trust_remote_code=True, **pinned)
        results[f"{name} saved again"] = open_all(again, decoder=False, trust_remote_code=True)
    assert "hf_echo" not in sys.modules
    return results


if __name__ == "__main__":
    import torch

    arguments = [a for a in sys.argv[1:] if a != "--installed"]
    result_file, *names = arguments
    found = installed(names) if "--installed" in sys.argv else elsewhere(names, result_file)
    torch.save(found, result_file)
