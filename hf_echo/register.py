"""Makes the models and the pipeline of this package known to transformers, by its own `register`
functions.

`import hf_echo` registers. The command `hf-echo` does it when it runs, since the models of
transformers take seconds to import and no help needs them.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PIPELINE = "sonar-translation"


def is_command() -> bool:
    """Whether this process is the command `hf-echo`."""
    program = sys.argv[0] if sys.argv else ""
    return Path(program).stem == "hf-echo"


@contextmanager
def collector_rests() -> Iterator[None]:
    """No garbage collection inside the block.

    An import makes objects that stay, and Python's search for garbage among them takes a sixth of
    its time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def register_with_transformers() -> None:
    """Register all classes. A second call changes nothing."""
    with collector_rests():
        _register()


def _register() -> None:
    """Make the package's models, tokenizers and pipeline known to transformers."""
    from transformers import (
        AutoConfig,
        AutoFeatureExtractor,
        AutoModel,
        AutoModelForCausalLM,
        AutoModelForSeq2SeqLM,
        AutoTokenizer,
    )
    from transformers.pipelines import PIPELINE_REGISTRY

    from . import modeling
    from .modeling.modeling_echo_base import EchoPreTrainedModel
    from .utils.adapter_base import check_base

    EchoPreTrainedModel.check_adapter = check_base
    for config in (
        modeling.BlaserConfig,
        modeling.EchoConfig,
        modeling.EchoDecoderConfig,
        modeling.EchoSpeechConfig,
        modeling.SpectrumConfig,
    ):
        AutoConfig.register(config.model_type, config, exist_ok=True)
    AutoModel.register(modeling.BlaserConfig, modeling.BlaserModel, exist_ok=True)
    AutoModel.register(modeling.EchoConfig, modeling.EchoEncoder, exist_ok=True)
    AutoModel.register(modeling.EchoSpeechConfig, modeling.EchoSpeechEncoder, exist_ok=True)
    AutoModel.register(modeling.SpectrumConfig, modeling.SpectrumModel, exist_ok=True)
    AutoModelForSeq2SeqLM.register(modeling.EchoConfig, modeling.EchoForTranslation, exist_ok=True)
    AutoModelForSeq2SeqLM.register(modeling.EchoDecoderConfig, modeling.EchoDecoder, exist_ok=True)
    # Its import makes SONAR's decoder known to EchoForTranslation, which opens both kinds of
    # folders.
    modeling.SonarForTranslation  # noqa: B018
    AutoModelForSeq2SeqLM.register(
        modeling.EchoSpeechConfig, modeling.EchoSpeechForTranslation, exist_ok=True
    )
    AutoModelForCausalLM.register(
        modeling.SpectrumConfig, modeling.SpectrumForCausalLM, exist_ok=True
    )
    AutoFeatureExtractor.register(
        modeling.EchoSpeechConfig, modeling.EchoAudioFeatureExtractor, exist_ok=True
    )
    # transformers finds a tokenizer by its class in tokenizer_config.json; the last one serves a
    # folder without it.
    AutoTokenizer.register(modeling.EchoConfig, modeling.SonarTokenizer, exist_ok=True)
    AutoTokenizer.register(modeling.EchoConfig, modeling.EchoTokenizer, exist_ok=True)
    if PIPELINE not in PIPELINE_REGISTRY.get_supported_tasks():  # a second registration warns
        PIPELINE_REGISTRY.register_pipeline(
            PIPELINE,
            pipeline_class=modeling.SonarTranslationPipeline,
            pt_model=AutoModelForSeq2SeqLM,
            default={"model": (str(Path(__file__).parent / "pretrained" / "echo-nano"), None)},
            type="text",
        )
