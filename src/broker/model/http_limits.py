"""Limits of the pages over HTTP."""

CLIENT_TEXT_CHARS_MAX = 255  # of a client id, and of the name and version of its software
CLIENTS_PER_STEP = 100
CLIENTS_PAGE_BYTES_MAX = 4 << 20  # about 15,000 clients; the page says how many there are
# A page up to this size is one answer; a longer one is sent in parts, which its readers share.
HTTP_JOINED_BYTES_MAX = 128 << 10
# Of a long page so many bytes are in the output of a reader, and the rest of one part.
HTTP_UNSENT_BYTES_MAX = 128 << 10
# Long pages that are being sent, each counted once: with more, another one is refused. The longest
# page of metrics has about 15 MiB.
HTTP_PAGES_BYTES_MAX = 64 << 20
HTTP_PAGE_SECONDS_MAX = 60  # a reader that takes longer is closed
HTTP_RETRY_AFTER_SECONDS = 5  # told to one that is refused
