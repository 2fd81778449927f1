"""The verbs on tasks, each written once against the ledger and the upstream."""
