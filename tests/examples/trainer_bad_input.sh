#!/usr/bin/env bash
# Usage: trainer_bad_input.sh <the mnist program> <a folder with MNIST>
#
# Every bad input gives exactly one line on stderr that names it, nothing hangs, and the exit status
# is 1.
set -uo pipefail
program=$1
mnist=$2
source "$(dirname "${BASH_SOURCE[0]}")/one_line.sh"

expect() { # <what> <words of the line, as a regex> <arguments>...
  expect_line 1 "$1" "$2" "$program" "${@:3}"
}

# A folder that differs from the real one in one file.
folder() { # <name> <file to replace>
  mkdir -p "$scratch/$1"
  cp "$mnist"/*.gz "$scratch/$1/"
  rm -f "$scratch/$1/$2"
  echo "$scratch/$1"
}

expect "no data directory" "nowhere" --data "$scratch/nowhere"
data=$(folder missing train-labels-idx1-ubyte.gz)
expect "a file missing" "train-labels-idx1-ubyte" --data "$data"
data=$(folder truncated train-images-idx3-ubyte.gz)
head -c 1000000 "$mnist/train-images-idx3-ubyte.gz" >"$data/train-images-idx3-ubyte.gz"
expect "a truncated gzip file" "train-images-idx3-ubyte.gz" --data "$data"
data=$(folder short t10k-images-idx3-ubyte.gz)
gzip -dc "$mnist/t10k-images-idx3-ubyte.gz" | head -c 100000 >"$data/t10k-images-idx3-ubyte"
expect "a truncated plain file" "t10k-images-idx3-ubyte" --data "$data"
data=$(folder corrupt train-images-idx3-ubyte.gz)
cp "$mnist/train-images-idx3-ubyte.gz" "$data/" && chmod u+w "$data/train-images-idx3-ubyte.gz"
printf 'XXXXXXXX' | dd of="$data/train-images-idx3-ubyte.gz" bs=1 seek=500000 conv=notrunc 2>/dev/null
expect "a corrupt gzip file" "train-images-idx3-ubyte.gz" --data "$data"
data=$(folder magic train-images-idx3-ubyte.gz)
cp "$mnist/train-labels-idx1-ubyte.gz" "$data/train-images-idx3-ubyte.gz"
expect "labels in place of images" "magic" --data "$data"
data=$(folder counts train-labels-idx1-ubyte.gz)
cp "$mnist/t10k-labels-idx1-ubyte.gz" "$data/train-labels-idx1-ubyte.gz"
expect "labels and images of different counts" "10000.*60000|60000.*10000" --data "$data"

# idx_images <images> <rows> <columns>: a whole IDX file of black images, at most 255 of each.
idx_images() {
  printf '\0\0\010\003'
  printf '\0\0\0%b' "$(printf '\\0%03o' "$1")" "$(printf '\\0%03o' "$2")" "$(printf '\\0%03o' "$3")"
  head -c $(($1 * $2 * $3)) /dev/zero
}
# idx_labels <labels>: as many zeros, at most 255.
idx_labels() {
  printf '\0\0\010\001'
  printf '\0\0\0%b' "$(printf '\\0%03o' "$1")"
  head -c "$1" /dev/zero
}
# A folder of two images in each set: <name> <rows> <columns> of training, <rows> <columns> of test.
sized() {
  mkdir "$scratch/$1"
  idx_images 2 "$2" "$3" >"$scratch/$1/train-images-idx3-ubyte"
  idx_images 2 "$4" "$5" | gzip >"$scratch/$1/t10k-images-idx3-ubyte.gz"
  idx_labels 2 >"$scratch/$1/train-labels-idx1-ubyte"
  idx_labels 2 | gzip >"$scratch/$1/t10k-labels-idx1-ubyte.gz"
  echo "$scratch/$1"
}
data=$(sized small 14 14 14 14)
expect "images that are too small" "train in $data are 14 x 14 .*28 x 28" --data "$data"
data=$(sized large 32 32 32 32)
expect "images that are too large" "train in $data are 32 x 32 .*28 x 28" --data "$data"
data=$(sized turned 16 49 16 49)
expect "as many pixels in another shape" "train in $data are 16 x 49 .*28 x 28" --data "$data"
data=$(sized unlike 28 28 1 1)
expect "test images of another size" "test in $data are 1 x 1 .*28 x 28" --data "$data"

expect "an unknown device" "toaster" --data "$mnist" --device toaster
expect "a CUDA device that is not there" "cuda:77" --data "$mnist" --device cuda:77

whole="a whole number from"
expect "batch size 0" "batch-size 0: $whole 1 to 4294967295" --batch-size 0
expect "a batch size that is no number" "batch-size many: $whole 1" --batch-size many
expect "a batch size with something behind it" "batch-size 6x: $whole 1" --batch-size 6x
expect "more epochs than can be counted" "epochs 99999999999999999999: $whole 1 to 18446744073709551615" \
  --epochs 99999999999999999999
expect "a seed below 0" "seed -1: $whole 0 to 18446744073709551615" --seed -1
expect "prefetch depth 0" "prefetch-depth 0: $whole 1 to 4096" --prefetch-depth 0
expect "prefetch depth 4097" "prefetch-depth 4097: $whole 1 to 4096" --prefetch-depth 4097
expect "4097 workers" "workers 4097: $whole 1 to 4096" --workers 4097
for value in nan inf -inf 1e999 -0.1 0.04f; do
  expect "learning rate $value" "learning-rate $value: a finite number" --learning-rate "$value"
  expect "accuracy $value" "min-accuracy $value: a number from 0 to 100" --min-accuracy "$value"
done
expect "more than all of them right" "min-accuracy 100.1: .* 0 to 100" --min-accuracy 100.1
expect "an unknown argument" "cannot use \"--frobnicate\"" --epochs 1 --frobnicate
expect "an unknown short argument" "cannot use \"-xyz\"" -xyz
expect "an unknown short argument after a known one" "cannot use \"-hx\"" --epochs 1 -hx --seed 1
expect "a value for what has none" "cannot use \"--help=3\"" --help=3
expect "an argument that is no option" "unexpected \"device\"" --epochs 1 device cuda:0
expect "a value missing" "[-]-device: its value is missing" --epochs 1 --device
expect "an option for a value" "[-]-device: its value is missing, for \"--epochs\" is none" \
  --data "$mnist" --device --epochs 3

expect "a batch of more than there is" "batch-size 60001 is more than the 60000 training images" \
  --data "$mnist" --batch-size 60001

# expect_within <kilobytes> <what> <words> <arguments>...: with so much address space. A sanitizer
# takes more than that for itself, and the program does not even start.
expect_within() {
  local limited=(bash -c 'ulimit -v "$0" && exec "$@"' "$1" "$program") what=$2 words=$3
  shift 3
  if ("${limited[@]}" --help || exit 1) >"$scratch/out" 2>&1; then
    expect_line 1 "$what" "$words" "${limited[@]}" "$@"
  else
    echo "$what: not tried, for the program does not start below the limit"
  fi
}
expect_within 4000000 "slots beyond all memory" "out of memory.*fewer slots" \
  --data "$mnist" --device host --batch-size 60000 --prefetch-depth 4096
expect_within 60000 "a data set beyond all memory" "images-idx3.*no memory for its" --data "$mnist" --device host

# What cannot be printed is not lost in silence.
expect_line 1 "a full disk" "standard output: No space left" \
  bash -c '"$@" >/dev/full' - "$program" --data "$mnist" --epochs 1
expect_line 1 "a full disk, --help" "standard output: No space left" \
  bash -c '"$@" >/dev/full' - "$program" --help
expect_line 1 "stdout closed" "standard output: Bad file descriptor" \
  bash -c '"$@" >&-' - "$program" --data "$mnist" --epochs 1

((failures == 0))
