"""Reads the files of a log with Spark, without its broker."""
