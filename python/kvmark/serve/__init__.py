"""The runs on disk as a small, read-only web application for this machine.

`library` selects the visible runs, `pages` makes pages from parts of the report, `app` has the
addresses and the server on 127.0.0.1, and `guard` rejects other users. Starlette and uvicorn come
with the extra `serve`.
"""
