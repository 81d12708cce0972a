"""The page of a metric Space: the arguments of `compute` as JSON in, the result as JSON out.

That of evaluate 0.4.6, `launch_gradio_widget`, calls `gr.inputs`, which gradio 3 had and gradio 6
lacks.
"""

import json
from pathlib import Path

import evaluate
import gradio as gr


def metric_page(name: str, example: dict) -> gr.Interface:
    """The page of the metric in NAME.py beside this file;
    `example` holds arguments of `compute`."""
    folder = Path(__file__).parent
    metric = evaluate.load(str(folder / f"{name}.py"))
    card = (folder / "README.md").read_text(encoding="utf-8")

    def compute(arguments: str) -> dict:
        try:
            return metric.compute(**json.loads(arguments))
        except (TypeError, ValueError) as error:  # what the visitor wrote
            raise gr.Error(str(error)) from error

    return gr.Interface(
        compute,
        gr.Textbox(json.dumps(example), label="Arguments of compute, as JSON", lines=8),
        gr.JSON(label="Result"),
        title=name,
        description=metric.description,
        article=card.split("---\n", 2)[2],
        flagging_mode="never",
        analytics_enabled=False,
        api_name="compute",
    )
