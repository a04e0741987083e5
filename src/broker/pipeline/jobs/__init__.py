"""The jobs: each is a function that takes options and returns a report, and a command."""
