"""What the audit logs say about the migration: read offline, from the files alone."""
