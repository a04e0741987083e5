"""Types, limits, errors, configuration and clock; imports no other layer."""
