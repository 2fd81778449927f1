"""What happened, for machines (the audit log), for people (the operator log) and for graphs (metrics)."""
