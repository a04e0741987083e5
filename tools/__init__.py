"""Programs that write files of the source tree."""
