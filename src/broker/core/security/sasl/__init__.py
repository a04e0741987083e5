"""The mechanisms of SASL, as pure exchanges: a client's messages in, outcomes out.

    client's message ──> Exchange.respond ──> Challenge   the client sends one more message
                                         ├──> Done        it has logged in
                                         ├──> Refused     it has not
                                         └──> Work        a computation too long for the loop,
                                                          whose result is one of the others

An exchange reads no clock, does no I/O and makes no random numbers: they are given to it.
"""
