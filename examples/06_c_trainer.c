/* A trainer in C: softmax regression on MNIST, on the CPU, stopped in the middle of an epoch and
 * resumed from its checkpoint.
 *
 *   example_06_c_trainer [folder of the data]     examples/data/mnist where it is not said
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "leat/feeder/interop/c/leat.h"

enum { kPixels = 28 * 28, kClasses = 10, kBatch = 64 };

/* What a checkpoint holds: the parameters, and where the run stands. */
typedef struct Checkpoint {
  float weights[kClasses][kPixels];
  float bias[kClasses];
  char feed[512]; /* Leat's state, one line of some 200 bytes */
} Checkpoint;

static void normalise(const uint8_t* image, float* x) {
  for (int p = 0; p < kPixels; ++p) x[p] = (float)image[p] / 255;
}

static void forward(const Checkpoint* model, const float* x, float* probabilities) {
  float largest = -INFINITY;
  float sum = 0;
  for (int c = 0; c < kClasses; ++c) {
    float logit = model->bias[c];
    for (int p = 0; p < kPixels; ++p) logit += model->weights[c][p] * x[p];
    probabilities[c] = logit;
    largest = logit > largest ? logit : largest;
  }
  for (int c = 0; c < kClasses; ++c) {
    probabilities[c] = expf(probabilities[c] - largest);
    sum += probabilities[c];
  }
  for (int c = 0; c < kClasses; ++c) probabilities[c] /= sum;
}

static void train_step(Checkpoint* model, const uint8_t* images, const uint8_t* labels,
                       int64_t samples) {
  static float gradient[kClasses][kPixels + 1]; /* the last column is the bias's */
  const float rate = 0.5F / (float)samples;
  memset(gradient, 0, sizeof gradient);
  for (int64_t i = 0; i < samples; ++i) {
    float x[kPixels];
    float error[kClasses];
    normalise(images + i * kPixels, x);
    forward(model, x, error);
    error[labels[i]] -= 1;
    for (int c = 0; c < kClasses; ++c) {
      for (int p = 0; p < kPixels; ++p) gradient[c][p] += error[c] * x[p];
      gradient[c][kPixels] += error[c];
    }
  }
  for (int c = 0; c < kClasses; ++c) {
    for (int p = 0; p < kPixels; ++p) model->weights[c][p] -= rate * gradient[c][p];
    model->bias[c] -= rate * gradient[c][kPixels];
  }
}

/* Trains on up to `most` batches, and returns how many it were: of what is left of the run
 * `resume`, or, if that is null, from the beginning. */
// [c_trainer]
static int train(const leat_dataset* data, Checkpoint* model, int most, const char* resume) {
  leat_prefetcher* feed = NULL;
  leat_batch* batch = NULL;
  leat_options options;
  leat_status status = leat_options_init(&options, sizeof options);
  options.batch_size = kBatch;
  options.resume = resume; /* a text of leat_prefetcher_state, or null */
  if (status == LEAT_OK) status = leat_prefetcher_open(data, "host", &options, &feed);

  int steps = 0;
  while (status == LEAT_OK && steps < most &&
         (status = leat_prefetcher_next(feed, &batch)) == LEAT_OK) {
    leat_tensor image;
    leat_tensor label; /* on a GPU: leat_batch_bind(batch, stream) comes first */
    status = leat_batch_tensor_named(batch, "image", &image);
    if (status == LEAT_OK) status = leat_batch_tensor_named(batch, "label", &label);
    if (status != LEAT_OK) {
      leat_batch_abandon(batch);
      break;
    }
    train_step(model, image.data, label.data, image.shape[0]);
    leat_batch_release(batch); /* counts as trained on; the slot goes back */
    ++steps;
  }
  if (status >= 0) status = leat_prefetcher_state(feed, model->feed, sizeof model->feed, NULL);
  if (status < 0) fprintf(stderr, "%s\n", leat_error_text());
  leat_prefetcher_close(feed);
  return status < 0 ? -1 : steps;
}
// [/c_trainer]

/* Returns how many of the dataset's samples the model recognises, or -1. */
static int evaluate(const leat_dataset* data, const Checkpoint* model) {
  leat_prefetcher* feed = NULL;
  leat_batch* batch = NULL;
  leat_options options;
  leat_status status = leat_options_init(&options, sizeof options);
  options.batch_size = 500;
  options.order = LEAT_ORDER_SEQUENTIAL;
  if (status == LEAT_OK) status = leat_prefetcher_open(data, "host", &options, &feed);

  int right = 0;
  while (status == LEAT_OK && (status = leat_prefetcher_next(feed, &batch)) == LEAT_OK) {
    leat_tensor image;
    leat_tensor label;
    status = leat_batch_tensor_named(batch, "image", &image);
    if (status == LEAT_OK) status = leat_batch_tensor_named(batch, "label", &label);
    for (int64_t i = 0; status == LEAT_OK && i < image.shape[0]; ++i) {
      float x[kPixels];
      float probabilities[kClasses];
      int best = 0;
      normalise((const uint8_t*)image.data + i * kPixels, x);
      forward(model, x, probabilities);
      for (int c = 1; c < kClasses; ++c) best = probabilities[c] > probabilities[best] ? c : best;
      right += best == ((const uint8_t*)label.data)[i];
    }
    leat_batch_release(batch);
  }
  if (status < 0) fprintf(stderr, "%s\n", leat_error_text());
  leat_prefetcher_close(feed);
  return status < 0 ? -1 : right;
}

int main(int argc, char** argv) {
  const char* const folder = argc > 1 ? argv[1] : "examples/data/mnist";
  leat_dataset* training = NULL;
  leat_dataset* test = NULL;
  if (leat_dataset_open_mnist(folder, LEAT_MNIST_TRAIN, &training) != LEAT_OK ||
      leat_dataset_open_mnist(folder, LEAT_MNIST_TEST, &test) != LEAT_OK) {
    fprintf(stderr, "%s\n", leat_error_text());
    return 1;
  }
  static Checkpoint straight;
  static Checkpoint stopped;
  static Checkpoint resumed;
  const int all = train(training, &straight, 400, NULL);
  const int before = train(training, &stopped, 150, NULL);
  memcpy(&resumed, &stopped, sizeof resumed); /* as a file would have kept it */
  const int after = train(training, &resumed, 250, resumed.feed);
  const int right = evaluate(test, &resumed);
  leat_dataset_close(test);
  leat_dataset_close(training);
  if (all < 0 || before < 0 || after < 0 || right < 0) return 1;

  const int same = memcmp(straight.weights, resumed.weights, sizeof straight.weights) == 0;
  printf("straight on: %d batches\n", all);
  printf("stopped and resumed: %d + %d batches, %s weights\n", before, after,
         same ? "the same" : "other");
  printf("test accuracy above %d %%\n", right * 20 / 10000 * 5);
  if (fflush(stdout) != 0 || ferror(stdout)) {
    perror("cannot write to standard output");
    return 1;
  }
  return same && right > 8000 ? 0 : 1;
}
