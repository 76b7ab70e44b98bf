"""A process outside the tree that writes to the held file as soon as somebody has changed its memory."""

import ctypes
import os
import time

out = os.environ["OUT"]
word = ctypes.create_string_buffer(8)
with open(out + "/scribe.new", "w") as file:
    file.write("%d %d" % (os.getpid(), ctypes.addressof(word)))
os.rename(out + "/scribe.new", out + "/scribe")
for _ in range(500):
    if word.raw[0]:
        with open(os.environ["H"], "w") as file:
            file.write("x")
        open(out + "/scribed", "w").close()
        break
    time.sleep(0.01)
