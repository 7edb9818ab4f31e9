/* Leat in C: datasets in files and in memory, for leat_prefetcher_open (feeder/interop/c/leat.h).
 * The headers of feeder/sources/ describe the formats.
 *
 * Example: pretraining on token shards
 *   leat_token_shards_options options;
 *   leat_token_shards_options_init(&options, sizeof options);
 *   options.sequence_length = 1024;
 *   if (leat_dataset_open_token_shards("data/train_*.bin", &options, &data) != LEAT_OK)
 *     return fail(leat_error_text());
 *
 * `files` is a pattern: a file, a directory (the files in it with the format's extension), or a
 * path with wildcards * ? [...], ranges {000..012} and alternatives {a,b}. A backslash makes the
 * next character ordinary. See feeder/sources/files.h.
 *
 * Options: leat_..._options_init sets every option to its default. Pass null for the defaults, if
 * each option has one. The comment of an option ends with its default.
 *
 * Ownership: Leat copies names, fields and options. It does not copy the arrays of a
 * leat_array_dataset. The caller closes each dataset with leat_dataset_close.
 *
 * Threads: any thread may call any function. An opener blocks while it reads the files.
 *
 * Errors: every opener sets *dataset to null on an error.
 *   LEAT_ERROR_ENVIRONMENT  a file is missing or damaged; the text names the file and the place
 *   LEAT_ERROR_ARGUMENT     a null pointer, or an option out of range, which the text names
 */
#pragma once

#include "leat/feeder/interop/c/leat.h"

/* NOLINTBEGIN(readability-identifier-naming): it is C */

