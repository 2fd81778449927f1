"""Copies of calls that do no harm, sent to another upstream to compare what both answer (SHADOW)."""
