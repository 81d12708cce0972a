"""hf-echo, with parts and shards of 300 texts: small files have several."""

from hf_echo.cli import main
from hf_echo.inference.encode_file import encode_file
from hf_echo.search import mine_files

encode_file.__kwdefaults__["part"] = 300
mine_files.__kwdefaults__["shard"] = 300
main()
