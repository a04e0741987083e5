"""The V1 line protocol: a request is a line, its response is a line.

    V1|<correlation id>|<command>|<arguments>     ->     V1|<correlation id>|OK|<payload>
                                                         V1|<correlation id>|ERR|<code>|<message>

`commands` parses a line, `table` lists every command, `handlers` serve them, and `errors` maps
errors to V1's codes and texts. The behaviour of each command, and where it differs from the
original server, is in docs/protocols/v1.md.
"""
