"""Check whether the Hub can be reached."""

from __future__ import annotations

from collections.abc import Sequence

FILES = ("config.json", "modules.json", "tokenizer.json", "tokenizer_config.json")


def out_of_reach(name: str, files: Sequence[str] = FILES, kind: str = "model") -> str | None:
    """Why the Hub cannot be reached for a model that is not cached; None if it answers or the model is cached.

    transformers would try file by file, with retries, for most of a minute.

    Args:
        kind: "model" or "dataset".
    """
    from huggingface_hub import HfApi, try_to_load_from_cache
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        if any(isinstance(try_to_load_from_cache(name, file, repo_type=kind), str) for file in files):
            return None
        ask = HfApi().model_info if kind == "model" else HfApi().dataset_info
        ask(name, timeout=10)
    except (HfHubHTTPError, HFValidationError, ValueError):
        return None
    except Exception as error:  # the exceptions of the HTTP client vary with the version of huggingface_hub
        return (str(error) or type(error).__name__).splitlines()[0]
    return None
