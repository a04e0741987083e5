"""One target in libFuzzer's hands: the process that run.py starts, and that may crash.

    python -m tests.fuzz.child TARGET [libFuzzer's arguments]

libFuzzer comes with atheris, which counts what Python code does; what native code does is counted
by native/edges.c. libFuzzer must be loaded before the modules that count.
"""

import logging
import os
import sys
import traceback

import atheris
import atheris.core_with_libfuzzer

from tests.fuzz.blind import forget_imports
from tests.fuzz.targets import load


def main() -> None:
    """Fuzz until libFuzzer ends the process."""
    name = sys.argv.pop(1)
    logging.disable(logging.CRITICAL)  # a line for each failed login
    with atheris.instrument_imports(include=["broker.codec"]):
        target = load(name)
    forget_imports()

    def run(data: bytes) -> None:
        try:
            target(data)
        except BaseException:  # noqa: BLE001 - whatever it is, it is a finding
            traceback.print_exc()
            os.abort()  # atheris would throw through C++, which the sanitizer's library aborts

    atheris.Setup(sys.argv, run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
