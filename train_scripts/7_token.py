"""OmniSONAR-Token (OS 10.1): token states that find their translations, sentence embeddings that stay.

    python train_scripts/7_token.py                                          # the nano recipe
    python train_scripts/7_token.py RECIPE train_data=corpus.parquet model_name_or_path=org/omnisonar
    torchrun --standalone --nproc_per_node 2 train_scripts/7_token.py max_steps=100

Data, tokenizer, model and trainer are put together in hf_echo/stages/run.py; what the stage does is in
hf_echo/stages/token.py.
"""

from hf_echo.stages.run import run_script

if __name__ == "__main__":
    run_script(__doc__, "nano-omni/3_token")