#ifdef __cplusplus
extern "C" {
#endif

/* Which part of a dataset that has two. */
typedef enum leat_split { LEAT_SPLIT_TRAIN = 0, LEAT_SPLIT_TEST = 1 } leat_split;

/* Opens CIFAR-10, in the binary version, in the folder `directory`. `split` is a leat_split.
 * Fields: "image", uint8 {3, 32, 32}; "label", a scalar of type `label` (LEAT_UINT8, LEAT_INT32 or
 * LEAT_INT64). */
leat_status leat_dataset_open_cifar10(const char* directory, int32_t split, int32_t label,
                                      leat_dataset** dataset);
/* Opens CIFAR-100: as CIFAR-10, and a field "coarse_label" of the same type as "label". */
leat_status leat_dataset_open_cifar100(const char* directory, int32_t split, int32_t label,
                                       leat_dataset** dataset);
/* Opens other files of CIFAR-10's format. */
leat_status leat_dataset_open_cifar10_files(const char* files, int32_t label,
                                            leat_dataset** dataset);
/* Opens other files of CIFAR-100's format. */
leat_status leat_dataset_open_cifar100_files(const char* files, int32_t label,
                                             leat_dataset** dataset);

/* Opens files of MNIST's format by a pattern that names the files of images: a directory that holds
 * nothing else, or a pattern such as "mnist/t*images*". A file of labels has the same name, with
 * "labels" in place of the last "images" and "idx1" in place of "idx3". */
leat_status leat_dataset_open_mnist_files(const char* images, leat_dataset** dataset);

/* The header of a token shard. */
typedef enum leat_token_header {
  LEAT_TOKEN_HEADER_AUTO = 0, /* llm.c's or NumPy's (.npy) if the file begins so, else none; a file
                                 that begins as one of another known format is an error */
  LEAT_TOKEN_HEADER_NONE = 1, /* tokens begin at byte 0, whatever it is */
  LEAT_TOKEN_HEADER_LLM_C = 2
} leat_token_header;

/* Options of leat_dataset_open_token_shards. */
typedef struct leat_token_shards_options {
  size_t size;            /* sizeof(leat_token_shards_options), as passed to _init */
  size_t sequence_length; /* tokens in x, and in y; at least 1. No default */
  size_t stride;          /* from one window to the next; 0: sequence_length */
  int32_t header;         /* a leat_token_header; auto */
  int32_t token;          /* in the files: LEAT_UINT16, _UINT32, _INT32 or _INT64; another type in a
                             header is an error. -1: what the header says, else uint16; -1 */
  int32_t dtype;          /* of x and y: LEAT_INT32, _INT64, _UINT32 or _UINT16; int32 */
  int32_t reserved;       /* 0 */
  uint64_t vocabulary;    /* tokens are below this number, which is at most 65536 for uint16 in the
                             files; 0: any that dtype can hold; 0 */
  const char* extension;  /* of the files in a directory; ".bin" */
} leat_token_shards_options;
/* Sets all options to their defaults. `size` is sizeof *options. */
leat_status leat_token_shards_options_init(leat_token_shards_options* options, size_t size);

/* Opens token shards (files of nanoGPT and llm.c, .npy files of one dimension). Fields: "x" and
 * "y", {sequence_length}; y is x, one token later. */
leat_status leat_dataset_open_token_shards(const char* files,
                                           const leat_token_shards_options* options,
                                           leat_dataset** dataset);

/* Options of leat_dataset_open_fixed_records. */
typedef struct leat_fixed_records_options {
  size_t size;              /* sizeof(leat_fixed_records_options), as passed to _init */
  const leat_field* fields; /* the fields of a record, in their order. No default */
  size_t field_count;
  uint64_t header_bytes; /* bytes to skip at the start of each file; with 0, a .npy file is an
                            error; 0 */
  const char* extension; /* of the files in a directory; ".bin" */
  const char* name;      /* in messages; null: "fixed records of" and the pattern */
} leat_fixed_records_options;
/* Sets all options to their defaults. `size` is sizeof *options. */
leat_status leat_fixed_records_options_init(leat_fixed_records_options* options, size_t size);

/* Opens files of records of one size: the tensors of a sample, one after the other, in the
 * machine's byte order. */
leat_status leat_dataset_open_fixed_records(const char* files,
                                            const leat_fixed_records_options* options,
                                            leat_dataset** dataset);

/* How an image of any size becomes one of height x width. */
typedef enum leat_fit {
  LEAT_FIT_STRETCH = 0,
  LEAT_FIT_CENTER_CROP = 1,         /* the shorter side becomes shorter_side; then the middle */
  LEAT_FIT_RANDOM_RESIZED_CROP = 2, /* a random part of it, resized */
  LEAT_FIT_EXACT = 3                /* unchanged; another size is an error */
} leat_fit;

/* How an image becomes a tensor. feeder/sources/image.h says more about each option. */
typedef struct leat_image_options {
  size_t size;             /* sizeof(leat_image_options), as passed to _init */
  int64_t height;          /* 224 */
  int64_t width;           /* 224 */
  int64_t shorter_side;    /* of a center crop; 256 */
  int32_t fit;             /* a leat_fit; stretch */
  int32_t planar;          /* not 0: {3, height, width}, else {height, width, 3}; 0 */
  double scale[2];         /* of a random crop: the part of the area; 0.08 to 1 */
  double ratio[2];         /* and its width / height; 3/4 to 4/3 */
  double mirror;           /* the probability that left and right are exchanged; 0 */
  uint64_t max_pixels;     /* larger images are an error; 2^27 */
  int32_t scaled_decoding; /* not 0: faster, but other pixels; 0 */
  int32_t accept_corrupt;  /* not 0: corrupt data is accepted; 0 */
  int32_t antialias;       /* not 0: resized with all pixels; 0: with four for each, faster; 1 */
  int32_t reserved;        /* 0 */
} leat_image_options;
/* Sets all options to their defaults. `size` is sizeof *options. */
leat_status leat_image_options_init(leat_image_options* options, size_t size);

/* How a file of a sample becomes a tensor. */
typedef enum leat_web_kind {
  LEAT_WEB_IMAGE = 0, /* uint8 pixels of an image: JPEG, PNG or WebP, by its first bytes */
  LEAT_WEB_LABEL = 1, /* int64, a scalar: an integer in ASCII digits */
  LEAT_WEB_BYTES = 2  /* its bytes, unchanged, in the type and shape of `field` */
} leat_web_kind;

/* A part of every sample: which file becomes which tensor. This struct does not grow. */
typedef struct leat_web_part {
  leat_field field;       /* for an image or a label: the name, and zeros */
  int32_t kind;           /* a leat_web_kind */
  int32_t reserved;       /* 0 */
  const char* extensions; /* of the file, without the first dot, with commas between them; null:
                             "jpg,jpeg" for an image, "cls" for a label */
  const leat_image_options* image; /* of an image; null: the defaults */
} leat_web_part;

/* Options of leat_dataset_open_web. */
typedef struct leat_web_options {
  size_t size;                /* sizeof(leat_web_options), as passed to _init */
  const leat_web_part* parts; /* null: an "image" and a "label" */
  size_t part_count;
  size_t index_threads;    /* threads that read the headers of shards; 8 */
  size_t open_files;       /* the most files that stay open; 128 */
  int32_t skip_incomplete; /* not 0: samples that lack a part are left out; 0: they are an error.
                              Samples whose files are not neighbours are an error in any case */
  int32_t accept_short_shards; /* not 0: accepts shards without a sample, and shards that end with
                                  more than 10 kB of zeros; 0: they are an error, because the rest
                                  of an interrupted download looks so */
  const char* name;            /* in messages; "web dataset" */
} leat_web_options;
/* Sets all options to their defaults. `size` is sizeof *options. */
leat_status leat_web_options_init(leat_web_options* options, size_t size);

/* Opens a WebDataset: samples as neighbouring files in tar archives. `options` may be null. */
leat_status leat_dataset_open_web(const char* files, const leat_web_options* options,
                                  leat_dataset** dataset);

/* What the shards of a WebDataset hold but the dataset leaves out. A count that should be 0 reveals
 * samples that are missing without an error. */
typedef struct leat_web_left_out {
  uint64_t skipped;           /* samples that lack a part, with skip_incomplete */
  uint64_t symbolic_links;    /* members of shards. Hard links are read, and not counted */
  uint64_t devices;           /* also pipes */
  uint64_t unknown_members;   /* of a type that is not known */
  uint64_t files_without_key; /* without an extension, hidden, or below a folder "__x__" */
} leat_web_left_out;
/* Gets the counts. `size` is sizeof *left_out. LEAT_ERROR_ARGUMENT for another kind of dataset. */
leat_status leat_dataset_web_left_out(const leat_dataset* dataset, leat_web_left_out* left_out,
                                      size_t size);

/* A field of all samples in memory, one tensor after the other. This struct does not grow. */
typedef struct leat_array {
  leat_field field;
  const void* values;
  size_t bytes; /* of all values */
} leat_array;

/* Samples in memory. Fill the struct with zeros first. Leat does not copy the values: they must
 * stay valid until `close` is called, and must not change while they are read (with
 * leat_options::read_across_epochs 0: from the start of an epoch to its end). */
typedef struct leat_array_dataset {
  size_t size;      /* sizeof(leat_array_dataset) */
  const char* name; /* in messages; null: "in memory" */
  const leat_array* arrays;
  size_t array_count;
  void* user;                /* passed to `close` */
  void (*close)(void* user); /* called once, when the dataset and its prefetchers are closed, on the
                                thread that closes the last of them; may be null */
} leat_array_dataset;

/* Makes a dataset of arrays. On an error *dataset is null, and `close` is not called. Returns
 * LEAT_ERROR_ARGUMENT for an invalid field, and for arrays of different numbers of samples. */
leat_status leat_dataset_from_arrays(const leat_array_dataset* arrays, leat_dataset** dataset);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(readability-identifier-naming) */
