#!/usr/bin/env bash
# Usage: real_trainer.sh <the real_trainer program> <a folder with MNIST>
#
# A run that is stopped and resumed ends with the same bits as one that was not; several processes
# learn what one does; bad input gives exactly one line on stderr that names it, and nothing hangs.
set -uo pipefail
program=$1
mnist=$2
# Few images, so that all is over soon: steps of 100, 100, 100 and 5 samples an epoch.
source "$(dirname "${BASH_SOURCE[0]}")/few_images.sh"

train() { timeout 120 "$program" --data "$data" --epochs 3 "$@"; }
run() { # <name> <arguments>...: its output, checkpoint and log are <name>.out, .ck and .csv
  local name=$1
  shift
  train --checkpoint "$scratch/$name.ck" --log "$scratch/$name.csv" "$@" >"$scratch/$name.out" ||
    fail "$name: exit status $?"
}

same() { # <what> <file> <file>
  if cmp "$2" "$3"; then echo "$1: the same"; else fail "$1: $2 and $3 differ"; fi
}

# Files of "step,loss" whose losses differ by rounding alone.
alike() { # <what> <file> <file>
  local why
  if why=$(paste -d, "$2" "$3" | awk -F, '
    { off = $2 - $4; if (off < 0) off = -off }
    $1 != $3 || off > 1e-5 + 1e-4 * $2 { print "line " NR ": " $0; wrong = 1 }
    END { if (NR != 12) print NR " steps, not 12"; exit wrong || NR != 12 }'); then
    echo "$1: alike"
  else
    fail "$1: $why"
  fi
}

run whole
[[ $(wc -l <"$scratch/whole.out") == 3 ]] || fail "one line for each epoch: $(cat "$scratch/whole.out")"
# Of 305 samples, the mean; steps 5 to 8 are epoch 2.
mean=$(awk -F, 'NR > 4 && NR <= 8 { sum += $2 * (NR == 8 ? 5 : 100) } END { printf "%.2f", sum / 305 }' \
  "$scratch/whole.csv")
grep -q "^epoch 2  loss $mean  " "$scratch/whole.out" || fail "epoch 2: not a mean loss of $mean"

# In the middle of an epoch, at its end, at the end of all.
for steps in 1 5 8 12; do
  run "stopped$steps" --stop-after "$steps" --checkpoint-every 2
  cp "$scratch/stopped$steps.csv" "$scratch/resumed$steps.csv"
  run "resumed$steps" --resume "$scratch/stopped$steps.ck"
  same "weights, stopped after $steps" "$scratch/whole.ck" "$scratch/resumed$steps.ck"
  same "losses, stopped after $steps" "$scratch/whole.csv" "$scratch/resumed$steps.csv"
  cat "$scratch/stopped$steps.out" "$scratch/resumed$steps.out" >"$scratch/joined.out"
  same "output, stopped after $steps" "$scratch/whole.out" "$scratch/joined.out"
done

# Cut off by a full disk, on which not even the end of epoch 1 could be told: what is left is a
# checkpoint from in between.
train --checkpoint "$scratch/cut.ck" --checkpoint-every 3 >/dev/full 2>"$scratch/err" &&
  fail "a full disk: exit status 0"
run going_on --resume "$scratch/cut.ck"
same "weights, cut off" "$scratch/whole.ck" "$scratch/going_on.ck"

# 8: in the last step of an epoch, of 5 samples, three of them have none.
for processes in 2 3 8; do
  run "shared$processes" --processes "$processes"
  alike "losses of $processes processes" "$scratch/whole.csv" "$scratch/shared$processes.csv"
done
run some --processes 3 --stop-after 6
cp "$scratch/some.csv" "$scratch/others.csv"
run others --processes 2 --resume "$scratch/some.ck"
alike "losses of 3 processes, then of 2" "$scratch/whole.csv" "$scratch/others.csv"

# Ctrl-C: whatever step that is, the checkpoint is the one of a run that stops there.
for processes in 1 3; do
  coproc interrupted {
    exec "$program" --data "$data" --epochs 1000000 --processes "$processes" \
      --checkpoint "$scratch/interrupted.ck" 2>"$scratch/err"
  }
  pid=$interrupted_PID from=${interrupted[0]}
  read -r first <&"$from" # it trains
  kill -INT "$pid" # which tells the others
  last=$(tail -n 1 <&"$from")
  status=0
  wait "$pid" || status=$?
  steps=${last#interrupted after } steps=${steps% steps}
  if [[ $status != 130 || ! $steps =~ ^[0-9]+$ || -s $scratch/err ]]; then
    fail "Ctrl-C, $processes processes: exit status $status after \"$first\" and \"$last\"; stderr:"
    cat "$scratch/err"
    continue
  fi
  run until --epochs 1000000 --processes "$processes" --stop-after "$steps"
  same "Ctrl-C, $processes processes, $steps steps" "$scratch/until.ck" "$scratch/interrupted.ck"
done

refuse() { expect_line 2 "$1" "$2" "$program" "${@:3}"; }
break_off() { expect_line 1 "$1" "$2" "$program" --data "$data" "${@:3}"; }

refuse "an unknown argument" 'cannot use "--frobnicate"' --frobnicate
refuse "a value missing" "[-]-device: its value is missing" --device
refuse "an option for a value" "[-]-device: its value is missing" --device --epochs 3
refuse "no epochs" "epochs 0: a whole number from 1" --epochs 0
refuse "too many processes" "processes 65: a whole number from 1 to 64" --processes 65
refuse "no number" "stop-after 3x: a whole number" --stop-after 3x

break_off "no such device" "toaster" --device toaster
break_off "no such checkpoint" "nowhere: cannot be read: No such file" --resume "$scratch/nowhere"
break_off "a directory" "$scratch: cannot be read: Is a directory" --resume "$scratch"
echo "something else" >"$scratch/other.ck"
break_off "no checkpoint" "other.ck: it is none of this program" --resume "$scratch/other.ck"
head -c 100000 "$scratch/whole.ck" >"$scratch/short.ck"
break_off "half a checkpoint" "short.ck: it is damaged" --resume "$scratch/short.ck"
cp "$scratch/whole.ck" "$scratch/flipped.ck"
printf 'X' | dd of="$scratch/flipped.ck" bs=1 seek=50000 conv=notrunc 2>/dev/null
break_off "a byte that is another one" "flipped.ck: it is damaged" --resume "$scratch/flipped.ck"
head -n 1 "$scratch/whole.ck" >"$scratch/title.ck"
break_off "nothing but the title" "title.ck: it is damaged" --resume "$scratch/title.ck"
break_off "a checkpoint of another run" "batch_size 100, not 50" \
  --resume "$scratch/whole.ck" --batch-size 50
break_off "a checkpoint that cannot be written" "no/where.ck: cannot be written: No such file" \
  --checkpoint "$scratch/no/where.ck"
break_off "a log that cannot be written" "cannot write to $scratch/no/log" --log "$scratch/no/log"
[[ $(find "$scratch" -name '*.tmp') == "" ]] || fail "a draft of a checkpoint was left behind"
expect_line 1 "a full disk" "standard output: No space left" \
  bash -c '"$@" >/dev/full' - "$program" --data "$data"

# A process that is lost takes the others along.
coproc bereaved {
  exec "$program" --data "$data" --epochs 1000000 --processes 2 2>"$scratch/err"
}
pid=$bereaved_PID from=${bereaved[0]}
read -r first <&"$from"
read -r child <"/proc/$pid/task/$pid/children"
kill -KILL "$child"
cat <&"$from" >/dev/null
status=0
wait "$pid" || status=$?
if [[ $status != 1 ]] || ! grep -q "rank 0: .*rank 1 has ended" "$scratch/err"; then
  fail "a lost process: exit status $status; stderr: $(cat "$scratch/err")"
fi

((failures == 0))
