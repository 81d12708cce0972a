from .encode import encode as encode
from .encode import load_encoder as load_encoder
from .scorer import EchoScorer as EchoScorer
from .translate import load_translator as load_translator
from .translate import translate as translate
