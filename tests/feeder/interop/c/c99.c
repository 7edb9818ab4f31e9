/* An epoch of a dataset of one's own, stopped and resumed, from C alone. Ends with 0 if every
 * sample came once, else tells which line was wrong. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "leat/feeder/interop/c/leat.h"
#include "leat/feeder/interop/c/sources.h"

#define SAMPLES 100

static int check(int ok, int line) {
  if (!ok) {
    fprintf(stderr, "c99.c:%d: not so; the latest error is: %s\n", line, leat_error_text());
    exit(1);
  }
  return ok;
}
#define CHECK(condition) check((condition) ? 1 : 0, __LINE__)

static int read_square(void* user, leat_sample* sample) {
  const uint64_t torn = *(const uint64_t*)user;
  double* const square = sample->fields[0];
  if (sample->index == torn) {
    snprintf(sample->error, sample->error_size, "sector %d is torn", 7);
    return -1;
  }
  square[0] = (double)sample->index;
  square[1] = (double)(sample->index * sample->index);
  return 0;
}

/* Counts what is left of the epoch, up to `most` batches. */
static leat_status take(leat_prefetcher* feed, int most, int* seen) {
  leat_batch* batch = NULL;
  leat_status status = LEAT_OK;
  while (most-- > 0 && (status = leat_prefetcher_next(feed, &batch)) == LEAT_OK) {
    leat_tensor square;
    const double* values;
    int64_t row;
    CHECK(leat_batch_tensor_named(batch, "square", &square) == LEAT_OK);
    CHECK(square.dtype == LEAT_FLOAT64 && square.ndim == 2 && square.shape[1] == 2);
    values = square.data;
    for (row = 0; row < square.shape[0]; ++row) {
      const int index = (int)values[2 * row];
      CHECK(values[2 * row + 1] == (double)index * index);
      ++seen[index];
    }
    CHECK(leat_batch_release(batch) == LEAT_OK);
  }
  return status;
}

/* Arrays of the program's own, and options that C can fill. */
static void read_arrays(void) {
  static const double values[4][2] = {{0, 0}, {1, 1}, {2, 4}, {3, 9}};
  static const int64_t shape[1] = {2};
  leat_array array;
  leat_array_dataset arrays;
  leat_token_shards_options tokens;
  leat_options options;
  leat_dataset* data = NULL;
  leat_prefetcher* feed = NULL;
  int seen[4] = {0};

  memset(&array, 0, sizeof array);
  array.field.name = "square";
  array.field.dtype = LEAT_FLOAT64;
  array.field.ndim = 1;
  array.field.shape = shape;
  array.values = values;
  array.bytes = sizeof values;
  memset(&arrays, 0, sizeof arrays);
  arrays.size = sizeof arrays;
  arrays.arrays = &array;
  arrays.array_count = 1;
  CHECK(leat_dataset_from_arrays(&arrays, &data) == LEAT_OK);
  CHECK(leat_options_init(&options, sizeof options) == LEAT_OK);
  options.batch_size = 3;
  CHECK(leat_prefetcher_open(data, "host", &options, &feed) == LEAT_OK);
  CHECK(take(feed, 4, seen) == LEAT_END_OF_EPOCH);
  CHECK(seen[0] == 1 && seen[1] == 1 && seen[2] == 1 && seen[3] == 1);
  CHECK(leat_prefetcher_close(feed) == LEAT_OK);
  CHECK(leat_dataset_close(data) == LEAT_OK);

  CHECK(leat_token_shards_options_init(&tokens, sizeof tokens) == LEAT_OK);
  CHECK(leat_dataset_open_token_shards("no/such.bin", &tokens, &data) < 0);
  CHECK(data == NULL);
}

int main(void) {
  static const int64_t shape[1] = {2};
  leat_field field;
  leat_function_dataset function;
  leat_options options;
  leat_dataset* data = NULL;
  leat_prefetcher* feed = NULL;
  uint64_t torn = SAMPLES;
  size_t needed = 0;
  char* state = NULL;
  int seen[SAMPLES] = {0};
  int i = 0;

  memset(&field, 0, sizeof field);
  field.name = "square";
  field.dtype = LEAT_FLOAT64;
  field.ndim = 1;
  field.shape = shape;
  memset(&function, 0, sizeof function);
  function.size = sizeof function;
  function.name = "squares";
  function.samples = SAMPLES;
  function.fields = &field;
  function.field_count = 1;
  function.read = read_square;
  function.user = &torn;
  function.never_blocks = 1;
  CHECK(leat_dataset_from_function(&function, &data) == LEAT_OK);

  CHECK(leat_options_init(&options, sizeof options) == LEAT_OK);
  options.batch_size = 8;
  options.workers = 2;
  CHECK(leat_prefetcher_open(data, "host", &options, &feed) == LEAT_OK);
  CHECK(take(feed, 5, seen) == LEAT_OK);
  CHECK(leat_prefetcher_state(feed, NULL, 0, &needed) == LEAT_OK);
  state = malloc(needed);
  CHECK(state != NULL && leat_prefetcher_state(feed, state, needed, NULL) == LEAT_OK);
  CHECK(leat_prefetcher_close(feed) == LEAT_OK);

  options.resume = state;
  CHECK(leat_prefetcher_open(data, "host", &options, &feed) == LEAT_OK);
  free(state);
  CHECK(take(feed, SAMPLES, seen) == LEAT_END_OF_EPOCH);
  for (i = 0; i < SAMPLES; ++i) CHECK(seen[i] == 1);
  CHECK(leat_prefetcher_close(feed) == LEAT_OK);

  options.resume = NULL;
  torn = 42;
  CHECK(leat_prefetcher_open(data, "host", &options, &feed) == LEAT_OK);
  CHECK(take(feed, SAMPLES, seen) == LEAT_ERROR_ENVIRONMENT);
  CHECK(strstr(leat_error_text(), "sample 42 of dataset \"squares\" (epoch 0, batch") != NULL);
  CHECK(strstr(leat_error_text(), "): sector 7 is torn") != NULL);
  CHECK(leat_prefetcher_close(feed) == LEAT_OK);
  CHECK(leat_dataset_close(data) == LEAT_OK);
  CHECK(leat_dataset_close(data) == LEAT_ERROR_ARGUMENT);
  CHECK(leat_dataset_close(NULL) == LEAT_OK);
  read_arrays();
  puts(leat_version());
  return 0;
}
