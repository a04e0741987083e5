"""Limits of the metrics."""

from typing import Final

# How long a page is given again as it is, once it is made.
PAGE_SECONDS: Final = 1.0
# Topics with series of their own, in the order of their names; the others are summed.
TOPIC_SERIES_MAX: Final = 2_000
# Partitions and pairs of group and partition with series of their own; others have none, and are
# counted in polylog_metrics_left_out. With these a page has about 11 MiB; it is kept for a second,
# and by its readers.
PARTITION_SERIES_MAX: Final = 10_000
GROUP_SERIES_MAX: Final = 10_000
# Times of records that are looked up for one page, for the time lags of groups: each reads headers
# of a segment, which may have to be opened.
TIME_LOOKUPS_MAX: Final = 1_000
# What one of them costs, in offsets of groups (GROUP_OFFSETS_PER_STEP).
TIME_LOOKUP_WORK: Final = 10
# Partitions without a copy here whose ends are looked up for the lag of groups: how many; how
# often, and until how long after the last page; how long an answer may take; when what was told is
# not shown any more; how many are in one request, and in one step.
REMOTE_ENDS_MAX: Final = GROUP_SERIES_MAX
REMOTE_ENDS_SECONDS: Final = 10.0
REMOTE_ENDS_WANTED_SECONDS: Final = 330.0
REMOTE_ENDS_ANSWER_SECONDS: Final = 5.0
REMOTE_ENDS_STALE_SECONDS: Final = 45.0
REMOTE_ENDS_PER_STEP: Final = 50
# Times by offset that are kept of each of them: 16 bytes each.
END_TIMES_MAX: Final = 48
# Groups with series of their own.
GROUPS_MAX: Final = 5_000
# Values of a label whose values come from outside, such as reasons.
LABEL_VALUES_MAX: Final = 64
# Per step of at most 2 ms:
PARTITIONS_PER_STEP: Final = 100
NAMES_PER_STEP: Final = 2_000
GROUP_OFFSETS_PER_STEP: Final = 200
LINES_PER_STEP: Final = 300
