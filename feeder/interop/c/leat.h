/* Leat in C: batches of a dataset on a device, prefetched, for a trainer written in C (C99), and
 * for whatever calls C. In C++, use feeder/prefetcher.h.
 *
 * Example: an epoch
 *   leat_dataset* data = NULL;
 *   leat_prefetcher* feed = NULL;
 *   leat_batch* batch = NULL;
 *   leat_options options;
 *   leat_status status;
 *   leat_options_init(&options, sizeof options);
 *   options.batch_size = 64;
 *   if (leat_dataset_open_mnist("data/mnist", LEAT_MNIST_TRAIN, &data) != LEAT_OK ||
 *       leat_prefetcher_open(data, "auto", &options, &feed) != LEAT_OK)
 *     return fail(leat_error_text());
 *   while ((status = leat_prefetcher_next(feed, &batch)) == LEAT_OK) {
 *     leat_tensor image;
 *     leat_batch_bind(batch, stream);                     // a cudaStream_t; on the host, nothing
 *     leat_batch_tensor_named(batch, "image", &image);
 *     step(image.data, image.shape[0], stream);
 *     leat_batch_release(batch);                          // the slot goes back, by an event
 *   }
 *   if (status != LEAT_END_OF_EPOCH) return fail(leat_error_text());
 *   leat_prefetcher_close(feed);
 *   leat_dataset_close(data);
 *
 * Errors: a function that can fail returns a leat_status, LEAT_OK (0) if it did not; a negative one
 * is an error, and leat_error_text() then says what failed, where, and what to do. Whatever the
 * arguments are, also null and handles that were closed, a function returns; what a pointer to data
 * points to has to be there. No C++ exception leaves Leat.
 *
 * Threads: any function may be called from any thread. One thread at a time may use a batch, and
 * one may be in leat_prefetcher_next of a prefetcher: another one is told LEAT_ERROR_ARGUMENT.
 * leat_prefetcher_state, _stats, _stats_table and _failures may be called meanwhile, and a batch
 * may be released by another thread than the one that got it. Error texts are each thread's own.
 * pthread_cancel must not meet a thread in one of these functions.
 *
 * Handles: closing one ends the caller's use of it, and nothing else: a prefetcher keeps its
 * dataset, a batch its memory. What is closed already is recognised and refused. What is not closed
 * when the process ends is left to the system (and a leak checker may tell).
 *
 * Structs that may grow begin with their size, or are passed with it: a program that was compiled
 * with an older header runs with a newer library. Numbers of enumerators are for ever.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* NOLINTBEGIN(readability-identifier-naming,modernize-redundant-void-arg): it is C */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct leat_dataset leat_dataset;       /* samples by number */
typedef struct leat_prefetcher leat_prefetcher; /* feeds the batches of a dataset to a device */
typedef struct leat_batch leat_batch;           /* the right to use one batch: a lease */

/* What became of a call. */
typedef enum leat_status {
  LEAT_OK = 0,
  LEAT_END_OF_EPOCH = 1,       /* of leat_prefetcher_next alone: no batch, and no error */
  LEAT_ERROR_ARGUMENT = -1,    /* called in a way that cannot work: the program has to be changed */
  LEAT_ERROR_ENVIRONMENT = -2, /* a file, a dataset or its read function failed */
  LEAT_ERROR_DEVICE = -3,      /* a call to the device failed */
  LEAT_ERROR_MEMORY = -4,      /* the host's memory is exhausted */
  LEAT_ERROR_BUFFER = -5,      /* the buffer for a text is too small; `needed` says how large */
  LEAT_ERROR_CANCELLED = -6,   /* on a fiber of Leat's alone: it was asked to stop */
  LEAT_ERROR_INTERNAL = -7     /* none of these */
} leat_status;

/* Types of elements. */
typedef enum leat_dtype {
  LEAT_INT8 = 0,
  LEAT_INT16 = 1,
  LEAT_INT32 = 2,
  LEAT_INT64 = 3,
  LEAT_UINT8 = 4,
  LEAT_UINT16 = 5,
  LEAT_UINT32 = 6,
  LEAT_UINT64 = 7,
  LEAT_FLOAT16 = 8,  /* IEEE 754 binary16 */
  LEAT_BFLOAT16 = 9, /* the upper half of a float */
  LEAT_FLOAT32 = 10,
  LEAT_FLOAT64 = 11
} leat_dtype;

