"""Modular sentence encoder: one backbone and, per language, its own vocabulary and adapters
(Huang et al. 2025).

A module of sentence-transformers. It reads the language of each text, runs each language of a batch
through its own embeddings and adapters, and returns token states in the order of the texts; a
`Pooling` module follows.

    model[0]                     this module; the root holds its backbone as an EchoEncoder, which AutoModel opens
    modular.json                 pivot language and longest text
    languages/deu_Latn/          language.json, tokenizer, embeddings.safetensors, language_adapter/, sentence_adapter/,
                                 alignment.safetensors: nothing outside this folder knows the
                                 language

The LoRA adapters are in peft's format. They stay unmerged, so that a language never changes the
weights of another.
"""

from __future__ import annotations

import json
import math
import shutil
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from sentence_transformers.base.modules import InputModule
from torch import nn
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerFast

from .adapters_echo import adapter_layers, adapter_parameters, copy_adapter
from .configuration_echo import EchoConfig
from .modeling_echo_encoder import EchoEncoder
from .tokenization_echo import EchoTokenizer

try:
    from peft import LoraConfig, inject_adapter_in_model
except ImportError as error:
    raise ImportError("a modular encoder needs peft: pip install peft") from error

SETTINGS = "modular.json"
LANGUAGES = "languages"
LANGUAGE = "language.json"
EMBEDDINGS = "embeddings.safetensors"
ALIGNMENT = "alignment.safetensors"
ADAPTERS = {
    "language_adapter": r".*\.(query|key|value)",
    "sentence_adapter": r".*\.(query|key|value)|.*\.intermediate\.dense|.*layer\.\d+\.output\.dense",
}
PARTS = ("embeddings", *ADAPTERS, "alignment")
FILES = {
    "embeddings": EMBEDDINGS,
    "alignment": ALIGNMENT,
    "language_adapter": "language_adapter/adapter_model.safetensors",
    "sentence_adapter": "sentence_adapter/adapter_model.safetensors",
}
LORA = dict(r=8, lora_alpha=16, lora_dropout=0.1)
SCALING = 4.0
REDUCTION = 2


