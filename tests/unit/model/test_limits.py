"""Limits that follow from others."""

from broker.model import limits


def test_a_frame_always_fits_the_largest_batch() -> None:
    assert limits.frame_bytes_max(16 * limits.MIB, limits.MIB) == 16 * limits.MIB
    assert limits.frame_bytes_max(limits.MIB, 8 * limits.MIB) == 9 * limits.MIB


def test_a_batch_may_decompress_to_four_times_the_largest_message() -> None:
    assert limits.decompressed_bytes_max(limits.MIB) == 16 * limits.MIB
    assert limits.decompressed_bytes_max(8 * limits.MIB) == 32 * limits.MIB


def test_a_compressed_input_may_have_a_fixed_number_of_blocks_plus_one_per_kib() -> None:
    assert limits.compressed_pieces_max(0) == 16_384
    assert limits.compressed_pieces_max(limits.MIB) == 16_384 + 1_024
