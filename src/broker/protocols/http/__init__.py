"""Pages over HTTP, on the port of all other protocols: health checks and what tools read.

    request.py    the head of a request, parsed once
    page.py       what a page is: a function that returns its content, and who may read it
    table.py      every path and its page
    dispatch.py   from a request to the bytes of its response

The connection is closed after one response. To add a page, add a file with its function and a row
to the table.
"""
