"""Polylog: one durable log with five documented wire protocols on one port."""
