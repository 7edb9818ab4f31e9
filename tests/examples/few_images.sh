# For tests of MNIST's trainers, which source it with the folder that has MNIST in `mnist`: what one_line.sh has, and
# `data`, a folder with few images, 305 to train and 101 to test.
source "$(dirname "${BASH_SOURCE[0]}")/one_line.sh"

data=$scratch/data
mkdir "$data"
cut_set() { # <set> <images, in octal escapes of two bytes> <images>
  { printf '\0\0\010\003\0\0%b\0\0\0\034\0\0\0\034' "$2" &&
    gzip -dc "$mnist/$1-images-idx3-ubyte.gz" | tail -c +17 | head -c $(($3 * 784)); } \
    >"$data/$1-images-idx3-ubyte"
  { printf '\0\0\010\001\0\0%b' "$2" &&
    gzip -dc "$mnist/$1-labels-idx1-ubyte.gz" | tail -c +9 | head -c "$3"; } \
    >"$data/$1-labels-idx1-ubyte"
}
cut_set train '\001\061' 305
cut_set t10k '\000\145' 101
