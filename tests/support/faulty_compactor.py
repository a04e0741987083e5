"""The compactor process on a failing disk: the faults are in an environment variable.

`python -m tests.support.faulty_compactor` in the place of `broker.storage.maintenance.compactor`;
POLYLOG_TEST_FAULTS is a list of the arguments of `file_ops.fail`, in JSON.
"""

import json
import os

from broker._native.kernel import file_ops
from broker.storage.maintenance import compactor

NAME = "tests.support.faulty_compactor"
FAULTS = "POLYLOG_TEST_FAULTS"

if __name__ == "__main__":
    file_ops.start_recording(failures_only=True)
    for fault in json.loads(os.environ[FAULTS]):
        file_ops.fail(*fault)
    compactor.main()
