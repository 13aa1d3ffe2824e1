#!/bin/sh
# What someone does with an installed wheel: measure, look, report, serve. Ends with an error at the
# first step that doesn't do it.
set -eu
cd "$(mktemp -d)"
command -v cc >/dev/null && { echo "there is a compiler: this isn't the machine to try it on" >&2; exit 1; }
kvmark --version
kvmark doctor >doctor.txt || { cat doctor.txt; exit 1; }
kvmark ycsb --system rocksdb: --records 1000 --workloads load,a,c --repetitions 1 --tag wheel --report report.html
grep -q "<html" report.html
kvmark runs
# shellcheck disable=SC2046  # the names of runs hold no blanks
kvmark runs report $(cd runs && ls -d -- 2*/ | tr -d /) --output again.md
grep -q "RocksDB" again.md
python3 - <<'PYTHON'
import re, subprocess, sys, urllib.request
with subprocess.Popen(["kvmark", "serve", "--port", "0"], stdout=subprocess.PIPE,
                      stderr=subprocess.STDOUT, text=True) as server:
    try:
        said = next(line for line in server.stdout if "http://" in line)
        url = re.search(r"http://\S+", said)[0]
        # The address's token becomes a cookie.
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        assert "ycsb" in browser.open(url).read().decode(), "serve shows no run"
    finally:
        server.terminate()
PYTHON
echo "the wheel works"
