"""Who is calling, and with what credential (section 9 of the rules)."""
