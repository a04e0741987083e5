"""The pipelines: each a function with options and a report, each a command."""
