"""Open both versions of a model and of its pairs by their names, with the package installed.

    python open_two_versions.py OUT.npz

Writes, for each tag: "TAG", the embedding of a sentence; "TAG decoder", the decoder's last matrix;
"TAG print", the fingerprint; "TAG rows", the sources of the pairs. A name that is not there has the
words of its refusal.
"""

import sys

import numpy as np

from hf_echo.data import load_parallel
from hf_echo.inference import load_translator
from hf_echo.inference.any_encoder import any_encoder
from hf_echo.utils.fingerprint import fingerprint

answers = {}
for tag in ("v1.0.0", "v2.0.0"):
    name = f"tester/versions@{tag}"
    encode = any_encoder(name, dtype="fp32")
    model = load_translator(name, dtype="fp32")[0]
    answers[tag] = encode(["Le chat dort."], "fra_Latn")
    answers[f"{tag} decoder"] = model.decoder.lm_head.weight.detach().numpy()
    answers[f"{tag} print"] = fingerprint(name)
    answers[f"{tag} rows"] = load_parallel(f"tester/pairs@{tag}")["source"][:]
for name in ("tester/versions@v9", "tester/none@v1.0.0"):
    try:
        any_encoder(name)
    except FileNotFoundError as error:
        answers[name] = str(error)
np.savez(sys.argv[1], **answers)
