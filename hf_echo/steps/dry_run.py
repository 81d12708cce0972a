"""`hf-echo train RECIPE --dry-run`: what a recipe would train,
and what is missing to train it here."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoTokenizer

from ..checkpoints.open_text import is_release
from ..inference.encode import opening
from ..modeling import EchoConfig, EchoDecoderConfig
from ..modeling.configuration_echo import DECODER_FOLDER
from ..stages.core.adapter import read_adapter_settings
from ..stages.core.arguments import DataArguments
from ..stages.core.model_shape import VocabularyOnly, check_same_shape
from ..stages.core.plan import ECHO
from ..stages.core.stage import Stage
from ..utils.files import first_line
from ..utils.hub import may_be_on_hub, packaged_model
from .recipe import Training, earlier_steps, known_overrides, read_recipe, read_values
from .record import check_output_folder, checkpoint_to_resume, is_finished, read_record, record_of
from .step import Operation


class _Start:
    """What the recipe starts from: a checkpoint that is here,
    or one that an earlier recipe would make."""

    def __init__(self, path: Path, overrides: dict[str, Any], journey: Sequence[Path] | None):
        # Without a journey, overrides are of this recipe alone.
        self.overrides = overrides if journey is not None else {}
        self.earlier = earlier_steps(path, journey)
        self.path = path
        self.journey = journey
        self.problems: list[str] = []

    def config(self, field: str, name: str, kinds: tuple[Any, ...] = ECHO) -> Any:
        """None where nobody can say: a problem, or an earlier recipe makes it from another
        model."""
        made_by = None if Path(name).is_dir() else self._made_by(name)
        try:
            config = stored_config(name) if made_by is None else self._planned(*made_by)
        except (OSError, ValueError, KeyError) as error:
            self.problems.append(f"{field}: {first_line(error)}")
            return None
        if config is not None and not isinstance(config, kinds):
            types = " or ".join(kind.model_type for kind in kinds)
            self.problems.append(
                f"{field}: {name} is a model of type {config.model_type!r}, not {types}"
            )
            return None
        return config

    def _made_by(self, name: str) -> tuple[Path, Training | Operation] | None:
        """The earlier recipe, and its step, that saves there."""
        for place in reversed(self.earlier):
            try:
                step = read_recipe(place, known_overrides(place, self.overrides))
            except ValueError:
                continue  # it has its own dry run, which says so
            if Path(step.output_dir) == Path(name):
                return place, step
        return None

    def _planned(self, place: Path, step: Training | Operation) -> Any:
        """The configuration of what an earlier step would save; None where it is not known."""
        start = _Start(place, self.overrides, self.journey)
        if isinstance(step, Training):
            return step.stage.plan(step.model, step.config, start)
        if not step.kinds():
            return None
        config = start.config("model", vars(step)["model"], step.kinds())
        return None if config is None else step.planned(copy.deepcopy(config))

    def makes(self, name: str) -> bool:
        """Whether an earlier recipe writes this file or folder, or a part of this folder."""
        outputs = []
        for place in self.earlier:
            values = read_values(place, known_overrides(place, self.overrides))
            outputs.append(Path(values["output_dir"]))
        is_inside = bool({Path(name), *Path(name).parents} & set(outputs))
        return is_inside or any(Path(name) in output.parents for output in outputs)

    def check_other_models(self, args: DataArguments) -> None:
        """Note a teacher, guide or file of errors that is neither there nor made by an earlier
        step."""
        for field in ("teacher", "guide", "base_languages_of"):
            name = packaged_model(getattr(args, field) or "")
            if (
                name
                and not Path(name).is_dir()
                and self._made_by(name) is None
                and not may_be_on_hub(name)
            ):
                self.problems.append(f"{field}: no folder {name}")
        errors = args.teacher_xsimpp
        if errors and not Path(errors).is_file() and not self.makes(errors):
            self.problems.append(
                f"teacher_xsimpp: no file {errors}; the operation measure_teacher writes it"
            )

    def vocabulary(self, model_args: Any) -> VocabularyOnly:
        """Of the tokenizer that the recipe names, where it is here or planned;
        else of one to be trained."""
        name = model_args.tokenizer_name_or_path
        size = model_args.vocab_size
        made_by = self._made_by(name) if name and not Path(name).is_dir() else None
        if made_by is not None:
            size = getattr(self._planned(*made_by), "vocab_size", size)
        elif name:
            try:
                with opening(name) as place:
                    size = len(AutoTokenizer.from_pretrained(place))
            except (OSError, ValueError, KeyError) as error:
                self.problems.append(f"tokenizer_name_or_path: {first_line(error)}")
        return VocabularyOnly(size)


def stored_config(name: str) -> Any:
    """The configuration of a checkpoint; that of a release names its decoder, too."""
    with opening(name) as place:
        config = AutoConfig.from_pretrained(place)
        if isinstance(config, EchoConfig) and config.decoder is None and is_release(place):
            config.decoder = EchoDecoderConfig.from_pretrained(place, subfolder=DECODER_FOLDER)
    return config


def dry_run(
    path: Path, overrides: dict[str, Any] | None = None, *, journey: Sequence[Path] | None = None
) -> dict[str, Any]:
    """What a recipe would train, without training: parameters by part, tokens, estimated memory,
    "problems".

    `journey`: the recipes that are run together, with the same overrides; by default those beside
    `path`, with none. What an earlier one would save is planned from its recipe.
    """
    step_overrides = known_overrides(path, overrides or {}) if journey is not None else overrides
    training = read_recipe(path, step_overrides)
    if isinstance(training, Operation):
        raise ValueError(f"{path} names an operation, not a training stage")
    declared = training.stage
    model_args = training.model
    args = training.config
    length = {"steps": args.max_steps} if args.max_steps > 0 else {"epochs": args.num_train_epochs}
    report: dict[str, Any] = {"recipe": path.stem, "stage": declared.name, **length}
    start = _Start(path, overrides or {}, journey)
    # The sizes, where it is known what the recipe starts from.
    try:
        config = declared.plan(model_args, args, start)
        if model_args.model_name_or_path:
            check_same_shape(model_args.shape, config, model_args.model_name_or_path)
        if config is not None:
            adapter = None
            if model_args.adapter is not None:
                adapter = read_adapter_settings(model_args.adapter, "adapter")
            report |= declared.size(config, args, adapter)
    except (OSError, ValueError) as error:
        start.problems.append(f"model: {first_line(error)}")
    # What else is missing: other models, data, room for the output.
    start.check_other_models(training.data)
    data = _data(declared, training.data, start)
    problems = [*start.problems, *data.pop("problems"), *_output_problems(training)]
    report |= {"data": data} if data else {}
    return report | ({"problems": list(dict.fromkeys(problems))} if problems else {})


def _data(stage: Stage, args: DataArguments, start: _Start) -> dict[str, Any]:
    """{"pairs", "problems"}; a name on the Hub is not asked for,
    and what an earlier recipe makes is not missed."""
    description: dict[str, Any] = {"problems": []}
    is_here = not args.train_data or _is_here(args.train_data)
    is_made = not is_here and start.makes(args.train_data)
    if not is_here and not is_made and _hub_name(args.train_data):
        description["problems"].append(
            f"train_data: {args.train_data} is not here; a name on the Hub is not looked up"
        )
    elif not is_made:
        # It is read as the run reads it.
        try:
            description["pairs"] = len(stage.load_rows(args))
        except (OSError, ValueError) as error:
            description["problems"].append(f"train_data: {first_line(error)}")
    for name, source in args.dev_data.items():
        # A name on the Hub, and what an earlier recipe makes, is not missed.
        place = str(source.get("path", "") if isinstance(source, dict) else source)
        if not _is_here(place) and (_hub_name(place) or start.makes(place)):
            continue
        try:
            stage.load_dev_sets(type(args)(dev_data={name: source}, dev_negatives=0))
        except (OSError, ValueError) as error:
            description["problems"].append(f"dev_data.{name}: {first_line(error)}")
    return description


def _is_here(name: str) -> bool:
    return name == "builtin" or Path(name).exists()


def _hub_name(name: str) -> bool:
    from ..data.readers import looks_like_file

    return not looks_like_file(name)


def _output_problems(training: Training) -> list[str]:
    """Why the output folder cannot be used; empty if it can."""
    out = Path(training.output_dir)
    try:
        check_output_folder(out)
        run = record_of(training)
        before = read_record(out)
        if not is_finished(out, run, before):
            checkpoint_to_resume(out, run, before, fresh=False)
    except (OSError, ValueError) as error:
        return [first_line(error)]
    return []
