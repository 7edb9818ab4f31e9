#!/usr/bin/env bash
# leat-overlap --live, in a terminal (tmux's) and out of one.
#
#   live.sh LEAT_OVERLAP
#
# Exit status 77 (skipped) where there is no tmux.
set -euo pipefail
program=$(readlink -f "$1")
command -v tmux >/dev/null || { echo "skipped: no tmux" && exit 77; }

folder=$(mktemp -d)
tmux=(tmux -u -L "leat-$$" -f /dev/null)
trap '"${tmux[@]}" kill-server 2>/dev/null || true; rm -rf "$folder"' EXIT

fail() {
  echo "FAILED: $*" >&2
  [[ ! -s $folder/screen ]] || cat "$folder/screen" >&2
  exit 1
}
has() { # <file> <what grep -E looks for>
  grep -qE "$2" "$1" || fail "no line is \"$2\""
}

loop=("$program" --device host --link 1GB/s --batch 300kB --compute 2ms)
block='reader .* %.* ─► copier .* %.* ─► consumer .* %' # with an arrow at what limits, if anything does

# --- elsewhere: beside the terminal, since both mostly wait -------------------------------------

"${loop[@]}" --steps 550 --live >/dev/null 2>"$folder/lines" &
with_live=$!
"${loop[@]}" --steps 400 >/dev/null 2>"$folder/quiet" &
without_live=$!

# --- in a terminal ----------------------------------------------------------------------------

# Recorded from the beginning: the program starts once it is.
terminal=("${loop[@]}" --steps 150 --live)
start="${tmux[*]} wait-for go; ${terminal[*]@Q}; ${tmux[*]} wait-for -S done; cat"
"${tmux[@]}" new-session -d -x 90 -y 40 "env LC_ALL=C.UTF-8 bash -c ${start@Q}"
"${tmux[@]}" pipe-pane -o "cat >'$folder/written'"
"${tmux[@]}" wait-for -S go
timeout 60 "${tmux[@]}" wait-for done || fail "it has not ended in 60 s"
"${tmux[@]}" capture-pane -p >"$folder/screen"

# A view that gets no CPU for more than a second begins a new block, as after Ctrl-Z, and what was there
# stays. Such a frame does not go up first; nor does phase 7's first one, which is below the block.
begun=$(grep $'^\x1b\[J\r\x1b\[K' "$folder/written" || true)
stalls=$(($(grep -c . <<<"$begun" || true) - $(grep -cm1 'phase 7' <<<"$begun" || true)))

# One block, as it was at the end, above the table that the program prints then.
blocks=$(grep -cE "$block" "$folder/screen" || true)
((blocks >= 1 && blocks <= 1 + stalls)) || fail "$blocks blocks on the screen, $stalls stalls"
has "$folder/screen" '^host:0   epoch 0   █+   160 of 160 \(100 %\)   [0-9.]+ steps/s$'
has "$folder/screen" '^  [0-9.]+ samples/s   [0-9.]+ MB/s   slots: [0-9] of 3 filled, [0-9] of 2 ready$'
has "$folder/screen" '^  copy    .*█.*▓.*█'
has "$folder/screen" '^  compute █+ *▓+ *█+ *▓+ *$'
has "$folder/screen" '^  OE [01]\.[0-9]{3}   Tstep [0-9.]+ ms   Tc '
has "$folder/screen" '^  (The (rest|consumer|link|readers)|No stage) ' # which depends on how busy the machine is
table=$(grep -n '^custom: batches of 300 kB' "$folder/screen" | cut -d: -f1)
[[ $table -gt $(grep -nE "$block" "$folder/screen" | tail -1 | cut -d: -f1) ]] || fail "the table is not below"

# Meanwhile it was drawn again and again, with the time left. The loops before it had a line that
# told how far they were, and that is gone.
frames=$(grep -cE "$block" <(sed 's/\x1b\[[0-9;]*m//g' "$folder/written") || true)
((frames >= 3)) || fail "$frames frames in more than 0.3 s"
has "$folder/written" 'of 160 \([0-9]+ %\)   [0-9.]+ steps/s   ETA 0:0'
has "$folder/written" 'phase 4 of 7, the loop without feeding: [0-9]+ of 160 steps \([0-9]+ %\)'
has "$folder/written" 'phase 5 of 7, the serial loop: read, copy, compute: [0-9]+ of 160 steps \([0-9]+ %\)'
(($(grep -c phase "$folder/screen" || true) <= stalls)) || fail "a status line stays, $stalls stalls"

# --- elsewhere --------------------------------------------------------------------------------

wait "$with_live" || fail "exit status $?"
wait "$without_live" || fail "exit status $?"
cp "$folder/lines" "$folder/screen"
phase='^leat-overlap: phase [1-7] of 7, .*: [0-9]+ of [0-9]+ (steps|times) \([0-9]+ %\)$'
(($(grep -cE "$phase" "$folder/screen") >= 2)) || fail "fewer than two lines of phases"
line='^host:0   epoch 0   [0-9]+ of 560 \([0-9]+ %\)   ([0-9.]+|\?) steps/s   '
(($(grep -cE "$line" "$folder/screen") >= 2)) || fail "fewer than two lines of the loop"
[[ $(grep -cvE "$line|$phase" "$folder/screen") == 0 ]] || fail "another line"
has "$folder/screen" '560 of 560 \(100 %\)   .* consumer +[0-9]+ %( \(limits\))?   OE [01]\.' # likewise
! grep -q $'\x1b' "$folder/screen" || fail "a control sequence where no terminal is"
"${loop[@]}" --steps 20 --live 2>&- | grep -q '^  OE ' || fail "no result where the standard error is closed"
[[ ! -s $folder/quiet ]] || fail "lines that nobody asked for: $(cat "$folder/quiet")"
echo "passed"
