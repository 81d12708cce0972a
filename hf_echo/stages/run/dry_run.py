"""`hf-echo train RECIPE --dry-run`: what a recipe would train, on paper, and what keeps it from being trained here."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoTokenizer

from ...inference.encode import opening
from ...modeling import EchoConfig, EchoForTranslation
from ...utils.hub import packaged_model
from ..core.cls_encoder import count_parameters
from ..core.model_shape import new_config
from ..core.stage import Rows, Stage
from ..table import STAGES
from .data import rows_of
from .operation import is_operation, read_operation
from .recipe import read_recipe
from .record import check_output_folder, checkpoint_to_resume, is_finished, read_record
from .steps import earlier_steps, known_overrides, output_dir


class _VocabularyOnly:
    """Stands for a tokenizer that is not here (a dry run of `large`)."""

    model_max_length = 512
    pad_token_id = bos_token_id = eos_token_id = cls_token_id = sep_token_id = None

    def __init__(self, size: int):
        self.size = size

    def __len__(self) -> int:
        return self.size


class _Start:
    """What the recipe starts from: a checkpoint that is here, or one that an earlier recipe would make."""

    def __init__(self, path: Path, overrides: dict[str, Any], journey: Sequence[Path] | None):
        # Without a journey, overrides are of this recipe alone.
        self.overrides = overrides if journey is not None else {}
        self.earlier = earlier_steps(path, journey)
        self.path, self.journey, self.problems = path, journey, []

    def config(self, field: str, name: str) -> EchoConfig | None:
        """None where nobody can say: then it is among the problems."""
        if Path(name).is_dir() or not (found := self._planned(name)):
            return self._config_here(field, name)
        return found

    def _config_here(self, field: str, name: str) -> EchoConfig | None:
        try:
            with opening(name) as place:
                config = AutoConfig.from_pretrained(place)
        except (OSError, ValueError, KeyError) as error:
            self.problems.append(f"{field}: {_line(error)}")
            return None
        if not isinstance(config, EchoConfig):
            self.problems.append(f"{field}: {name} is a model of type {config.model_type}, not an Echo checkpoint")
            return None
        return config

    def _planned(self, name: str) -> EchoConfig | None:
        """The configuration of what an earlier recipe would save there."""
        for place in reversed(self.earlier):
            overrides = known_overrides(place, self.overrides)
            try:
                if Path(output_dir(place, overrides)) != Path(name):
                    continue
            except ValueError:
                continue  # it has its own dry run, which says so
            start = _Start(place, self.overrides, self.journey)
            if is_operation(place):
                operation, settings = read_operation(place, overrides)
                config = start.config("model", settings.model)
                return operation.plan(settings, copy.deepcopy(config)) if config is not None else None
            stage, model_args, _, args, _ = read_recipe(place, overrides)
            return start.planned(stage, model_args, args)
        return None

    def planned(self, stage: str, model_args, args) -> EchoConfig | None:
        """What this recipe would save; None where its start is not known."""
        base, config = model_args.model_name_or_path, None
        if STAGES[stage].plan:
            return STAGES[stage].plan(args, _VocabularyOnly(self.vocab_size(model_args)))
        if STAGES[stage].beside:
            return self.encoder_alone(model_args)
        if base and ((config := self.config("model_name_or_path", base)) is not None or not model_args.shape):
            return config
        config = new_config(model_args.shape, _VocabularyOnly(self.vocab_size(model_args)))
        if model_args.decoder and (other := self.config("decoder", model_args.decoder)) and other.decoder:
            config.decoder = other.decoder
        return config

    def model_args(self, args) -> Any:
        """`args`, or those of the earlier recipe that would make the model it starts from, and so on."""
        name = args.model_name_or_path
        for place in reversed(self.earlier if name and not Path(name).is_dir() else []):
            overrides = known_overrides(place, self.overrides)
            if is_operation(place) or Path(output_dir(place, overrides)) != Path(name):
                continue
            return _Start(place, self.overrides, self.journey).model_args(read_recipe(place, overrides)[1])
        return args

    def encoder_alone(self, model_args) -> Any:
        """The configuration of an encoder of any kind, without a decoder; None where it is not known."""
        name = model_args.model_name_or_path
        if not name:
            config = new_config(model_args.shape, _VocabularyOnly(self.vocab_size(model_args)))
        elif Path(name).is_dir() or (config := self._planned(name)) is None:
            try:
                with opening(name) as place:
                    config = AutoConfig.from_pretrained(place)
            except (OSError, ValueError, KeyError) as error:
                self.problems.append(f"model_name_or_path: {_line(error)}")
                return None
        config = copy.deepcopy(config)
        if isinstance(config, EchoConfig):
            config.decoder = None
        return config

    def check_other_models(self, args) -> None:
        for field in ("teacher", "guide", "neighbours_by"):
            name = packaged_model(getattr(args, field) or "")
            if name and not Path(name).is_dir() and self._planned(name) is None and name.count("/") != 1:
                self.problems.append(f"{field}: no folder {name}")

    def vocab_size(self, args) -> int:
        """Of the tokenizer that the recipe names, where it is here or planned; else of one to be trained."""
        field = next((f for f in ("tokenizer_name_or_path", "static_embeddings") if getattr(args, f)), None)
        if field is None:
            return args.vocab_size
        name = getattr(args, field)
        if not Path(name).is_dir() and (config := self._planned(name)):
            return config.vocab_size
        try:
            with opening(name) as place:
                return len(AutoTokenizer.from_pretrained(place))
        except (OSError, ValueError, KeyError) as error:
            self.problems.append(f"{field}: {_line(error)}")
            return args.vocab_size


def dry_run(
    path: Path, overrides: dict[str, Any] | None = None, *, journey: Sequence[Path] | None = None
) -> dict[str, Any]:
    """What a recipe would train, without training: sizes by part, tokens and memory. No weight is allocated.

    Memory is an estimate for one device without sharding: fp32 weights, gradients and two AdamW moments, and per token
    and layer the activations that a Llama block keeps (about 34 hidden sizes in bf16, Korthikanti et al. 2022).

    Args:
        journey: the recipes that are run together, with the same overrides; by default those beside `path`, with none.
            What an earlier one would save is planned from its recipe.

    Returns:
        The report. Its "problems", where there are any, say which data, base or output cannot be used here.
    """
    own = known_overrides(path, overrides or {}) if journey is not None else overrides
    stage, model_args, data_args, args, values = read_recipe(path, own)
    report: dict[str, Any] = {"recipe": path.stem, "stage": stage, "steps": args.max_steps}
    start = _Start(path, overrides or {}, journey)
    if STAGES[stage].sizes:
        try:
            report |= STAGES[stage].sizes(start.model_args(model_args), args)
        except (OSError, ValueError) as error:
            start.problems.append(f"model: {_line(error)}")
        config = None
    else:
        config = start.planned(stage, model_args, args)
    if STAGES[stage].plan:
        weights = config.vocab_size * config.embedding_size
        report["parameters"] = {"token vectors": weights}
        report["memory_gib"] = {"weights, gradients, AdamW": 16 * weights / 2**30}
    elif STAGES[stage].beside:
        report |= _sizes_of_encoder(STAGES[stage], config, args) if config is not None else {}
    elif config is not None and config.decoder is not None:
        report |= _sizes(STAGES[stage], config, args)
    elif config is not None:
        start.problems.append(f"model_name_or_path: {model_args.model_name_or_path} has no decoder to train with")
    start.check_other_models(data_args)
    data = _data(rows_of(STAGES[stage]), data_args)
    problems = [*start.problems, *data.pop("problems"), *_output_problems(stage, model_args, args, values)]
    report |= {"data": data} if data else {}
    return report | ({"problems": list(dict.fromkeys(problems))} if problems else {})


def _sizes(stage: Stage, config: EchoConfig, args) -> dict[str, Any]:
    with torch.device("meta"):
        model = EchoForTranslation(config)

    def count(module) -> int:
        return sum(p.numel() for p in {id(p): p for p in module.parameters()}.values())

    parts = {
        "encoder embeddings": count(model.encoder.embed_tokens),
        "encoder layers": count(model.encoder.layers),
        "decoder embeddings (tied)": count(model.decoder.model.embed_tokens),
        "decoder layers": count(model.decoder.model.layers),
    }
    parts["other"] = count(model) - sum(parts.values())
    layers = config.num_hidden_layers + config.decoder.num_hidden_layers
    activations = 34 * args.max_tokens * config.hidden_size * (layers if not args.gradient_checkpointing else 2)
    trained = count({"encoder": model.encoder, "decoder": model.decoder, "model": model}[stage.learns])
    memory = {
        "weights": 4 * count(model) / 2**30,
        "gradients and AdamW": 12 * trained / 2**30,
        "activations": activations / 2**30,
    }
    return {
        "parameters": parts | {"total": count(model)},
        "batches": _batches(args),
        "memory_gib": memory | {"total": sum(memory.values())},
    }


def _sizes_of_encoder(stage: Stage, config: Any, args) -> dict[str, Any]:
    assert stage.beside is not None
    parameters = count_parameters(config, stage.beside(config, args))
    activations = 34 * args.max_tokens * config.hidden_size
    activations *= config.num_hidden_layers if not args.gradient_checkpointing else 2
    memory = {
        "weights, gradients, AdamW": 16 * parameters["total"] / 2**30,
        "activations": activations / 2**30,
    }
    return {
        "parameters": parameters,
        "batches": _batches(args),
        "memory_gib": memory | {"total": sum(memory.values())},
    }


def _batches(args) -> dict[str, int]:
    return {
        "tokens a device": args.max_tokens,
        "devices": args.world_size,
        "accumulation": args.gradient_accumulation_steps,
        "tokens a step": args.max_tokens * args.world_size * args.gradient_accumulation_steps,
    }


def _data(rows: Rows, args) -> dict[str, Any]:
    """{"pairs", "problems"}; a name on the Hub is not asked for."""
    found: dict[str, Any] = {"problems": []}
    if args.train_data and not _is_here(args.train_data) and _hub_name(args.train_data):
        found["problems"].append(f"train_data: {args.train_data} is not here; a name on the Hub is not looked up")
    else:
        try:
            found["pairs"] = len(rows.load(args))
        except (OSError, ValueError) as error:
            found["problems"].append(f"train_data: {_line(error)}")
    for name, source in args.dev_data.items():
        if not _is_here(str(source)) and _hub_name(str(source)):
            continue
        try:
            rows.load_dev(type(args)(dev_data={name: source}, dev_negatives=0))
        except (OSError, ValueError) as error:
            found["problems"].append(f"dev_data.{name}: {_line(error)}")
    return found


def _is_here(name: str) -> bool:
    return name == "builtin" or Path(name).exists()


def _hub_name(name: str) -> bool:
    from ...data.readers import looks_like_file

    return not looks_like_file(name)


def _output_problems(stage: str, model_args, args, values: dict[str, Any]) -> list[str]:
    out = Path(args.output_dir)
    run = {"stage": stage, "values": values}
    try:
        check_output_folder(out)
        run["from"] = read_record(model_args.model_name_or_path or model_args.static_embeddings)
        if model_args.decoder:
            run["decoder_from"] = read_record(model_args.decoder)
        before = read_record(out)
        if not is_finished(out, run, before):
            checkpoint_to_resume(out, run, before, fresh=False)
    except (OSError, ValueError) as error:
        return [_line(error)]
    return []


def _line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
