"""Open a converted SONAR by its own code: its encoder twice, and both other ways in.

    python open_sonar.py FOLDER

Prints JSON: three vectors of a sentence, and its German translation.
"""

import json
import sys

from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer, pipeline

TEXT = "Le chat dort."
name = sys.argv[1]
options = {"trust_remote_code": True}

translator = pipeline("sonar-translation", model=name, device="cpu", **options)
tokenizer = AutoTokenizer.from_pretrained(name, **options)
vectors = []
for _ in range(2):
    encoder = AutoModel.from_pretrained(name, **options).eval()
    batch = tokenizer([TEXT], lang="fra_Latn", return_tensors="pt")
    vectors.append(encoder(**batch).sentence_embedding[0].tolist())
model = SentenceTransformer(name, device="cpu", **options)
vectors.append(model.encode(TEXT, prompt_name="fra_Latn").tolist())
(answer,) = translator(TEXT, src_lang="fra_Latn", tgt_lang="deu_Latn", max_new_tokens=6)
print(json.dumps([vectors, answer["translation_text"]]))
