"""A Space without a server: search in many languages by a model that runs in the visitor's browser.

    README.md, index.html, page.js, geometry.js, worker.js, sw.js, sentences.txt   as in the folder page/
    settings.json       name of the model, prompt, size of what the visitor loads, names of languages, close cosine
    model/              tokenizer and the graph in 8 bits, of `hf-echo export --to onnx`
    vendor/             transformers.js and the WebAssembly of ONNX Runtime, fetched by npm when the Space is written

The hashes below are those of the packages that the page was tested with; npm fetches them, nothing
of them is run here.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from ..cards.model_card import write_checkpoint_card
from ..export import export_checkpoint
from ..export.folder import check_packages
from ..export.stock import check_stock
from ..inference.any_encoder import any_encoder
from ..languages import LANGUAGES, OTHER_NAMES
from ..utils.files import read_json, read_text, write_json, write_text
from ..utils.fingerprint import sha256
from ..utils.folders import write_folder
from ..utils.vectors import unit_length
from .space_views import split_language

PAGE = Path(__file__).with_name("page")
# Package -> its sha512, and the files that the page needs. The version of the second is the one
# that the first names.
VENDORED = {
    "@huggingface/transformers@4.3.1": (
        "5+voSeUCFK6PCKlY15dPhNOKq3/zOTxDN7oC+Wy9dFb1QZ0TSQomZRRy7URRK8YRuUoE9fGMQTTPC5d/pWBJhA==",
        ("dist/transformers.min.js", "LICENSE"),
    ),
    "onnxruntime-web@1.31.0-dev.20260914-8d85527a0": (
        "Iy7rtadoBgxS/LLvDr3QW38DB1PNXRnr0GJMcL0TAt7c9qjgVQl83UlGCVyeAnK2InpmW8Uc3PL8XIuqtDeF6g==",
        ("dist/ort-wasm-simd-threaded.mjs", "dist/ort-wasm-simd-threaded.wasm"),
    ),
}
LOADED = (
    "model/onnx/model_quantized.onnx",
    "model/tokenizer.json",
    "vendor/ort-wasm-simd-threaded.wasm",
)


def write_static_space(model: str | Path, out: str | Path) -> Path:
    """Write the Space of a model; any server of files can serve the folder,
    and `hf-echo push` sends it to the Hub.

    The packages of the export, the model and `out` are checked first, then npm fetches, then the
    model is exported.

    Raises:
        FileNotFoundError: no npm, or no such model. ImportError: a package of the extra onnx is
            missing. ConnectionError: npm cannot fetch.
        ValueError: the model has no such form, `out` holds something else, or what npm brought is
            not what was tested.
    """
    if shutil.which("npm") is None:
        raise FileNotFoundError(
            "npm is not in PATH: install Node.js, which fetches the JavaScript of the page"
        )
    check_packages("onnx")
    check_stock(model)
    out = Path(out)
    with TemporaryDirectory() as place, write_folder(out) as folder:
        shutil.copytree(PAGE, folder, dirs_exist_ok=True)
        vendor(folder / "vendor")
        exported = Path(place) / "onnx"
        export_checkpoint(model, exported, to="onnx")
        write_checkpoint_card(exported)
        graph = exported / "onnx" / "sentence_embedding_quantized.onnx"
        if not graph.is_file():
            raise ValueError(f"{model} loses too much in 8 bits: no page can be made of it")
        (folder / "model" / "onnx").mkdir(parents=True)
        for name in ("README.md", "tokenizer.json", "tokenizer_config.json"):
            shutil.copyfile(exported / name, folder / "model" / name)
        shutil.copyfile(graph, folder / LOADED[0])
        # Not the type of the backbone: transformers.js would run a Llama as a decoder. An unknown
        # type runs as it is.
        write_json(folder / "model" / "config.json", {"model_type": "echo"})
        prompts = read_json(exported / "config_sentence_transformers.json")
        language_names = set(OTHER_NAMES)
        for language in LANGUAGES.values():
            name = language.name.lower()
            language_names |= {name, name.split(" (")[0]}
        settings = {
            "model": Path(model).resolve().name if Path(model).exists() else str(model),
            "prompt": prompts["prompts"].get(prompts.get("default_prompt_name"), ""),
            "bytes": sum((folder / name).stat().st_size for name in LOADED),
            "languages": sorted(language_names),
            "close": round(_close_on_page(str(model)), 3),
        }
        write_json(folder / "settings.json", settings)
        write_text(
            folder / "README.md",
            read_text(folder / "README.md").replace("MODEL", settings["model"]),
        )
        digest = hashlib.sha256()
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                digest.update(sha256(file).encode())
        version = digest.hexdigest()[:16]
        write_text(
            folder / "sw.js", read_text(folder / "sw.js").replace('"VERSION"', f'"{version}"')
        )
    return out


def _close_on_page(model: str) -> float:
    """`close_cosine` of the sentences of the page, in which each meaning begins in English."""
    lines = read_text(PAGE / "sentences.txt").splitlines()
    meanings = np.cumsum([line.startswith("English:") for line in lines])
    encode = any_encoder(model, dtype="fp32")
    vectors = encode([split_language(line)[0] for line in lines], None)
    return close_cosine(unit_length(vectors), meanings)


def close_cosine(vectors: np.ndarray, meanings: np.ndarray) -> float:
    """The cosine that tells translations from other sentences: as many sentences have no
    translation at or above it as have another sentence there.

    Args:
        vectors: (n, d) unit rows. meanings: (n,) numbers; sentences of one number are translations.
    """
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -1)
    are_translations = meanings[:, None] == meanings
    nearest_translation = np.sort(np.where(are_translations, cosines, -1).max(axis=1))
    nearest_other = np.sort(np.where(are_translations, -1, cosines).max(axis=1))
    levels = np.linspace(-1, 1, 2001)
    missed = np.searchsorted(nearest_translation, levels)
    mistaken = len(meanings) - np.searchsorted(nearest_other, levels)
    differences = np.abs(missed - mistaken)
    return float(levels[differences == differences.min()].mean())  # the middle of a gap


def vendor(folder: Path) -> None:
    """Fetch the JavaScript and WebAssembly of the page, and check that they are what it was tested
    with."""
    for package, (expected, names) in VENDORED.items():
        with TemporaryDirectory() as place:
            # npm fetches the package as an archive; nothing of it is run.
            command = [
                "npm",
                "pack",
                package,
                "--pack-destination",
                place,
                "--ignore-scripts",
                "--silent",
            ]
            npm = subprocess.run(command, capture_output=True, text=True, cwd=place)
            archive = next(Path(place).glob("*.tgz"), None)
            if npm.returncode or archive is None:
                *_, reason = ["no answer", *npm.stderr.strip().splitlines()]
                raise ConnectionError(f"npm could not fetch {package}: {reason}")
            # It must be the one that the page was tested with.
            digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
            if digest != expected:
                raise ValueError(
                    f"{package} has the sha512 {digest}, not that of the tested one: do not use it"
                )
            with tarfile.open(archive) as packed:
                for name in names:
                    stream = packed.extractfile(f"package/{name}")
                    assert stream is not None
                    (folder / Path(name).name).write_bytes(stream.read())
    # The licences in one file.
    apache = folder / "LICENSE"
    write_text(
        folder / "LICENSES.txt", read_text(folder / "LICENSES.txt") + "\n" + read_text(apache)
    )
    apache.unlink()
