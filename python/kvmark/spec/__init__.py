"""What the user wrote: files, properties, URLs and quantities, checked with file and line.

A spec may rely on defaults; `kvmark.plan` decides everything it leaves open.
"""
