"""`broker doctor`: what is wrong with this machine, a configuration, a data directory, brokers.

machine         versions, and the limits of processes
directory       the data directory: who may read it, its file system, its disk, the clock
configuration   the file, keys and certificates, and the addresses to listen on
brokers         those that run: their health, and whether their addresses are reachable
"""

from typing import Final

from broker.cli.doctor.doctor_verb import command

NOUN: Final = command
