"""Measures key-value stores: drives load, keeps every instant, says what can be believed.

Importing the package loads nothing else; each part is imported where it is used.
"""

__version__ = "0.1.0"
