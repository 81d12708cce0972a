"""Open the release of a speech encoder by its own code, embed a recording and translate it.

    python open_speech_release.py RELEASE RECORDING OUT.npy

Writes the embedding, and prints the French translation.
"""

import sys

import numpy as np
from sentence_transformers import SentenceTransformer
from transformers import AutoModelForSeq2SeqLM, pipeline

release, recording, out = sys.argv[1:]
model = AutoModelForSeq2SeqLM.from_pretrained(release, trust_remote_code=True)
assert type(model).__name__ == "EchoSpeechForTranslation", type(model)

encoder = SentenceTransformer(release, device="cpu", trust_remote_code=True)
np.save(out, encoder.encode([recording]))
translator = pipeline("sonar-translation", model=release, device="cpu", trust_remote_code=True)
(answer,) = translator(recording, tgt_lang="fra_Latn")
print(answer["translation_text"])
