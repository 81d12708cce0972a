"""Open a Spectrum by its own code.

    python open_spectrum.py FOLDER VECTORS.pt

Replaces the vectors of a document in the file by the logits of three tokens behind it.
"""

import sys

import torch
from transformers import AutoModel, AutoModelForCausalLM

folder, file = sys.argv[1:]
model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)
AutoModel.from_pretrained(folder, trust_remote_code=True)
assert type(model).__module__.startswith("transformers_modules")

vectors = torch.load(file)
with torch.no_grad():
    document = model.encode_document(vectors)
    torch.save(model(vectors[None], torch.tensor([[1, 4, 6]])).logits, file)
assert len(model.generate(document, max_new_tokens=3)) == 1
