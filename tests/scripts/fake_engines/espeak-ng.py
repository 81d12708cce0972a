"""Stands for espeak-ng: the same options, and a tone of the voice's pitch."""

import sys

from tone import wav

PITCHES = {"f2": 400, "m3": 200}
arguments = sys.argv[1:]
if arguments == ["--voices"]:
    print("Pty Language Age/Gender VoiceName File")
    for code in ("de", "en-us", "en-gb", "xx"):
        print(" 5 ", code, "--/M", "Name", f"f/{code}")
elif arguments == ["--voices=variant"]:
    print("Pty Language Age/Gender VoiceName File")
    for name in ("f2", "m3", "f5", "whisper"):
        print(" 5  variant F", name, f"!v/{name}")
elif "--ipa" in arguments:  # reads letters as sounds, and the second word in another language
    text = sys.stdin.buffer.read().decode()
    sounds = text.replace("ei", "e^ɪ").replace("two", "(xx)t^ʃ(en)")
    sys.stdout.buffer.write(sounds.encode())
else:
    text = sys.stdin.buffer.read().decode()
    if "crash" in text:
        sys.exit("Error: crashed")
    if "nothing" not in text:
        _, _, variant = arguments[1].partition("+")
        words_per_minute = int(arguments[3])
        sys.stdout.buffer.write(wav(text, PITCHES.get(variant, 300), words_per_minute / 175))
