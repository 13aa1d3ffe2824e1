"""The values of a report: numbers as text, tables, answers and pages."""
