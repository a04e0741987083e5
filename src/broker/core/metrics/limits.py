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
# Groups with series of their own.
GROUPS_MAX: Final = 5_000
# Values of a label whose values come from outside, such as reasons.
LABEL_VALUES_MAX: Final = 64
# Per step of at most 2 ms:
PARTITIONS_PER_STEP: Final = 100
NAMES_PER_STEP: Final = 2_000
GROUP_OFFSETS_PER_STEP: Final = 200
LINES_PER_STEP: Final = 300
