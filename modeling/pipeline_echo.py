"""`pipeline("sonar-translation", model=...)`: translates texts, or embeddings of any encoder of the
same space.

translate = pipeline("sonar-translation", model="org/omnisonar")
translate(["Bonjour le monde."], src_lang="fra_Latn", tgt_lang="eng_Latn")      # [{"translation_text": ...}]
translate(embeddings, tgt_lang="deu_Latn", num_beams=4)                          # (n, embedding_size) array

The same task with the release of a speech encoder takes audio:

translate(["hello.wav", {"array": samples, "sampling_rate": 16000}], tgt_lang="fra_Latn")
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from transformers import AutoTokenizer, Pipeline

from .generation_echo import check_prompt, check_target_lang, is_echo_decoder
from .modeling_echo_base import DECODER_FOLDER, check_finite
from .prompting_echo import (
    check_known_langs,
    check_no_lists,
    check_texts,
    is_blank,
    langs_of,
    rows_of,
)
from .reranking_echo import decode_embeddings
from .tokenization_echo import EchoTokenizer

OUR_OPTIONS = {"max_new_tokens", "num_beams", "rerank_weight"}  # other options go to `generate`


class SonarTranslationPipeline(Pipeline):
    """Translation from texts or from sentence embeddings.

    Call args:
        inputs: a text, a list or column of texts (as in `prompting_echo.texts_of`), or embeddings:
            (embedding_size,) or (n, embedding_size), array or tensor. For a speech encoder a path
            of audio instead of a text, the bytes of a file, or {"array", "sampling_rate"}.
        src_lang: language of the texts, or a list or column with one per text; None is "Unspecified
            language".
        tgt_lang: language to write; default English.
        batch_size: texts per batch; default 32.
        num_beams, max_new_tokens and all other options of `generate`. With these two alone, a
            faster loop gives the same tokens. By default as the model's generation config says: a
            converted SONAR has 5 beams.
        rerank_weight: weight of the cosine between the embeddings of a beam and of the sentence; 0
            takes the most probable beam. Default: that of the generation config. Not with other
            options of `generate`.
        on_long: treatment of texts beyond the model's length: "warn" (truncate and log), "error" or
            "split"; default: the tokenizer's setting. "split" translates the mean of the pieces'
            embeddings, which gives a rough summary, not a translation.

    Returns:
        A list of {"translation_text": str}, in the order of the input; one text gives a list of
        one.

    Raises:
        ValueError: inputs that are neither texts nor finite floating-point embeddings, or options
            that do not fit.
    """

    # Each is one of several classes, as the checkpoint says.
    model: Any
    tokenizer: Any
    feature_extractor: Any

    _load_tokenizer = None  # that of a speech encoder is in decoder/
    # transformers has no type for them beside its default, None.
    _load_processor = False  # type: ignore[assignment]
    _load_image_processor = False  # type: ignore[assignment]
    _load_feature_extractor = False  # type: ignore[assignment]
    _pipeline_calls_generate = False

    def __init__(self, *args: Any, batch_size: int = 32, **kwargs: Any):
        super().__init__(*args, batch_size=batch_size, **kwargs)
        name = self.model.config.name_or_path
        if self.tokenizer is None:
            place = self.model.decoder_place if self._hears else name
            if place != name:
                self.tokenizer = AutoTokenizer.from_pretrained(place).open_target(place)
            # By its class: an AutoTokenizer would ask for trust_remote_code again.
            elif self._hears:
                self.tokenizer = EchoTokenizer.from_pretrained(name, subfolder=DECODER_FOLDER)
            else:
                self.tokenizer = AutoTokenizer.from_pretrained(name)
        if not hasattr(self.tokenizer, "pair_ids") and self.model.config.prompts == "none":
            self.tokenizer = EchoTokenizer.around(self.tokenizer)
        if name and not self._hears:
            self.tokenizer.open_target(name)

    @property
    def _hears(self) -> bool:
        """Whether the model reads audio."""
        return self.model.config.model_type == "echo_speech"

    def _check_source(self, lang: str | list[str | None]) -> None:
        """A tokenizer without prompts would take any word for a language."""
        check_known_langs(lang, getattr(self.model.config, "languages", None))

    def _embed_audio(self, audio: Any) -> torch.Tensor:
        if self.feature_extractor is None:
            self.feature_extractor = self.model.open_feature_extractor()
        with torch.inference_mode():
            inputs = self.feature_extractor([audio], return_tensors="pt").to(self.device)
            return self.model.encoder(**inputs).sentence_embedding.cpu()

    def _sanitize_parameters(
        self,
        src_lang: str | Iterable[str | None] | None = None,
        tgt_lang: str | None = None,
        on_long: str | None = None,
        **generate_kwargs: Any,
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Split the options of a call into those of preprocessing and of the model."""
        other_names = sorted({"source_lang", "target_lang"} & set(generate_kwargs))
        if other_names:
            raise ValueError(
                f"{' and '.join(other_names)}: the pipeline calls its languages src_lang and tgt_lang"
            )
        if tgt_lang is not None and not isinstance(tgt_lang, str):
            raise ValueError(f"tgt_lang is one code for all texts of a call, not {tgt_lang!r}")
        if generate_kwargs.get("num_return_sequences", 1) != 1:
            raise ValueError(
                "sonar-translation gives one translation per text; use model.generate for several"
            )
        # What this call does not say stays as it was when the pipeline was made.
        preprocess: dict[str, Any] = {}
        if src_lang is not None:
            if isinstance(src_lang, str):
                self._check_source(src_lang)
            preprocess["src_lang"] = src_lang
        if on_long is not None:
            preprocess["on_long"] = on_long
        forward: dict[str, Any] = {}
        if generate_kwargs:
            forward["generate_kwargs"] = generate_kwargs
        if tgt_lang is not None:
            forward["tgt_lang"] = tgt_lang
        return preprocess, forward, {}

    def __call__(
        self,
        inputs: Any,
        *,
        src_lang: str | Iterable[str | None] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Translate texts, embeddings, recordings, or a data set of transformers."""
        # Embeddings: one row of the pipeline for each.
        is_numbers = isinstance(inputs, np.ndarray) and inputs.dtype.kind not in "OSTU"
        if is_numbers or isinstance(inputs, torch.Tensor):
            vectors = torch.as_tensor(inputs)
            if not vectors.is_floating_point():
                raise ValueError(f"embeddings must be floating point numbers, not {vectors.dtype}")
            if vectors.ndim not in (1, 2):
                raise ValueError(
                    f"embeddings have shape {tuple(vectors.shape)}; give (embedding_size,) or rows of it"
                )
            vectors = check_finite(vectors.float())
            inputs = [{"embedding": row} for row in torch.atleast_2d(vectors)]
            return super().__call__(inputs, **kwargs) if inputs else []
        # Texts, audio or a data set of transformers, as a list where it has a length.
        if isinstance(inputs, (str, dict, bytes)):
            inputs = [inputs]
        elif self._hears:
            inputs = list(inputs)
        elif not isinstance(inputs, Iterable):  # such as a KeyDataset of transformers
            if src_lang is not None:
                kwargs["src_lang"] = src_lang
            return super().__call__(inputs, **kwargs)
        else:
            inputs = rows_of(inputs, "inputs")
            check_no_lists(inputs)
            if not any(isinstance(row, dict) for row in inputs):
                check_texts(inputs)  # here, because the row number is known
        # One language for all texts, or one for each.
        src_lang = langs_of(src_lang, len(inputs), "src_lang")
        if isinstance(src_lang, list):
            self._check_source(src_lang)
            inputs = [
                {"text": text, "lang": lang} for text, lang in zip(inputs, src_lang, strict=True)
            ]
        elif src_lang is not None:
            kwargs["src_lang"] = src_lang
        return super().__call__(inputs, **kwargs) if inputs else []

    def preprocess(
        self, inputs: dict[str, Any], src_lang: str | None = None, on_long: str | None = None
    ) -> dict[str, Any]:
        """The inputs of the model for one text, embedding or recording."""
        # Embeddings as they are, audio by the encoder.
        if isinstance(inputs, dict) and "embedding" in inputs:
            return {"sentence_embedding": torch.as_tensor(inputs["embedding"]).float()[None]}
        if self._hears:
            return {"sentence_embedding": self._embed_audio(inputs)}
        text = inputs
        lang = src_lang
        if isinstance(inputs, dict):
            text = inputs["text"]
            lang = inputs.get("lang", src_lang)
        if not isinstance(text, str):
            raise ValueError(
                f"sonar-translation takes texts or embeddings, not {type(text).__name__}"
            )
        # Texts by the tokenizer, which splits or cuts long ones.
        blank = torch.tensor([is_blank(text)])
        on_long = on_long or self.tokenizer.on_long
        if on_long == "split" and not self.model.bottleneck:
            raise ValueError(
                "a stage-1 checkpoint reads tokens and cannot join pieces: use on_long='warn' or 'error'"
            )
        encoded = self.tokenizer(
            [text], lang=lang, truncation=True, padding=True, return_tensors="pt", on_long=on_long
        )
        if on_long == "split":  # average the pieces here, so that a batch has one row per text
            with torch.inference_mode():
                embedding = self.model.encoder(**encoded.to(self.device)).sentence_embedding
            return {"sentence_embedding": embedding.cpu(), "is_blank": blank}
        return {**encoded, "is_blank": blank}

    def _forward(
        self,
        inputs: dict[str, Any],
        tgt_lang: str = "eng_Latn",
        generate_kwargs: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """The tokens of the translations; empty for an empty text."""
        blanks = inputs.pop("is_blank", None)
        ids = self._translate(inputs, tgt_lang, generate_kwargs)
        if blanks is not None:
            # For an empty text the decoder would invent a sentence.
            translated = ids
            ids = []
            for is_blank, row in zip(blanks.tolist(), translated, strict=True):
                ids.append([] if is_blank else row)
        return {"ids": ids}

    def _translate(
        self, inputs: dict[str, Any], tgt_lang: str, generate_kwargs: dict[str, Any] | None
    ) -> list[list[int]]:
        """The tokens of the translations, without the prompt."""
        options = dict(generate_kwargs or {})
        if not {"max_new_tokens", "max_length", "generation_config"} & set(options):
            options["max_new_tokens"] = 128
        prompt = self.tokenizer.target.decoder_prompt_ids(tgt_lang)
        check_target_lang(self.model.decoder, tgt_lang)

        # One vector of each sentence, where the decoder reads one.
        bottleneck = self.model.bottleneck
        embedding = inputs.get("sentence_embedding")
        if embedding is None and bottleneck:
            embedding = self.model.encoder(**inputs).sentence_embedding
        if embedding is not None and not bottleneck:
            raise ValueError(
                "this is a stage-1 checkpoint: its decoder reads tokens, not sentence embeddings; give texts"
            )

        # Our own decoding where it knows all options; transformers' `generate` for the rest.
        if embedding is not None:
            inputs = {"sentence_embedding": check_finite(embedding)}
            if set(options) <= OUR_OPTIONS and is_echo_decoder(self.model.decoder):
                return decode_embeddings(
                    self.model, self.tokenizer, **inputs, target_lang=tgt_lang, **options
                )
        if "rerank_weight" in options:
            raise ValueError(
                "rerank_weight belongs to an Echo decoder of sentence embeddings, and goes with num_beams and "
                f"max_new_tokens only; got {', '.join(sorted(options))}"
            )
        check_prompt(self.model.decoder, prompt)
        rows = len(next(iter(inputs.values())))
        ids = self.model.generate(
            **inputs, decoder_input_ids=torch.tensor([prompt] * rows, device=self.device), **options
        )
        return [row[len(prompt) :].tolist() for row in ids]

    def postprocess(self, outputs: dict[str, Any]) -> dict[str, str]:
        """{"translation_text": ...} of the token ids of one text."""
        ids = outputs["ids"]
        # The base class does not unpack a batch of one.
        if ids and isinstance(ids[0], list):
            ids = ids[0]
        text = self.tokenizer.target.decode(ids, skip_special_tokens=True)
        return {"translation_text": text.strip()}