/* Leat's version, "major.minor.patch". */
const char* leat_version(void);
/* What the calling thread's latest failing call failed with: one line. Empty if none has failed.
 * Valid until the thread's next failing call; cut off after 1023 bytes. Never null. A read function
 * has a text of its own: that of its own calls, valid until it returns. */
const char* leat_error_text(void);
/* "LEAT_OK", ... */
const char* leat_status_name(int32_t status);
/* Bytes of one element; 0 if `dtype` is not a leat_dtype. */
size_t leat_dtype_size(int32_t dtype);
/* "uint8", ...; "?" if `dtype` is not a leat_dtype. */
const char* leat_dtype_name(int32_t dtype);

/* --- Datasets ------------------------------------------------------------------------------- */

/* A tensor of a sample. */
typedef struct leat_field {
  const char* name;        /* "image" */
  int32_t dtype;           /* a leat_dtype */
  int32_t ndim;            /* extents in shape; 0: a scalar */
  const int64_t* shape;    /* of one sample, row-major, each at least 1; may be null for a scalar */
  int32_t variable_length; /* not 0: the first extent differs, and shape[0] is the longest */
} leat_field;

/* Which two of MNIST's four files. */
typedef enum leat_mnist_split { LEAT_MNIST_TRAIN = 0, LEAT_MNIST_TEST = 1 } leat_mnist_split;
/* MNIST, and other data in files of its names and format (gzipped or not), from the folder
 * `directory`. `split` is a leat_mnist_split. Fields: "image", uint8 {28, 28}, and "label", uint8,
 * a scalar. Reads both files whole, which takes half a second. LEAT_ERROR_ENVIRONMENT: a file is
 * missing or damaged. */
leat_status leat_dataset_open_mnist(const char* directory, int32_t split, leat_dataset** dataset);

/* What a read function fills: sample `index`. Leat's own, for the time of the call. */
typedef struct leat_sample {
  uint64_t index;
  uint64_t epoch;      /* that it is read for */
  size_t field_count;  /* entries of the next three, one for each field, in their order */
  void* const* fields; /* where it goes: pinned memory, to be written and not read; aligned for
                          the type of its elements */
  const size_t* bytes; /* how much there is room for: all of it is to be written, except ... */
  size_t* lengths;     /* of a field of variable length, its first extent: as much as there is
                          room for, where the function does not change it */
  char* error;         /* room for a text, null-terminated, where the read fails */
  size_t error_size;   /* bytes of it */
  void* leat;          /* for leat_sample_random and leat_sample_scratch */
} leat_sample;

/* Fills `sample`; `user` is the dataset's. Returns 0, or anything else if it failed, and then may
 * leave a text in sample->error. Is called from several threads at the same time. May call no
 * function of Leat but leat_sample_*. */
typedef int (*leat_read_function)(void* user, leat_sample* sample);
/* 64 random bits, for augmentation: from the seed, the epoch and the sample alone, hence the same
 * for any number of workers and after a resume. 0 for null. */
uint64_t leat_sample_random(leat_sample* sample);
/* `bytes` of memory, aligned to 64, for the time of this read. Null where there is none. */
void* leat_sample_scratch(leat_sample* sample, size_t bytes);

/* A dataset of one's own. Fill it with zeros first; what is pointed to is copied. (Those in files
 * and arrays have openers of their own: feeder/interop/c/sources.h.) */
typedef struct leat_function_dataset {
  size_t size;              /* sizeof(leat_function_dataset) */
  const char* name;         /* for messages; null: "function" */
  uint64_t samples;         /* how many there are */
  const leat_field* fields; /* of a sample */
  size_t field_count;
  leat_read_function read;
  void* user;                /* passed on */
  void (*close)(void* user); /* called once, when the dataset and its prefetchers are closed, on the
                                thread that closes the last of them; may be null */
  int32_t never_blocks;      /* not 0: read() neither waits for anything (a file, a lock) nor needs
                                more than 256 KiB of stack. It is then called where Leat decodes,
                                which saves two switches of threads for each batch; and 0: on
                                threads with a stack of their own, the system's usual size */
  /* The first extent of a field of variable length in a sample: what leat_options::packed needs to
     know before it is read. Called from several threads; neither waits nor needs more than 16 KiB
     of stack. May be null where nothing is packed. */
  size_t (*length)(void* user, uint64_t index, size_t field);
} leat_function_dataset;

