"""Drives the state machines of `core/cluster`: store, leases and timers of one broker in a cluster.

metadata     the image, fed by a watch; changes of this broker
member       the registration of this broker and its lease
controller   the controller's office: claiming it, and the work while it is held
handover     moving leaderships away from this broker
probing      noticing at once that the process of another broker has died
"""
