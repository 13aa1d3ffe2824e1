"""One file a kind of answer: its tables, charts and sentences.

Nothing is computed here; that is in `kvmark.analysis`.
"""
