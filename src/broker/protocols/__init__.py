"""The wire protocols: independent packages that translate between their requests and core.

A package has the name of its protocol in broker.model.protocol_names, and a class PROTOCOL in its
module `dispatch`. Nothing outside of a package imports it, except the list in registry.py: it can
be removed with its row. Neither this package nor those of the protocols import anything: commands
that need a small part of one would import all of the broker.
"""
