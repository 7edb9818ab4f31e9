#!/usr/bin/env python3
"""Usage: overlap_compare_selftest.py <bench/peers/overlap/compare.py>

Gives it programs that print figures, fail, print something else, or end it, and expects that what was
measured until then is shown and saved."""

import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(sys.argv[1]).resolve().parent
# Of small records.
START = f"""import sys
sys.path.insert(0, {str(FOLDER)!r})
import compare
compare.SHAPES = {{"first": (100, 10, 1.0, "busy"), "products": (100, 10, 1.0, "gemm"),
                  "large": (1 << 20, 10, 1.0, "busy")}}
sys.exit(compare.main())
"""
# In place of both programs, as $STUB_LEAT and $STUB_TORCH say: of cuBLAS's version, or so. A shell starts
# ten times as fast as Python, and there are 250 of these.
STUB = r"""#!/bin/sh
case " $* " in
  *" --variant "*) from=torch how=${STUB_TORCH-1.2.3} ;;
  *) from=leat how=${STUB_LEAT-1.2.3} ;;
esac
case "$how: $*" in
  fails:* | "fails resident: "*resident*) printf 'first line\nno such GPU\n' >&2; exit 1 ;;
  prints:*) echo no figures; exit ;;
  stops:*products*) kill -TERM $PPID; kill -TERM $PPID; exec sleep 100 ;;  # twice, as timeout(1) does
esac
if [ $from = leat ] && [ "$LD_PRELOAD" = /torch/libcublas.so ]; then how=${STUB_PRELOADED-$how}; fi
if [ "$how" = lacks ]; then echo '{"runs": [{"compute": "7 x SGEMM"}]}'; exit; fi
compute="7 x SGEMM by cuBLAS $how of /$from/libcublas.so"
both='"p50": 0.002, "p99": 0.003'
if [ $from = torch ]; then
  echo "{$both, \"compute\": \"$compute\", \"torch\": \"9\", \"t_step\": 0.004, \"allocations\": 0}"
else
  echo "{\"runs\": [{\"compute\": \"$compute\", \"description\": \"a GPU\", \"t_x_alone\": 0.001,
    \"t_c_alone\": 0.002, \"t_step\": 0.002, \"interference\": 1, \"accelerator_utilization\": 1,
    \"speed_up\": 2, \"ranks\": [{\"step\": {$both}, \"bubble\": {$both}}]}]}"
fi
"""

failed = 0


def compare(*arguments, file_size=None, **stubs):
    """Exit status, what is printed, and which rows are saved."""
    global failed
    def limit():
        if file_size is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "scratch").mkdir()
        for name in ("leat-overlap", "python"):
            (folder / name).write_text(STUB)
            (folder / name).chmod(0o755)
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        done = subprocess.run(
            [sys.executable, "-c", START, "--programs", folder, "--python", folder / "python",
             "--kernels", "kernels.so", "--workers", "2", "--scratch", folder / "scratch", "--rounds", "2",
             "--save", folder / "a.b", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=limit, timeout=100,
            env={**environment, "PYTHONDONTWRITEBYTECODE": "1", **stubs})
        saved = folder / "a.b.json"
        saved = json.loads(saved.read_text()) if saved.exists() else {"rows": [], "failures": []}
        left = [str(path) for path in (folder / "scratch").iterdir()]
        if left or "Traceback" in done.stdout:
            failed += 1
            print("FAIL: records that stay, or a traceback:", *left, done.stdout)
        return done.returncode, done.stdout, {(row["shape"], row["row"]) for row in saved["rows"]}


def expect(what, found, expected):
    global failed
    failed += found != expected
    print(f"{what}: as expected" if found == expected
          else f"FAIL: {what}: {found}, expected {expected}")


status, text, rows = compare("--only", "first")
expect("all is measured, and met", (status, len(rows), "2.000 times as fast" in text, "(met)" in text),
       (0, 11, True, True))
status, text, rows = compare("--only", "first", STUB_TORCH="fails resident")
expect("a row that fails leaves the others",
       (status, len(rows), "torch resident 0        failed: no such GPU" in text,
        "(met, but not all was measured)" in text), (1, 10, True, True))
status, text, rows = compare("--only", "first", STUB_TORCH="prints")
expect("so do those that print something else",
       (status, rows, "printed what is no JSON: 'no figures\\n'" in text),
       (1, {("first", "leat")}, True))
status, text, rows = compare("--only", "first", "--only", "products", STUB_LEAT="lacks")
expect("figures that lack", (status, rows, text.count("not measured: its JSON has no description")),
       (1, set(), 2))
status, text, rows = compare("--only", "products", STUB_LEAT="?", STUB_TORCH="?? ?")
expect("a cuBLAS that is not told", (status, rows, "names no products and cuBLAS" in text),
       (1, {("products", "leat")}, True))
status, text, rows = compare("--only", "first", "--only", "large", file_size=1 << 20)
expect("records that cannot be written leave the shapes before",
       (status, len(rows), "large: not measured: cannot write 42 MB of records" in text),
       (1, 11, True))
status, text, rows = compare("--only", "first", "--only", "products", STUB_LEAT="stops")
expect("so does a signal",
       (status, len(rows), "STOPPED, and not all was measured: SIGTERM" in text,
        "2.000 times as fast" in text), (1, 11, True, True))
status, text, rows = compare("--only", "products")
expect("products by one cuBLAS are compared", (status, len(rows), "LD_PRELOAD" in text), (0, 11, False))
status, text, rows = compare("--only", "products", STUB_LEAT="1.0.0", STUB_PRELOADED="1.2.3")
expect("Leat takes PyTorch's", (status, len(rows), "LD_PRELOAD=/torch/libcublas.so" in text),
       (0, 11, True))
status, text, rows = compare("--only", "products", STUB_LEAT="1.0.0")
expect("or they are not compared",
       (status, rows, "computes by cuBLAS 1.2.3 of /torch/libcublas.so, Leat by cuBLAS 1.0.0" in text),
       (1, {("products", "leat")}, True))
status, text, rows = compare("--rounds", "0")
expect("no rounds", (status, "0 is not more than 0" in text), (2, True))
status, text, rows = compare("--device", "host")
expect("no GPU for PyTorch", (status, "need --device cuda:N" in text), (2, True))

sys.exit(failed > 0)
