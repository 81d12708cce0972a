"""Backends: an OpenAI-compatible endpoint (vLLM, `transformers serve`, llama.cpp, hosted), or a model in this process.

A backend is called with messages and parameters (temperature, max_tokens, seed) and returns a `Reply`.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True)
class Reply:
    """A model's reply. ``finish`` is "length" if max_tokens stopped the model; token counts are None if unknown."""

    text: str
    finish: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class RequestFailed(Exception):
    """One request failed after all retries; other requests may succeed."""


class BackendRefused(ValueError):
    """All requests will fail: wrong key, wrong address, unknown model."""


class Backend(Protocol):
    model: str
    retries_taken: int

    def __call__(self, messages: list[dict[str, str]], parameters: dict[str, Any]) -> Reply: ...


class Endpoint:
    """Chat completions over HTTP with the ``openai`` client; thread-safe.

    Timeouts, dropped connections, 408, 409, 429 and 5xx are retried ``retries`` times with exponential
    backoff (0.5 to 8 s, or as Retry-After says).

    Args:
        model: name on the server.
        base_url: address with the version: ``http://localhost:8000/v1``.
        api_key: None for a server without keys.
        timeout: seconds to wait for an answer.

    Raises:
        ImportError: openai is not installed. ValueError: base_url is not an address.
    """

    def __init__(
        self, model: str, base_url: str, *, api_key: str | None = None, timeout: float = 120, retries: int = 5
    ) -> None:
        try:
            import openai
        except ImportError:
            raise ImportError("an endpoint needs the openai client: pip install 'hf-echo[llm]'") from None
        if not base_url.startswith(("http://", "https://")):
            raise ValueError(f"endpoint {base_url!r} is not an address such as http://localhost:8000/v1")
        self.model, self.base_url, self.retries_taken = model, base_url, 0
        self._openai = openai
        self._guard = threading.Lock()
        self._client = openai.OpenAI(base_url=base_url, api_key=api_key or "none", timeout=timeout, max_retries=retries)

    def __call__(self, messages: list[dict[str, str]], parameters: dict[str, Any]) -> Reply:
        """Send one request; raises RequestFailed or BackendRefused."""
        openai = self._openai
        try:
            raw = self._client.chat.completions.with_raw_response.create(
                model=self.model, messages=messages, **parameters
            )
            with self._guard:
                self.retries_taken += raw.retries_taken
            return _read_completion(raw.parse())
        except (
            openai.AuthenticationError,
            openai.PermissionDeniedError,
            openai.NotFoundError,
        ) as error:
            raise BackendRefused(f"{self.base_url} refuses model {self.model!r}: {_one_line(error)}") from None
        except (openai.OpenAIError, ValueError) as error:
            raise RequestFailed(_one_line(error)) from None


def _read_completion(completion: Any) -> Reply:
    try:
        choice = completion.choices[0]
        text, finish = choice.message.content, choice.finish_reason
    except (AttributeError, IndexError, TypeError):
        raise RequestFailed("the answer is not a chat completion") from None
    if text is not None and not isinstance(text, str):
        raise RequestFailed("the answer is not a chat completion: its content is not text")
    usage = getattr(completion, "usage", None)
    counts = (getattr(usage, name, None) for name in ("prompt_tokens", "completion_tokens"))
    return Reply(
        text or "", finish if isinstance(finish, str) else None, *(c if isinstance(c, int) else None for c in counts)
    )


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


class LocalModel:
    """A transformers chat model in this process: a folder, a GGUF file or a Hub name.

    It answers one request at a time: use it for small jobs and on machines without a server. For many requests run vLLM
    or ``transformers serve --continuous-batching`` and use `Endpoint`.

    Raises:
        FileNotFoundError: there is no such model. ValueError: not a chat model (no chat template).
    """

    def __init__(self, model: str | Path, *, device: str | None = None, dtype: str = "auto") -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        from ...utils.sources import locate, read_pretrained

        place, options = locate(model)
        self.tokenizer = read_pretrained(AutoTokenizer, model, place, **options)
        if not self.tokenizer.chat_template:
            raise ValueError(f"{model} has no chat template: give an instruction-tuned model")
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self._model = read_pretrained(AutoModelForCausalLM, model, place, dtype=dtype, **options).to(device).eval()
        self.model, self.retries_taken = str(model), 0
        self._guard = threading.Lock()

    def __call__(self, messages: list[dict[str, str]], parameters: dict[str, Any]) -> Reply:
        """Generate one reply; raises RequestFailed if prompt and reply exceed the model's context."""
        import torch

        inputs = self.tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
        ).to(self._model.device)
        length, new = inputs["input_ids"].shape[1], parameters["max_tokens"]
        context = getattr(self._model.config.get_text_config(), "max_position_embeddings", None)
        if context and length + new > context:
            raise RequestFailed(
                f"{length} prompt tokens and {new} for the reply exceed the context of {context} tokens"
            )
        sampling: dict[str, Any] = {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
        if parameters["temperature"] > 0:
            sampling = {"do_sample": True, "temperature": parameters["temperature"]}
        with self._guard, torch.inference_mode(), torch.random.fork_rng():
            torch.manual_seed(parameters["seed"])
            ids = self._model.generate(**inputs, max_new_tokens=new, pad_token_id=self._pad(), **sampling)[0, length:]
        ends = self._model.generation_config.eos_token_id
        ended = len(ids) and int(ids[-1]) in (ends if isinstance(ends, list) else [ends])
        text = self.tokenizer.decode(ids, skip_special_tokens=True)
        return Reply(text, "stop" if ended else "length", length, len(ids))

    def _pad(self) -> int | None:
        known = (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id)
        return next((i for i in known if i is not None), None)
