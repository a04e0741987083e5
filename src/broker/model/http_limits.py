"""Limits of the pages over HTTP."""

CLIENT_TEXT_CHARS_MAX = 255  # of a client id, and of the name and version of its software
CLIENTS_PER_STEP = 100
CLIENTS_PAGE_BYTES_MAX = 4 << 20  # about 15,000 clients; the page says how many there are
