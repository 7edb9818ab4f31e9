/* Leat in C (C99): prefetched batches of a dataset on a device, for trainers in C and in languages
 * that call C. In C++, use feeder/prefetcher.h.
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
 * Errors: a function that can fail returns LEAT_OK (0), or a negative leat_status on an error.
 * leat_error_text() then says what failed, where, and what to do. A null pointer or a closed
 * handle gives LEAT_ERROR_ARGUMENT; other pointers must point to valid memory. Any function may
 * return LEAT_ERROR_MEMORY or _INTERNAL. No C++ exception leaves Leat.
 *
 * Thread safety: any thread may call any function. One thread at a time may use a batch. One thread
 * at a time may be in leat_prefetcher_next of a prefetcher; a second call returns
 * LEAT_ERROR_ARGUMENT. Meanwhile other threads may call leat_prefetcher_state, _stats, _stats_table
 * and _failures, and may release batches. Each thread has its own error text. Do not cancel a
 * thread (pthread_cancel) that is in one of these functions.
 *
 * Ownership: the caller owns each handle that it gets, and closes it (a batch: releases it).
 * Handles may be closed in any order, but not twice: a prefetcher keeps its dataset, a batch its
 * memory. A handle never closed is freed with the process.
 *
 * Versions: structs that may grow begin with their size, or are passed with it. A program runs with
 * any library that is at least as new as its header. Numbers of enumerators never change.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "leat/feeder/interop/c/sanitized.h"

/* NOLINTBEGIN(readability-identifier-naming,modernize-redundant-void-arg): it is C */
#ifdef __cplusplus
extern "C" {
#endif
typedef struct leat_dataset leat_dataset;       /* samples by number */
typedef struct leat_prefetcher leat_prefetcher; /* feeds the batches of a dataset to a device */
typedef struct leat_batch leat_batch;           /* the right to use one batch: a lease */

/* The result of a call. */
typedef enum leat_status {
  LEAT_OK = 0,
  LEAT_END_OF_EPOCH = 1,       /* from leat_prefetcher_next alone: no batch is left, no error */
  LEAT_ERROR_ARGUMENT = -1,    /* the call cannot work: the program has to be changed */
  LEAT_ERROR_ENVIRONMENT = -2, /* a file, a dataset or its read function failed */
  LEAT_ERROR_DEVICE = -3,      /* a call to the device failed */
  LEAT_ERROR_MEMORY = -4,      /* the host or the device is out of memory */
  LEAT_ERROR_BUFFER = -5,      /* the buffer for a text is too small; `needed` says how large */
  LEAT_ERROR_CANCELLED = -6,   /* only on a fiber of Leat: the fiber was cancelled */
  LEAT_ERROR_INTERNAL = -7     /* any other error */
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
  LEAT_FLOAT64 = 11,
  LEAT_BOOL = 12 /* 1 byte: 0 or 1; a sample with another byte cannot be read */
} leat_dtype;

/* Leat's version: "major.minor.patch". */
const char* leat_version(void);
/* The error of the latest call that failed on the calling thread: one line of at most 1023 bytes.
 * Empty if none has failed. Never null. Valid until the next call that fails on this thread. Within
 * a read function it is the text of the function's own calls, valid until the function returns. */
const char* leat_error_text(void);
/* The name of a leat_status: "LEAT_OK". Never null. */
const char* leat_status_name(int32_t status);
/* Bytes of one element of a leat_dtype; 0 for any other number. */
size_t leat_dtype_size(int32_t dtype);
/* The name of a leat_dtype: "uint8"; "?" for any other number. */
const char* leat_dtype_name(int32_t dtype);

/* --- Datasets ------------------------------------------------------------------------------- */

/* The name, type and shape of a tensor of each sample. */
typedef struct leat_field {
  const char* name;        /* "image" */
  int32_t dtype;           /* a leat_dtype */
  int32_t ndim;            /* extents in shape; 0: a scalar */
  const int64_t* shape;    /* of one sample, row-major, each at least 1; may be null for a scalar */
  int32_t variable_length; /* not 0: the first extent differs; shape[0] is the largest */
} leat_field;

/* Which part of MNIST. */
typedef enum leat_mnist_split { LEAT_MNIST_TRAIN = 0, LEAT_MNIST_TEST = 1 } leat_mnist_split;
/* Opens MNIST, or a dataset in the same four files (gzipped or not), in the folder `directory`, and
 * reads all of it into memory, which takes half a second. `split` is a leat_mnist_split. Fields:
 * "image", uint8 {28, 28}; "label", uint8, a scalar. On an error *dataset is null. Returns
 * LEAT_ERROR_ENVIRONMENT if a file is missing or damaged. */
leat_status leat_dataset_open_mnist(const char* directory, int32_t split, leat_dataset** dataset);

/* The sample that a read function fills. It belongs to Leat, and is valid during the call. */
typedef struct leat_sample {
  uint64_t index;
  uint64_t epoch;      /* the epoch that the sample is read for */
  size_t field_count;  /* entries of the next three arrays: one for each field, in their order */
  void* const* fields; /* the pinned memory of each field, aligned for its type; only write it */
  const size_t* bytes; /* the size of that memory; write all of it, except for shorter lengths */
  size_t* lengths;     /* of a field of variable length, its first extent in this sample; preset to
                          what there is room for, and to be set where the sample is shorter */
  char* error;         /* for the text of an error, null-terminated */
  size_t error_size;   /* bytes of `error` */
  void* leat;          /* for leat_sample_random and leat_sample_scratch */
} leat_sample;

/* Fills `sample`. `user` is leat_function_dataset::user. Returns 0 on success, anything else on an
 * error, and may then write a text to sample->error. Leat calls it from several threads at the same
 * time. It may call no function of Leat but leat_sample_*. */
typedef int (*leat_read_function)(void* user, leat_sample* sample);
/* The next 64 random bits of the sample, for augmentation; 0 for null. They depend on the seed, the
 * epoch and the sample alone, not on the number of workers or a resume. */
uint64_t leat_sample_random(leat_sample* sample);
/* `bytes` of memory, aligned to 64 bytes, valid during this read. Null if memory is exhausted. */
void* leat_sample_scratch(leat_sample* sample, size_t bytes);

/* A dataset whose samples a function reads. Fill it with zeros first; Leat copies fields and name.
 * (For files and arrays, see feeder/interop/c/sources.h.) */
typedef struct leat_function_dataset {
  size_t size;              /* sizeof(leat_function_dataset) */
  const char* name;         /* in messages; null: "function" */
  uint64_t samples;         /* the number of samples */
  const leat_field* fields; /* of a sample */
  size_t field_count;
  leat_read_function read;
  void* user;                /* passed to the functions */
  void (*close)(void* user); /* called once, when the dataset and its prefetchers are closed, on the
                                thread that closes the last of them; may be null */
  int32_t never_blocks; /* not 0: read() never waits (for a file, a lock), needs at most 256 KiB of
                           stack, and runs on Leat's workers. 0: on threads with the usual stack */
  /* Returns the first extent of a field of variable length in a sample, before the sample is read.
     Needed for leat_options::packed, else it may be null. Called from several threads; it must not
     wait, and may use 16 KiB of stack. */
  size_t (*length)(void* user, uint64_t index, size_t field);
} leat_function_dataset;

/* Makes a dataset of a function. On an error *dataset is null, and `close` is not called. Returns
 * LEAT_ERROR_ARGUMENT for an invalid field, two fields of one name, or no read function. */
leat_status leat_dataset_from_function(const leat_function_dataset* function,
                                       leat_dataset** dataset);

/* Gets the number of samples. */
leat_status leat_dataset_size(const leat_dataset* dataset, uint64_t* samples);
/* Gets the fields of a sample, in order. They are valid until the dataset is closed. */
leat_status leat_dataset_fields(const leat_dataset* dataset, const leat_field** fields,
                                size_t* count);
/* Closes the handle. Prefetchers keep the dataset. Null does nothing. */
leat_status leat_dataset_close(leat_dataset* dataset);

/* --- Prefetchers ---------------------------------------------------------------------------- */

/* The order in which an epoch visits the samples. */
typedef enum leat_order { LEAT_ORDER_SEQUENTIAL = 0, LEAT_ORDER_SHUFFLED = 1 } leat_order;
/* The last batch of an epoch, if the samples do not fill it. */
typedef enum leat_last_batch {
  LEAT_LAST_BATCH_PARTIAL = 0, /* it has fewer samples */
  LEAT_LAST_BATCH_DROP = 1,    /* it is left out */
  LEAT_LAST_BATCH_PAD = 2,     /* it has all rows; rows after its samples are zero */
  LEAT_LAST_BATCH_WRAP = 3     /* it is filled up with the first samples of the epoch */
} leat_last_batch;
/* The order in which the batches of an epoch are delivered. */
typedef enum leat_delivery {
  LEAT_DELIVERY_IN_ORDER = 0,
  LEAT_DELIVERY_AS_COMPLETED = 1 /* each once it is read; the states of ranks have to be merged */
} leat_delivery;
/* How long the rows of a field of variable length are. Shorter samples end with zeros. */
typedef enum leat_pad_to {
  LEAT_PAD_TO_FIELD = 0, /* as the field declares */
  LEAT_PAD_TO_BATCH = 1 /* as the batch's longest sample: fewer bytes; shape[1] differs, may be 0 */
} leat_pad_to;
/* Checks of the memory of batches, for debugging. Each batch is then copied several times. */
typedef enum leat_check_slots {
  LEAT_CHECK_SLOTS_NO = 0,
  LEAT_CHECK_SLOTS_YES = 1,      /* reports writes to a batch after its release */
  LEAT_CHECK_SLOTS_READ_ONLY = 2 /* also reports writes to a batch that is held */
} leat_check_slots;

/* Options of a prefetcher; comments end with the default. More: feeder/prefetcher_options.h. */
typedef struct leat_options {
  size_t size;           /* sizeof(leat_options), as passed to leat_options_init */
  size_t batch_size;     /* samples in a global batch, over all ranks; at least 1. No default */
  size_t prefetch_depth; /* batches staged, including the one in use; 2: double buffering */
  size_t max_leases;     /* batches that may be held at a time; 1 */
  size_t workers;        /* readers, each reading and decoding one batch at a time; 1 */
  size_t pinned_slots;   /* buffers in pinned memory; 0: as many as the other options need */
  uint64_t seed;         /* of the order, and of leat_sample_random; 0 */
  int32_t order;         /* a leat_order; shuffled */
  int32_t last_batch;    /* a leat_last_batch; partial */
  int32_t delivery;      /* a leat_delivery; in order */
  int32_t reserved;      /* 0 */
  size_t rank;           /* which rank this prefetcher feeds, of world_size; 0 */
  size_t world_size;     /* ranks, each with a prefetcher of its own; 0: this is the only one */
  const char* resume; /* a state from leat_prefetcher_state; null: from the beginning. "" fails */
  size_t max_pinned_bytes;    /* the most pinned memory that slots may take; 0: no limit */
  size_t max_device_bytes;    /* the most device memory that slots may take; 0: no limit */
  uint64_t read_failures;     /* how many samples may fail to be read, and are left out; 0 */
  double read_failure_rate;   /* also this share of the samples read so far, 0 to 1; 0 */
  size_t copy_chunk_bytes;    /* the largest piece of a copy; 0: copies are not divided */
  size_t sample_every;        /* every how many steps one is timed on the device; 16. 0: none */
  int32_t packed;             /* not 0: no padding between samples; batch_size counts elements; 0 */
  int32_t check_slots;        /* a leat_check_slots; no */
  size_t packed_most_samples; /* the most pieces of samples in a packed batch; 0: its elements */
  size_t autotune_every;      /* batches from one look of autotune to the next; 0: no autotune */
  size_t autotune_max_workers;        /* 8 */
  size_t autotune_max_prefetch_depth; /* 4 */
  int32_t read_across_epochs; /* 0: an epoch is read once it is asked for, not ahead of that; 1 */
  int32_t pad_to;             /* a leat_pad_to; excludes `packed`; field */
} leat_options;

/* Sets all options to their defaults. `size` is sizeof *options. */
leat_status leat_options_init(leat_options* options, size_t size);

/* Opens `device` ("auto", "cuda:N", "host"; null is "auto") and allocates all slots. Reading starts
 * with the first leat_prefetcher_next. On an error *prefetcher is null:
 *
 *   LEAT_ERROR_ARGUMENT     an option out of range, which the text names
 *   LEAT_ERROR_ENVIRONMENT  no such device; `resume` is damaged, empty, or of another run
 *   LEAT_ERROR_DEVICE       the device fails (LEAT_ERROR_MEMORY: it lacks memory)
 */
leat_status leat_prefetcher_open(const leat_dataset* dataset, const char* device,
                                 const leat_options* options, leat_prefetcher** prefetcher);
/* Gets the next batch, which the caller gives back with leat_batch_release or leat_batch_abandon.
 * Blocks until a batch is staged; does not wait for its copy. *batch is null unless it returns OK:
 *
 *   LEAT_END_OF_EPOCH       no batch of this epoch is left; the next call begins the next epoch
 *   LEAT_ERROR_ARGUMENT     max_leases batches are held; another thread is in this function
 *   LEAT_ERROR_ENVIRONMENT  a sample cannot be read; the prefetcher has ended
 *   LEAT_ERROR_DEVICE       the device failed; the prefetcher has ended
 *
 * A prefetcher that has ended can still be closed, and its state can be read. */
leat_status leat_prefetcher_next(leat_prefetcher* prefetcher, leat_batch** batch);
/* Leaves the current epoch: the next leat_prefetcher_next gets the first batch of `epoch`. Not
 * needed to visit epochs in order. Returns LEAT_ERROR_ARGUMENT if `epoch` is UINT64_MAX. */
leat_status leat_prefetcher_start_epoch(leat_prefetcher* prefetcher, uint64_t epoch);
/* Gets the global batches of an epoch, and the first epoch: 0 or resumed. Either may be null. */
leat_status leat_prefetcher_plan(const leat_prefetcher* prefetcher, uint64_t* batches_per_epoch,
                                 uint64_t* first_epoch);

/* The next five functions write a null-terminated text to `buffer` of `size` bytes. They set
 * *needed, if `needed` is not null, to the bytes of the whole text with its null byte. With size 0,
 * `buffer` may be null: such a call only asks for the size. If `size` is not 0 but too small, they
 * write the empty text and return LEAT_ERROR_BUFFER. Between two calls, another thread may make the
 * text longer: then call again. */

/* Writes where the run stands: a line of JSON, for a checkpoint and leat_options::resume. Its size
 * with the null byte: up to 450 bytes (mostly 200) if a rank releases its batches in order; 44 more
 * (mostly 20) for each batch that is held or was abandoned before a released one; 150 more (mostly
 * 50) for each further epoch under way. With LEAT_DELIVERY_AS_COMPLETED, ask for the size. */
leat_status leat_prefetcher_state(const leat_prefetcher* prefetcher, char* buffer, size_t size,
                                  size_t* needed);
/* Merges the states of all ranks, `count` of them, into one, for ranks that are not in step when
 * they stop. (If ranks are in step and batches in order, the state of any one rank will do.) The
 * text has up to 44 bytes more (mostly 20) for each shard that some ranks have released before
 * others. Returns LEAT_ERROR_ARGUMENT if the states are not of one run, or if a rank is missing or
 * there twice; LEAT_ERROR_ENVIRONMENT if a state is damaged or of another version of Leat. */
leat_status leat_state_merge(const char* const* states, size_t count, char* buffer, size_t size,
                             size_t* needed);
/* Writes the overlap table (feeder/stats.h): what limits the loop, and what would help. */
leat_status leat_prefetcher_stats_table(const leat_prefetcher* prefetcher, char* buffer,
                                        size_t size, size_t* needed);
/* Writes a line for each of the first 10,000 samples that could not be read and were left out
 * (leat_options::read_failures). leat_stats::failed_samples counts all. */
leat_status leat_prefetcher_failures(const leat_prefetcher* prefetcher, char* buffer, size_t size,
                                     size_t* needed);
/* Writes the name of the device: "cuda:0". */
leat_status leat_prefetcher_device(const leat_prefetcher* prefetcher, char* buffer, size_t size,
                                   size_t* needed);

/* How a stage spends a step: shares that add up to 1 (feeder/stats.h). */
typedef struct leat_stage_shares {
  double busy;
  double starved;
  double blocked;
} leat_stage_shares;

/* Measurements so far. Times are means in seconds; 0: no sample yet. Terms: feeder/stats.h. */
typedef struct leat_stats {
  uint64_t batches;       /* released */
  uint64_t sampled_steps; /* the steps that Tc and Tstep are means of */
  uint64_t reordered;
  uint64_t most_overtaken;
  uint64_t failed_samples; /* left out because they could not be read */
  uint64_t workers;
  uint64_t prefetch_depth;
  uint64_t device_slots;
  uint64_t pinned_slots;
  double batch_bytes;
  double t_read;
  double t_x; /* 0 until a copy was timed, and then overlap_efficiency is 0, too */
  double t_c;
  double t_step;
  double overlap_efficiency;
  leat_stage_shares reader;
  leat_stage_shares copier;
  leat_stage_shares consumer;
  double idle_ends;    /* above 0.1: t_c, overlap_efficiency and consumer.busy are upper bounds */
  double cold_bytes;   /* of a batch, that the disk had to fetch */
  double hot_bytes;    /* the rest of batch_bytes */
  double major_faults; /* of a reader, in a batch */
  uint64_t past_cache_bytes; /* copied past the CPU's caches: the slots are as large as L3 */
} leat_stats;

/* Gets the measurements so far. `size` is sizeof *stats. */
leat_status leat_prefetcher_stats(const leat_prefetcher* prefetcher, leat_stats* stats,
                                  size_t size);

/* Stops the prefetcher and closes the handle. Blocks until reads and calls of other threads have
 * ended; a leat_prefetcher_next that waits in another thread gets a batch that is already staged,
 * or returns LEAT_ERROR_ENVIRONMENT. Batches that are held stay valid, and keep no thread. Null
 * does nothing. */
leat_status leat_prefetcher_close(leat_prefetcher* prefetcher);

/* --- Batches -------------------------------------------------------------------------------- */

/* The legacy default stream of CUDA (cudaStreamLegacy), for leat_batch_bind. */
#ifdef __cplusplus
#define LEAT_STREAM_LEGACY (reinterpret_cast<void*>(1))
#else
#define LEAT_STREAM_LEGACY ((void*)1)
#endif

/* Binds `stream`, a cudaStream_t of the batch's device, to the batch. The stream waits, on the
 * device, for the copy of the batch. The memory of the batch is not overwritten before the stream
 * has run all work that was enqueued on it before the release. A batch has up to 4 streams, which
 * must outlive it. Binding a stream again has no effect. Returns LEAT_ERROR_DEVICE if `stream` is
 * of another device, on the host device, which has no streams, and for null: its meaning depends on
 * how a program was compiled (see LEAT_STREAM_LEGACY). */
leat_status leat_batch_bind(leat_batch* batch, void* stream);

/* The numbers of a batch. */
typedef struct leat_batch_info {
  uint64_t samples;     /* samples in this batch: fewer in a partial last batch, and where samples
                           failed; 0 for a rank that has no samples in this step */
  uint64_t rows;        /* rows of each tensor: samples, or more in a padded last batch */
  uint64_t epoch;       /* the epoch of the batch */
  uint64_t index;       /* the number of the global batch in its epoch */
  uint64_t step_size;   /* samples in this step over all ranks: the weight of a mean */
  uint64_t step_shards; /* ranks that have samples in this step */
  uint64_t tensors;     /* the number of tensors */
  uint64_t elements;    /* packed: elements of all samples; else 0 */
} leat_batch_info;
/* Gets the numbers of the batch. `size` is sizeof *info. */
leat_status leat_batch_get_info(leat_batch* batch, leat_batch_info* info, size_t size);

/* A tensor of a batch, valid while the batch is held. This struct does not grow. */
typedef struct leat_tensor {
  const char* name;
  void* data;           /* in the device's memory, aligned to 256 bytes */
  int32_t dtype;        /* a leat_dtype */
  int32_t ndim;         /* at least 1 */
  const int64_t* shape; /* [rows, shape of the field ...], row-major, without gaps */
  size_t bytes;         /* of all rows */
} leat_tensor;
/* Gets tensor number `index`. The tensors are the fields of the dataset in their order, and then,
 * for each field of variable length, its lengths: int32, named "FIELD.length". A packed batch has
 * "offsets" instead: where each sample begins and the last one ends. On the host device, blocks
 * until the copy is done. LEAT_ERROR_ARGUMENT: no such tensor; elsewhere, no stream is bound. */
leat_status leat_batch_tensor(leat_batch* batch, size_t index, leat_tensor* tensor);
/* Gets the tensor called `name`. Otherwise as leat_batch_tensor. */
leat_status leat_batch_tensor_named(leat_batch* batch, const char* name, leat_tensor* tensor);

/* Gives the batch back and counts it as trained on. Does not block: work that was enqueued before
 * on the bound streams may still read the batch. Null does nothing. */
leat_status leat_batch_release(leat_batch* batch);
/* As leat_batch_release, but does not count the batch: a resumed run delivers it again. */
leat_status leat_batch_abandon(leat_batch* batch);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(readability-identifier-naming,modernize-redundant-void-arg) */
