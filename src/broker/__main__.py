"""`python -m broker` is the command `broker`, whose script calls `main`."""

import signal
import sys


def main() -> int:
    """Run the command; Ctrl-C before and after it ends the process without a word."""
    handles = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # it may be ignored
    if handles:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from broker.cli import main as run  # noqa: PLC0415 - takes most of the time of a short command

    if handles:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return run()
    finally:
        if handles:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    sys.exit(main())
