"""A log that fails goes offline, whatever becomes of the line that says so."""

import errno
import logging

import pytest

from broker._native.kernel import file_ops
from tests.support.batches import batch_of
from tests.support.native_log import NOW_MS, Logs

BATCH = batch_of([(b"key", b"value", ())], NOW_MS)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_failed_sync_is_never_retried_even_if_it_cannot_be_logged(
    logs: Logs, recording: None
) -> None:
    class Failing(logging.Handler):
        """A handler that has no memory left."""

        def emit(self, record: logging.LogRecord) -> None:
            raise MemoryError(record.getMessage())

    log = logs.create()
    finished: list[bool] = []
    handler = Failing()
    logging.getLogger("broker").addHandler(handler)
    try:
        file_ops.fail("sync_data", "topic-0", errno.EIO)
        log.append(BATCH)
        log.when_durable(1, finished.append)
        logs.sync(log)
    finally:
        logging.getLogger("broker").removeHandler(handler)
    logs.turn.end()

    assert log.is_offline
    assert (finished, log.high_watermark) == ([False], 0)
