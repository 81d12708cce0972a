"""Print as JSON what a process sees after `import hf_echo`; transformers is imported before it."""

import json
import sys


def loaded(names: tuple[str, ...]) -> list[str]:
    return [name for name in names if name in sys.modules]


def main() -> None:
    import transformers

    get_attribute = transformers.__dict__.get("__getattr__")
    import hf_echo

    seen = {
        "transformers is unchanged": transformers.__dict__.get("__getattr__") is get_attribute,
        "loaded too early": loaded(("datasets", "sentence_transformers", "hf_echo.hub")),
    }
    from transformers.pipelines import PIPELINE_REGISTRY

    seen["registered"] = [
        "echo" in transformers.CONFIG_MAPPING,
        "sonar-translation" in PIPELINE_REGISTRY.supported_tasks,
        "m2m_100" in hf_echo.modeling.modeling_echo.OTHER_TRANSLATION_MODELS,
    ]
    import hf_echo.inference.encode_file

    unused = ("datasets", "sentence_transformers", "sklearn", "peft", "faiss")
    seen["loaded to encode a file"] = loaded(unused)

    # The names of the package, and what is none.
    names = hf_echo.__all__
    seen["not in dir"] = sorted({*names, "hub", "evaluation"} - {*dir(hf_echo)})
    strange = ("EchoDecoders", "recipes", "no_such_part", "_x")
    seen["strange names"] = [name for name in strange if hasattr(hf_echo, name)]
    seen["misnamed"] = [name for name in names if getattr(hf_echo, name).__name__ != name]
    seen["one class"] = hf_echo.modeling.EchoEncoder is hf_echo.EchoEncoder
    seen["pretrained"] = type(hf_echo.pretrained("echo-nano")).__name__
    seen["space"] = (hf_echo.hub.space_folder() / "app.py").exists()
    seen["parts"] = [hf_echo.hub.push.__name__, hf_echo.evaluation.language_sets.__name__]
    seen["no such part"] = hasattr(hf_echo.evaluation, "no_such_part")

    modules_of_hooks = [getattr(hook, "__module__", "") for hook in sys.meta_path]
    seen["import hooks"] = [name for name in modules_of_hooks if name.startswith("hf_echo")]
    print(json.dumps(seen))


main()
