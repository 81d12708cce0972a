"""Open a modular encoder by its own code, save it, open the copy, and encode German texts.

python save_modular_again.py MODEL COPY OUT.npy TEXT...
"""

import sys

import numpy as np
from sentence_transformers import SentenceTransformer

model, copy, out, *texts = sys.argv[1:]
SentenceTransformer(model, trust_remote_code=True).save(copy, create_model_card=False)
opened = SentenceTransformer(copy, trust_remote_code=True)
np.save(out, opened.encode(texts, prompt_name="deu_Latn"))
