/* A user's program in C: only the installed header and leat::c. */
#include <stdio.h>
#include <string.h>

#include "leat/feeder/interop/c/leat.h"

static int read_one(void* user, leat_sample* sample) {
  *(float*)sample->fields[0] = *(const float*)user;
  return 0;
}

int main(void) {
  /* Read by threads of the library's until the prefetcher is closed: it reads ahead of this loop.
   */
  const float value = 55;
  float third = 0;
  const leat_field field = {"value", LEAT_FLOAT32, 0, NULL, 0};
  leat_function_dataset function;
  leat_options options;
  leat_dataset* data = NULL;
  leat_prefetcher* feed = NULL;
  leat_batch* batch = NULL;
  leat_tensor tensor = {0};
  memset(&function, 0, sizeof function);
  function.size = sizeof function;
  function.samples = 3;
  function.fields = &field;
  function.field_count = 1;
  function.read = read_one;
  function.user = (void*)&value;
  leat_options_init(&options, sizeof options);
  options.batch_size = 3;
  if (leat_dataset_from_function(&function, &data) != LEAT_OK ||
      leat_prefetcher_open(data, "host", &options, &feed) != LEAT_OK ||
      leat_prefetcher_next(feed, &batch) != LEAT_OK ||
      leat_batch_tensor_named(batch, "value", &tensor) != LEAT_OK) {
    fprintf(stderr, "%s\n", leat_error_text());
    return 1;
  }
  third = ((const float*)tensor.data)[2];
  printf("%g\n", (double)third);
  leat_batch_release(batch);
  leat_prefetcher_close(feed);
  leat_dataset_close(data);
  return third == value ? 0 : 1;
}
