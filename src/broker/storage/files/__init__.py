"""The files of a log's folder beside and below its segments."""
