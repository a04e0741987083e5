"""Types, limits, errors, configuration and clock: imports nothing of ours."""
