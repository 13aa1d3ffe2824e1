"""How a report is set: tables, units, Markdown, HTML, text for a terminal.

Nothing here knows what a report is about.
"""