/* LEAT_ERROR_ARGUMENT, naming it: a field that is none, two of one name, no read function. After an
 * error `close` is not called. */
leat_status leat_dataset_from_function(const leat_function_dataset* function,
                                       leat_dataset** dataset);

/* How many samples there are. */
leat_status leat_dataset_size(const leat_dataset* dataset, uint64_t* samples);
/* The fields of a sample, in order. Valid until the dataset is closed. */
leat_status leat_dataset_fields(const leat_dataset* dataset, const leat_field** fields,
                                size_t* count);
/* Null: nothing happens. */
leat_status leat_dataset_close(leat_dataset* dataset);

/* --- Prefetchers ---------------------------------------------------------------------------- */

/* In which order an epoch visits the samples. */
typedef enum leat_order { LEAT_ORDER_SEQUENTIAL = 0, LEAT_ORDER_SHUFFLED = 1 } leat_order;
/* What becomes of an epoch's last batch when the samples do not fill it. */
typedef enum leat_last_batch {
  LEAT_LAST_BATCH_PARTIAL = 0, /* it is delivered with fewer samples */
  LEAT_LAST_BATCH_DROP = 1,    /* it is left out */
  LEAT_LAST_BATCH_PAD = 2,     /* it has all rows: those behind its samples are zero */
  LEAT_LAST_BATCH_WRAP = 3     /* it is filled up with the epoch's first samples */
} leat_last_batch;
/* In which order the batches of an epoch are delivered. */
typedef enum leat_delivery {
  LEAT_DELIVERY_IN_ORDER = 0,
  LEAT_DELIVERY_AS_COMPLETED = 1 /* a slow one does not hold up those behind it; each rank has its
                                    own order, and states of several ranks are to be merged */
} leat_delivery;

/* Whether slots are watched, for debugging; every batch is then copied several times. */
typedef enum leat_check_slots {
  LEAT_CHECK_SLOTS_NO = 0,
  LEAT_CHECK_SLOTS_YES = 1,      /* who writes to a batch that is not his any more is told */
  LEAT_CHECK_SLOTS_READ_ONLY = 2 /* and who writes to one that is */
} leat_check_slots;

/* How a prefetcher works; feeder/prefetcher_options.h has more to say about each. */
typedef struct leat_options {
  size_t size;             /* sizeof(leat_options), as leat_options_init was told */
  size_t batch_size;       /* samples in a global batch, over all ranks; at least 1. No default */
  size_t prefetch_depth;   /* batches staged ahead, with the one in use; 2: double buffering */
  size_t max_leases;       /* batches that may be held at a time; 1 */
  size_t workers;          /* that read and decode, each a batch at a time; 1 */
  size_t pinned_slots;     /* 0: as many as workers and prefetch_depth need */
  uint64_t seed;           /* of the order, and of leat_sample_random; 0 */
  int32_t order;           /* a leat_order; shuffled */
  int32_t last_batch;      /* a leat_last_batch; partial */
  int32_t delivery;        /* a leat_delivery; in order */
  int32_t reserved;        /* 0 */
  size_t rank;             /* which rank this prefetcher feeds, of world_size; 0 */
  size_t world_size;       /* ranks, each with a prefetcher of its own; 0: this is the only one */
  const char* resume;      /* what leat_prefetcher_state gave; null or "": from the beginning */
  size_t max_pinned_bytes; /* the most that all slots may take; 0: as much as it is */
  size_t max_device_bytes;
  uint64_t read_failures;   /* so many samples may fail to be read, and are left out; 0 */
  double read_failure_rate; /* and this share of the samples read so far, 0 to 1; 0 */
  size_t copy_chunk_bytes;  /* copies are made in pieces of at most so many bytes; 0: in one */
  size_t sample_every;      /* one step in so many is timed on the device; 16. 0: none */
  int32_t packed;      /* not 0: samples of variable length one after the other, without padding;
                          batch_size is then of elements; 0 */
  int32_t check_slots; /* a leat_check_slots; no */
  size_t packed_most_samples;  /* or pieces of them, in a batch; 0: as many as it has elements */
  size_t autotune_every;       /* batches from one change of workers and prefetch_depth, where that
                                  pays, to the next; 0: they stay as they are */
  size_t autotune_max_workers; /* 8 */
  size_t autotune_max_prefetch_depth; /* 4 */
} leat_options;

