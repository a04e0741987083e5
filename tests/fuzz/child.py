"""One target in libFuzzer's hands: the process that run.py starts, and that may crash.

    python -m tests.fuzz.child TARGET [libFuzzer's arguments]

libFuzzer comes with atheris, which counts what Python code does; what native code does is counted by
native/edges.c. libFuzzer must be loaded before the modules that count.
"""

import sys

import atheris
import atheris.core_with_libfuzzer


def main() -> None:
    """Fuzz until libFuzzer ends the process."""
    name = sys.argv.pop(1)
    with atheris.instrument_imports(include=["broker.codec"]):
        from tests.fuzz.targets import TARGETS  # noqa: PLC0415 - counted from here on
    atheris.Setup(sys.argv, TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
