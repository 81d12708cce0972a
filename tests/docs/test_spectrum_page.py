"""docs/spectrum.md: its code runs, its figure is the one that the masks draw, its table names the stages."""

import re
import runpy
from pathlib import Path
from xml.etree import ElementTree

import torch

import hf_echo
from hf_echo.modeling import SpectrumConfig, SpectrumForCausalLM, SpectrumModel
from hf_echo.stages.spectrum.parts import join
from hf_echo.steps.table import STAGES

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "spectrum.md").read_text(encoding="utf-8")


def test_three_questions_of_one_document(tmp_path, monkeypatch, capsys):
    from transformers import AutoTokenizer

    nano = str(hf_echo.pretrained("echo-nano"))
    torch.manual_seed(0)
    shape = dict(hidden_size=384, embedding_size=384, intermediate_size=32, num_hidden_layers=1, num_attention_heads=4)
    tower = SpectrumModel(SpectrumConfig(**shape))
    tower.set_boe(torch.randn(384))
    folder = tmp_path / "outputs" / "spectrum-nano" / "3_prefix"
    join(tower, nano).save_pretrained(folder)
    AutoTokenizer.from_pretrained(nano).save_pretrained(folder)
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
    names: dict = {}
    exec(code, names)
    assert capsys.readouterr().out.count("\n") >= 3
    assert isinstance(names["model"], SpectrumForCausalLM) and names["document"].mask.sum() == 4
    calls = re.findall(r"`model\.(\w+)\(", PAGE)
    assert calls and all(hasattr(names["model"], name) for name in calls)


def test_the_figure_is_drawn_from_the_masks():
    script = runpy.run_path(str(DOCS.parent / "train_scripts" / "studies" / "spectrum_masks.py"))
    drawn = script["svg"]()
    assert (DOCS / "spectrum-masks.svg").read_text(encoding="utf-8") == drawn
    cells = [e.get("fill") for e in ElementTree.fromstring(drawn).iter() if e.tag.endswith("rect")][1:]
    panels = [mask for _, _, _, mask in script["panels"]()]
    assert len(cells) == sum(mask.numel() for mask in panels)
    assert cells.count("#2b6cb0") == sum(int(mask.sum()) for mask in panels)


def test_the_page_names_the_stages():
    named = set(re.findall(r"^\| \d \| `(\w+)`", PAGE, flags=re.MULTILINE))
    assert named == {name for name in STAGES if name.startswith("spectrum_")}
