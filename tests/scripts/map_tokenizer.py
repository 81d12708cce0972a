"""Map rows in two processes by a tokenizer of remote code.

python map_tokenizer.py FOLDER
"""

import sys

from datasets import Dataset
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(sys.argv[1], trust_remote_code=True)
assert type(tokenizer).__module__.startswith("transformers_modules.")
rows = Dataset.from_dict({"text": ["a cat", "a dog"] * 4})

rows = rows.map(tokenizer, input_columns="text", batched=True, num_proc=2)

assert rows["input_ids"][:] == tokenizer(rows["text"][:])["input_ids"]