class ParallelAdapter(nn.Module):
    """`4 * up(relu(down(x)))`, (..., width) -> (..., width), beside a feed-forward layer
    (He et al. 2022).

    It starts at zero, so a new adapter changes nothing.
    """

    def __init__(self, width: int):
        super().__init__()
        self.down = nn.Linear(width, width // REDUCTION)
        self.up = nn.Linear(width // REDUCTION, width)
        nn.init.kaiming_uniform_(self.down.weight, a=math.sqrt(5))
        for zero in (self.down.bias, self.up.weight, self.up.bias):
            nn.init.zeros_(zero)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return SCALING * self.up(torch.relu(self.down(x)))


class ModularEncoder(InputModule):
    """Token states of texts in several languages.

    A text's language is, in this order: `{"text": ..., "lang": ...}`; `encode(texts,
    prompt_name="deu_Latn")`; the answer of `identify`.

    Args:
        backbone: an encoder with the layers of BERT or XLM-R. Its weights never change.
        tokenizer: of the backbone.
        pivot: the language that all others are aligned to.
        max_seq_length: longest text in tokens; longer ones are cut.

    Attributes:
        identify: (texts, languages of the model) -> one of these languages per text. The default
            asks heliport.
    """

    save_in_root = True

    def __init__(
        self,
        backbone: PreTrainedModel,
        tokenizer: Any,
        pivot: str = "eng_Latn",
        max_seq_length: int = 128,
    ):
        super().__init__()
        layers = getattr(getattr(backbone, "encoder", None), "layer", None)
        if layers is None or not all(hasattr(layer, "intermediate") for layer in layers):
            raise ValueError(
                f"{type(backbone).__name__} does not have layers like BERT or XLM-R: adapters need them"
            )
        self.backbone = backbone
        self.tokenizer = tokenizer
        self.pivot = pivot
        self.max_seq_length = max_seq_length
        self.embeddings = nn.ModuleDict()
        self.alignment = nn.ModuleDict()
        self.tokenizers: dict[str, Any] = {}
        self.parts: dict[str, list[str]] = {}
        self.notes: dict[str, dict] = {}  # of language.json: what a language was trained on
        self.identify: Callable[[list[str], list[str]], list[str]] = identify_by_heliport
        self._active: str | None = None
        self._learning: list[nn.Parameter] = []
        # LN(FFN(x) + x + adapter(x)): the adapter's output joins the residual.
        for number, layer in enumerate(layers):
            layer.output.register_forward_pre_hook(self._add_alignment(number))
        self.requires_grad_(False)

    # Languages

    @property
    def languages(self) -> list[str]:
        return sorted(self.parts)

    def add_language(
        self, language: str, tokenizer: Any = None, embeddings: torch.Tensor | None = None
    ) -> None:
        """A language without adapters; without a tokenizer and (vocabulary, width) embeddings,
        the backbone's."""
        if embeddings is not None:
            self.embeddings[language] = nn.Embedding.from_pretrained(embeddings, freeze=True)
        self.tokenizers[language] = tokenizer or self.tokenizer
        self.parts[language] = [] if embeddings is None else ["embeddings"]

    def add_part(self, language: str, part: str) -> None:
        """A new adapter that changes nothing yet:
        "language_adapter", "sentence_adapter" or "alignment"."""
        if part == "alignment":
            width = self.backbone.config.hidden_size
            depth = self.backbone.config.num_hidden_layers
            self.alignment[language] = nn.ModuleList(ParallelAdapter(width) for _ in range(depth))
        else:
            config = LoraConfig(target_modules=ADAPTERS[part], **LORA)
            with warnings.catch_warnings():  # of a second adapter, which is what this model is for
                warnings.filterwarnings("ignore", "Already found a `peft_config` attribute")
                inject_adapter_in_model(config, self.backbone, adapter_name(language, part))
        self.parts[language].append(part)
        # New LoRA layers are in training mode, with dropout, whatever the model's mode is.
        self.train(self.training)
        self.learn(language, ())

    def part_parameters(self, language: str, part: str) -> dict[str, Any]:
        """The parameters of a part, by the names of its file."""
        if part == "embeddings":
            return {"weight": self.embeddings[language].weight}
        if part == "alignment":
            return dict(self.alignment[language].named_parameters())
        return adapter_parameters(self.backbone, adapter_name(language, part))

    def learn(self, language: str, parts: Iterable[str]) -> None:
        """Only these parts of the language have gradients; without parts, nothing has."""
        self.requires_grad_(False)
        self._learning = [
            p for part in parts for p in self.part_parameters(language, part).values()
        ]
        for parameter in self._learning:
            parameter.requires_grad_(True)

    def _activate(self, language: str) -> None:
        """Switch the adapters to a language. LoRA deltas of its two adapters add up."""
        names = [adapter_name(language, part) for part in ADAPTERS if part in self.parts[language]]
        for _, layer in adapter_layers(self.backbone):
            layer.set_adapter(names, inference_mode=True)
        for parameter in self._learning:  # peft froze them
            parameter.requires_grad_(True)
        self._active = language

    def _add_alignment(self, number: int):
        """The hook of layer `number` that adds the alignment adapter of the active language to the
        residual."""

        def add(module: nn.Module, inputs: dict[str, Any]):
            if self._active is not None and self._active in self.alignment:
                states, residual = inputs
                adapters: Any = self.alignment[self._active]
                return states, residual + adapters[number](residual)
            return None

        return add

    # Texts

    def preprocess(
        self, inputs: Sequence[Any], prompt: str | None = None, **kwargs: Any
    ) -> dict[str, torch.Tensor]:
        """ids (rows, seq) of each text in its language's vocabulary, mask,
        and the number of its language (rows,)."""
        texts = [str(text["text"] if isinstance(text, dict) else text) for text in inputs]
        languages = self.languages_of(inputs, texts, prompt)
        options = {"truncation": True, "max_length": self.max_seq_length}
        # Each text in the vocabulary of its language, padded to one length: (rows, seq).
        ids = []
        masks = []
        for text, language in zip(texts, languages):
            row = torch.tensor(self.tokenizers[language](text, **options)["input_ids"])
            ids.append(row)
            masks.append(torch.ones_like(row))
        return {
            "input_ids": torch.nn.utils.rnn.pad_sequence(ids, batch_first=True),
            "attention_mask": torch.nn.utils.rnn.pad_sequence(masks, batch_first=True),
            "language": torch.tensor([self.languages.index(language) for language in languages]),
        }

    def languages_of(
        self, inputs: Sequence[Any], texts: list[str], prompt: str | None
    ) -> list[Any]:
        """The language of each text: its own, that of the prompt, or the one that is identified."""
        languages: list[Any] = []
        for text in inputs:
            named = text.get("lang") if isinstance(text, dict) else None
            languages.append(named or prompt or None)
        unnamed = [row for row, language in enumerate(languages) if language is None]
        if unnamed:
            answers = self.identify([texts[row] for row in unnamed], self.languages)
            for row, language in zip(unnamed, answers):
                languages[row] = language
        for language in languages:
            if language not in self.parts:
                raise ValueError(
                    f"language {language!r} is not in this model; it has {', '.join(self.languages) or 'none'}"
                )
        return languages

    def token_states(
        self, language: str, input_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> torch.Tensor:
        """States (rows, seq, width) of texts in one language,
        by its own vocabulary and adapters."""
        self._activate(language)
        vectors = self.backbone.get_input_embeddings()
        if language in self.embeddings:
            vectors = self.embeddings[language]
        output = self.backbone(inputs_embeds=vectors(input_ids), attention_mask=attention_mask)
        return output.last_hidden_state

    def forward(self, features: dict[str, torch.Tensor], **kwargs: Any) -> dict[str, Any]:
        """Adds `token_embeddings` (rows, seq, width), in the order of the rows;
        zeros behind a language's longest."""
        ids = features["input_ids"]
        mask = features["attention_mask"]
        numbers = features["language"]
        states = None
        for number in numbers.unique().tolist():
            rows = (numbers == number).nonzero()[:, 0]
            longest = int(mask[rows].sum(1).max())
            # (rows of the language, longest, width)
            language_states = self.token_states(
                self.languages[number], ids[rows, :longest], mask[rows, :longest]
            )
            if states is None:
                states = language_states.new_zeros(*ids.shape, language_states.shape[-1])
            # Out of place: gradients of earlier languages stay.
            places = torch.arange(longest, device=rows.device)
            states = states.index_put((rows[:, None], places[None]), language_states)
        return features | {"token_embeddings": states}

    def get_embedding_dimension(self) -> int:
        return int(self.backbone.config.hidden_size)

    def on_model_ready(self, model: Any) -> None:
        """A prompt per language, which only names the language:
        `encode(texts, prompt_name="deu_Latn")`."""
        model.prompts = {language: language for language in self.languages}

    # Files

    def save_language(self, folder: str | Path, language: str) -> None:
        """Write one language to its folder; no other file changes."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        if "embeddings" in self.parts[language]:
            self.tokenizers[language].save_pretrained(folder)
        for part in self.parts[language]:
            file = folder / FILES[part]
            file.parent.mkdir(exist_ok=True)
            values = self.part_parameters(language, part).items()
            save_file(
                {name: p.detach().cpu().contiguous() for name, p in values},
                file,
                metadata={"format": "pt"},
            )
            if part in ADAPTERS:
                LoraConfig(
                    target_modules=ADAPTERS[part], inference_mode=True, **LORA
                ).save_pretrained(file.parent)
        notes = {"language": language, "parts": self.parts[language]} | self.notes.get(language, {})
        (folder / LANGUAGE).write_text(
            json.dumps(notes, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )

    def load_language(self, folder: str | Path) -> None:
        """Open the folder of one language."""
        folder = Path(folder)
        notes = json.loads((folder / LANGUAGE).read_text(encoding="utf-8"))
        language = notes.pop("language")
        parts = notes.pop("parts")
        # Its own token vectors and tokenizer, or those of the backbone.
        if "embeddings" in parts:
            weight = load_file(folder / EMBEDDINGS)["weight"]
            if weight.shape[1] != self.get_embedding_dimension():
                raise ValueError(
                    f"{folder / EMBEDDINGS} does not fit the backbone: it belongs to another one"
                )
            self.add_language(language, AutoTokenizer.from_pretrained(folder), weight)
        else:
            self.add_language(language)
        self.notes[language] = notes
        # Its adapters, and the small matrices that are no adapters of peft.
        for part in parts:
            if part == "embeddings":
                continue
            self.add_part(language, part)
            values = load_file(folder / FILES[part])
            if part in ADAPTERS:
                copy_adapter(
                    self.backbone, adapter_name(language, part), values, str(folder / FILES[part])
                )
                continue
            try:
                self.alignment[language].load_state_dict(values)
            except RuntimeError as error:
                raise ValueError(
                    f"{folder / FILES[part]} does not fit the backbone: it belongs to another one"
                ) from error

    def save(
        self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any
    ) -> None:
        """Write everything; sentence-transformers calls it."""
        out = Path(output_path)
        # Without the adapters, which are saved by language; peft has moved the weights beside them.
        weights = {}
        for name, weight in self.backbone.state_dict().items():
            if ".lora_" not in name:
                weights[f"backbone.{name.replace('.base_layer.', '.')}"] = weight
        options = dict(
            pooling="mean", embedding_size=None, prompts="none", dtype=self.backbone.dtype
        )
        with torch.device("meta"):
            encoder = EchoEncoder(EchoConfig(backbone=self.backbone.config, **options))
        encoder.backbone = self.backbone
        encoder.save_pretrained(out, state_dict=weights)
        EchoTokenizer.around(self.tokenizer).save_pretrained(out)
        settings = {"pivot": self.pivot, "max_seq_length": self.max_seq_length}
        (out / SETTINGS).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        for language in self.languages:
            self.save_language(out / LANGUAGES / language, language)
        if Path(__file__).parent.resolve() != out.resolve():
            shutil.copyfile(__file__, out / Path(__file__).name)

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **options: Any) -> ModularEncoder:
        """Open a folder or a repository; `model_kwargs={"languages": [...]}` opens only these
        languages."""
        hub = {key: options.get(key) for key in ("token", "cache_folder", "revision")}
        hub["local_files_only"] = bool(options.get("local_files_only"))
        folder = Path(cls.load_dir_path(model_name_or_path, subfolder=subfolder, **hub))
        languages = sorted(path.name for path in (folder / LANGUAGES).glob("*") if path.is_dir())
        chosen = (options.get("model_kwargs") or {}).get("languages")
        if chosen is None:
            chosen = languages
        for language in chosen:
            if language not in languages:
                raise ValueError(
                    f"language {language!r} is not in this model; it has {', '.join(languages) or 'none'}"
                )
        settings = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
        backbone = EchoEncoder.from_pretrained(folder, dtype=torch.float32).backbone
        module = cls(backbone.eval(), plain(EchoTokenizer.from_pretrained(folder)), **settings)
        module.eval()
        for language in chosen:
            module.load_language(folder / LANGUAGES / language)
        return module


def plain(tokenizer: EchoTokenizer) -> PreTrainedTokenizerFast:
    """The same tokenizer without languages: each language of a modular encoder has its own."""
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer.backend_tokenizer,
        model_max_length=tokenizer.model_max_length,
        **tokenizer.special_tokens_map,
    )


def adapter_name(language: str, part: str) -> str:
    return f"{language}_{part}"


def identify_by_heliport(texts: list[str], languages: list[str]) -> list[str]:
    """The model's language of each text, by ISO 639-3 code."""
    try:
        import heliport
    except ImportError as error:
        raise ImportError(
            "a text without a language needs heliport (pip install heliport); or give prompt_name="
        ) from error
    identifier = heliport.Identifier()
    codes = {language[:3]: language for language in languages}
    identified = []
    for text in texts:
        answer = identifier.identify(text)
        code = str(answer)[:3]
        if code not in codes:
            raise ValueError(
                f"{text[:40]!r} was identified as {answer}, which is not in this model ({', '.join(languages)}): "
                "give prompt_name= or lang"
            )
        identified.append(codes[code])
    return identified