/* Sets each of the first `size` bytes' options to its default: pass sizeof *options. */
leat_status leat_options_init(leat_options* options, size_t size);

/* Opens `device` ("auto", "cuda:N", "host"; null is "auto"), allocates all slots, and starts to
 * read at the first leat_prefetcher_next. LEAT_ERROR_ARGUMENT, naming it: an option that cannot
 * work. LEAT_ERROR_ENVIRONMENT: no such device, a state of another run. LEAT_ERROR_DEVICE: the
 * device fails, or has not enough memory. */
leat_status leat_prefetcher_open(const leat_dataset* dataset, const char* device,
                                 const leat_options* options, leat_prefetcher** prefetcher);
/* The next batch, of which the caller is to be rid by leat_batch_release. LEAT_END_OF_EPOCH: there
 * is none left of this epoch, and the call after that gives the first of the next one. Waits for a
 * batch to be staged, and not for its copy. LEAT_ERROR_ARGUMENT if max_leases batches are held.
 * After LEAT_ERROR_ENVIRONMENT or LEAT_ERROR_DEVICE the prefetcher has ended: it can be closed and
 * asked for its state. Otherwise than with LEAT_OK, *batch is null. */
leat_status leat_prefetcher_next(leat_prefetcher* prefetcher, leat_batch** batch);
/* Leaves the epoch that is under way: the next call of leat_prefetcher_next gives the first batch
 * of `epoch`. (Not needed to go through them one by one.) LEAT_ERROR_ARGUMENT for UINT64_MAX. */
leat_status leat_prefetcher_start_epoch(leat_prefetcher* prefetcher, uint64_t epoch);
/* Global batches of a whole epoch, and the epoch that was begun with: 0, or the resumed one. Either
 * pointer may be null. */
leat_status leat_prefetcher_plan(const leat_prefetcher* prefetcher, uint64_t* batches_per_epoch,
                                 uint64_t* first_epoch);

/* These five texts end with a null byte: `*needed`, where it is not null, is set to the bytes of
 * all of it. A buffer that is too small is left as the empty text, and the status is
 * LEAT_ERROR_BUFFER; with size 0, buffer may be null, and it is LEAT_OK. Another thread may make a
 * text longer between two calls: then ask again.
 *
 * Where the run stands, for leat_options::resume: one line, which a checkpoint keeps. */
leat_status leat_prefetcher_state(const leat_prefetcher* prefetcher, char* buffer, size_t size,
                                  size_t* needed);
/* One state of those of all ranks, `count` of them, for ranks that need not be in step when they
 * are stopped; of those in step, with batches in order, any one's will do. LEAT_ERROR_ARGUMENT:
 * they are not of one run, or a rank is missing or there twice. LEAT_ERROR_ENVIRONMENT: one is
 * damaged. */
leat_status leat_state_merge(const char* const* states, size_t count, char* buffer, size_t size,
                             size_t* needed);
/* The overlap table (feeder/stats.h): what limits the loop, and what would help. */
leat_status leat_prefetcher_stats_table(const leat_prefetcher* prefetcher, char* buffer,
                                        size_t size, size_t* needed);
/* A line for each sample that was left out, within read_failures and read_failure_rate; of the
 * first 10,000. leat_stats counts all. */
leat_status leat_prefetcher_failures(const leat_prefetcher* prefetcher, char* buffer, size_t size,
                                     size_t* needed);
/* The device's name: "cuda:0". */
leat_status leat_prefetcher_device(const leat_prefetcher* prefetcher, char* buffer, size_t size,
                                   size_t* needed);

/* Shares of a step; they add up to 1. */
typedef struct leat_stage_shares {
  double busy;
  double starved;
  double blocked;
} leat_stage_shares;

