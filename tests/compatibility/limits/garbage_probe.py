"""The broker with its cyclic garbage counted: `python garbage_probe.py FOLDER start …`.

When FOLDER/count appears, every object is visited by Python's garbage collector, and FOLDER/counted
has the types of those that only a cycle kept alive, as JSON: {type: number}.
"""

import gc
import json
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from broker.cli import main

POLL_S = 0.02
COUNT = "count"
COUNTED = "counted"


def count_when_asked(folder: Path) -> None:
    """Answer each appearance of the file COUNT, for ever."""
    while True:
        time.sleep(POLL_S)
        if not (folder / COUNT).exists():
            continue
        gc.unfreeze()
        gc.collect()
        found = Counter(type(each).__qualname__ for each in gc.garbage)
        gc.garbage.clear()
        gc.set_debug(0)
        gc.collect()  # free them: each is reported once
        gc.set_debug(gc.DEBUG_SAVEALL)
        written = folder / "counting"
        written.write_text(json.dumps(found))
        (folder / COUNT).unlink()
        written.rename(folder / COUNTED)


if __name__ == "__main__":
    gc.set_debug(gc.DEBUG_SAVEALL)
    threading.Thread(target=count_when_asked, args=(Path(sys.argv[1]),), daemon=True).start()
    sys.exit(main(sys.argv[2:]))
