"""The Cursus protocol: frames of a u32 length and a batch (BA7C) or a text command.

`bodies` detects what a frame contains, `grammar` parses texts in both of their forms, `table` lists
the commands, `handlers` serve them, and `errors` maps errors to Cursus's codes. Batches are encoded
and decoded by src/_native/protocols/cursus/batch.pyx. Its originals are a document, clients and a
broker, which differ; what this package does where they do is in docs/protocols/cursus.md.
"""