/* Means, in seconds; 0 where there is no sample yet. The words are those of feeder/stats.h. */
typedef struct leat_stats {
  uint64_t batches;       /* released */
  uint64_t sampled_steps; /* that Tc and Tstep are means of */
  uint64_t reordered;
  uint64_t most_overtaken;
  uint64_t failed_samples; /* that were left out */
  uint64_t workers;
  uint64_t prefetch_depth;
  uint64_t device_slots;
  uint64_t pinned_slots;
  double batch_bytes;
  double t_read;
  double t_x; /* 0 where no copy was timed yet, and overlap_efficiency with it */
  double t_c;
  double t_step;
  double overlap_efficiency;
  leat_stage_shares reader;
  leat_stage_shares copier;
  leat_stage_shares consumer;
} leat_stats;

/* What was measured so far. `size` is sizeof *stats. */
leat_status leat_prefetcher_stats(const leat_prefetcher* prefetcher, leat_stats* stats,
                                  size_t size);

/* Stops what is under way, and waits for it: for the reads, and for calls of other threads, of
 * which a leat_prefetcher_next that waits gives a batch that is staged already, or
 * LEAT_ERROR_ENVIRONMENT. Batches that are held stay as they are. Null: nothing happens. */
leat_status leat_prefetcher_close(leat_prefetcher* prefetcher);

/* --- Batches -------------------------------------------------------------------------------- */

/* CUDA's legacy default stream (cudaStreamLegacy), for leat_batch_bind. */
#ifdef __cplusplus
#define LEAT_STREAM_LEGACY (reinterpret_cast<void*>(1))
#else
#define LEAT_STREAM_LEGACY ((void*)1)
#endif

/* Makes `stream`, a cudaStream_t of the batch's device, wait for the batch, on the device, and
 * keeps the batch's memory from being overwritten until that stream has run what was enqueued on it
 * before the release. Up to 4 streams, which must outlive the batch; once more has no effect.
 * LEAT_ERROR_DEVICE for null (which is another stream in each compilation: see
 * LEAT_STREAM_LEGACY), another device's, and on the host device, where there are no streams. */
leat_status leat_batch_bind(leat_batch* batch, void* stream);

/* What leat_batch_get_info tells of a batch. */
typedef struct leat_batch_info {
  uint64_t samples;     /* in this batch: fewer than usual in a partial last one, and where some
                           failed; 0 for a rank that has no part in this step */
  uint64_t rows;        /* of each tensor: samples, and more where the last batch is padded */
  uint64_t epoch;       /* it is of */
  uint64_t index;       /* of the global batch in its epoch */
  uint64_t step_size;   /* samples of the step over all ranks, to weight a mean by */
  uint64_t step_shards; /* ranks that have any of them */
  uint64_t tensors;     /* how many there are */
  uint64_t elements;    /* packed: of all samples; else 0 */
} leat_batch_info;
/* `size` is sizeof *info. */
leat_status leat_batch_get_info(leat_batch* batch, leat_batch_info* info, size_t size);

/* A tensor of a batch, valid as long as the batch is held. Does not grow. */
typedef struct leat_tensor {
  const char* name;
  void* data;           /* in the device's memory, aligned to 256 bytes */
  int32_t dtype;        /* a leat_dtype */
  int32_t ndim;         /* at least 1 */
  const int64_t* shape; /* [rows, shape of the field ...], row-major, without gaps */
  size_t bytes;         /* of the rows that are there */
} leat_tensor;
/* The index-th: the dataset's fields, then, for each of variable length, its lengths, int32, named
 * "<field>.length"; or, packed, "offsets", where each begins and the last one ends. On the host
 * device it waits for the copy. On another one a stream has to be bound, else it is
 * LEAT_ERROR_ARGUMENT, as for a tensor that is not there. */
leat_status leat_batch_tensor(leat_batch* batch, size_t index, leat_tensor* tensor);
/* The tensor of that name. Otherwise as leat_batch_tensor. */
leat_status leat_batch_tensor_named(leat_batch* batch, const char* name, leat_tensor* tensor);

/* Gives the batch back, and counts it as trained on. Does not wait: work that was enqueued before
 * on the bound streams may go on reading it. Null: nothing happens. */
leat_status leat_batch_release(leat_batch* batch);
/* As leat_batch_release, but a resumed run delivers the batch again. */
leat_status leat_batch_abandon(leat_batch* batch);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(readability-identifier-naming,modernize-redundant-void-arg) */
