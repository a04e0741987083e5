"""Named numbers of the test fixture."""

from typing import Final

START_SECONDS: Final = 60.0  # only a broker that hangs takes as long
CONTROL_SECONDS: Final = 10.0  # for an answer of a running broker
STOP_SECONDS: Final = 20.0  # before a broker that is asked to stop is killed
GIVE_UP_SECONDS: Final = 10.0  # of the fixture's own client
WAIT_SECONDS: Final = 10.0  # for records that a test expects
POLL_SECONDS: Final = 0.01
MESSAGE_BYTES_MAX: Final = 1 << 16  # to the launcher: the settings of a broker
CONTROL_BYTES: Final = 1 << 16  # of one read from a control socket
LOG_LINES_REPORTED: Final = 40  # below a failed test
