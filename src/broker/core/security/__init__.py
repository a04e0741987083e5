"""Who may do what: users, permissions, quotas, and the audit of all of it."""
