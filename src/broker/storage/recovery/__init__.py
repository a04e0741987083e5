"""Opening, recovering and closing the logs of a data directory."""
