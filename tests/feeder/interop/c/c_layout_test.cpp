// The C API: where the members of its structs are, and the numbers of its enumerators, as programs
// that are compiled already have them. A struct grows at its end, an enum by new numbers: nothing
// below changes. Add what is new once it was released.
#include <cstddef>

#include "leat/feeder/interop/c/leat.h"
#include "leat/feeder/interop/c/sources.h"

namespace leat::feeder::c_api {

// With pointers of 64 bits, which all platforms have that Leat runs on.
static_assert(sizeof(void*) == 8 && sizeof(std::size_t) == 8);

#define LEAT_AT(type, member, offset) static_assert(offsetof(type, member) == (offset))

static_assert(sizeof(leat_field) == 32);
LEAT_AT(leat_field, name, 0);
LEAT_AT(leat_field, dtype, 8);
LEAT_AT(leat_field, ndim, 12);
LEAT_AT(leat_field, shape, 16);
LEAT_AT(leat_field, variable_length, 24);

static_assert(sizeof(leat_sample) >= 72);
LEAT_AT(leat_sample, index, 0);
LEAT_AT(leat_sample, epoch, 8);
LEAT_AT(leat_sample, field_count, 16);
LEAT_AT(leat_sample, fields, 24);
LEAT_AT(leat_sample, bytes, 32);
LEAT_AT(leat_sample, lengths, 40);
LEAT_AT(leat_sample, error, 48);
LEAT_AT(leat_sample, error_size, 56);
LEAT_AT(leat_sample, leat, 64);

static_assert(sizeof(leat_function_dataset) >= 80);
LEAT_AT(leat_function_dataset, size, 0);
LEAT_AT(leat_function_dataset, name, 8);
LEAT_AT(leat_function_dataset, samples, 16);
LEAT_AT(leat_function_dataset, fields, 24);
LEAT_AT(leat_function_dataset, field_count, 32);
LEAT_AT(leat_function_dataset, read, 40);
LEAT_AT(leat_function_dataset, user, 48);
LEAT_AT(leat_function_dataset, close, 56);
LEAT_AT(leat_function_dataset, never_blocks, 64);
LEAT_AT(leat_function_dataset, length, 72);

static_assert(sizeof(leat_options) >= 184);
LEAT_AT(leat_options, size, 0);
LEAT_AT(leat_options, batch_size, 8);
LEAT_AT(leat_options, prefetch_depth, 16);
LEAT_AT(leat_options, max_leases, 24);
LEAT_AT(leat_options, workers, 32);
LEAT_AT(leat_options, pinned_slots, 40);
LEAT_AT(leat_options, seed, 48);
LEAT_AT(leat_options, order, 56);
LEAT_AT(leat_options, last_batch, 60);
LEAT_AT(leat_options, delivery, 64);
LEAT_AT(leat_options, reserved, 68);
LEAT_AT(leat_options, rank, 72);
LEAT_AT(leat_options, world_size, 80);
LEAT_AT(leat_options, resume, 88);
LEAT_AT(leat_options, max_pinned_bytes, 96);
LEAT_AT(leat_options, max_device_bytes, 104);
LEAT_AT(leat_options, read_failures, 112);
LEAT_AT(leat_options, read_failure_rate, 120);
LEAT_AT(leat_options, copy_chunk_bytes, 128);
LEAT_AT(leat_options, sample_every, 136);
LEAT_AT(leat_options, packed, 144);
LEAT_AT(leat_options, check_slots, 148);
LEAT_AT(leat_options, packed_most_samples, 152);
LEAT_AT(leat_options, autotune_every, 160);
LEAT_AT(leat_options, autotune_max_workers, 168);
LEAT_AT(leat_options, autotune_max_prefetch_depth, 176);

static_assert(sizeof(leat_stage_shares) == 24);
LEAT_AT(leat_stage_shares, busy, 0);
LEAT_AT(leat_stage_shares, starved, 8);
LEAT_AT(leat_stage_shares, blocked, 16);

static_assert(sizeof(leat_stats) >= 208);
LEAT_AT(leat_stats, batches, 0);
LEAT_AT(leat_stats, sampled_steps, 8);
LEAT_AT(leat_stats, reordered, 16);
LEAT_AT(leat_stats, most_overtaken, 24);
LEAT_AT(leat_stats, failed_samples, 32);
LEAT_AT(leat_stats, workers, 40);
LEAT_AT(leat_stats, prefetch_depth, 48);
LEAT_AT(leat_stats, device_slots, 56);
LEAT_AT(leat_stats, pinned_slots, 64);
LEAT_AT(leat_stats, batch_bytes, 72);
LEAT_AT(leat_stats, t_read, 80);
LEAT_AT(leat_stats, t_x, 88);
LEAT_AT(leat_stats, t_c, 96);
LEAT_AT(leat_stats, t_step, 104);
LEAT_AT(leat_stats, overlap_efficiency, 112);
LEAT_AT(leat_stats, reader, 120);
LEAT_AT(leat_stats, copier, 144);
LEAT_AT(leat_stats, consumer, 168);
LEAT_AT(leat_stats, idle_ends, 192);
LEAT_AT(leat_stats, cold_bytes, 200);
LEAT_AT(leat_stats, hot_bytes, 208);
LEAT_AT(leat_stats, major_faults, 216);
LEAT_AT(leat_stats, past_cache_bytes, 224);

static_assert(sizeof(leat_batch_info) >= 64);
LEAT_AT(leat_batch_info, samples, 0);
LEAT_AT(leat_batch_info, rows, 8);
LEAT_AT(leat_batch_info, epoch, 16);
LEAT_AT(leat_batch_info, index, 24);
LEAT_AT(leat_batch_info, step_size, 32);
LEAT_AT(leat_batch_info, step_shards, 40);
LEAT_AT(leat_batch_info, tensors, 48);
LEAT_AT(leat_batch_info, elements, 56);

static_assert(sizeof(leat_tensor) == 40);
LEAT_AT(leat_tensor, name, 0);
LEAT_AT(leat_tensor, data, 8);
LEAT_AT(leat_tensor, dtype, 16);
LEAT_AT(leat_tensor, ndim, 20);
LEAT_AT(leat_tensor, shape, 24);
LEAT_AT(leat_tensor, bytes, 32);

static_assert(sizeof(leat_token_shards_options) >= 56);
LEAT_AT(leat_token_shards_options, size, 0);
LEAT_AT(leat_token_shards_options, sequence_length, 8);
LEAT_AT(leat_token_shards_options, stride, 16);
LEAT_AT(leat_token_shards_options, header, 24);
LEAT_AT(leat_token_shards_options, token, 28);
LEAT_AT(leat_token_shards_options, dtype, 32);
LEAT_AT(leat_token_shards_options, reserved, 36);
LEAT_AT(leat_token_shards_options, vocabulary, 40);
LEAT_AT(leat_token_shards_options, extension, 48);

static_assert(sizeof(leat_fixed_records_options) >= 48);
LEAT_AT(leat_fixed_records_options, size, 0);
LEAT_AT(leat_fixed_records_options, fields, 8);
LEAT_AT(leat_fixed_records_options, field_count, 16);
LEAT_AT(leat_fixed_records_options, header_bytes, 24);
LEAT_AT(leat_fixed_records_options, extension, 32);
LEAT_AT(leat_fixed_records_options, name, 40);

static_assert(sizeof(leat_image_options) >= 104);
LEAT_AT(leat_image_options, size, 0);
LEAT_AT(leat_image_options, height, 8);
LEAT_AT(leat_image_options, width, 16);
LEAT_AT(leat_image_options, shorter_side, 24);
LEAT_AT(leat_image_options, fit, 32);
LEAT_AT(leat_image_options, planar, 36);
LEAT_AT(leat_image_options, scale, 40);
LEAT_AT(leat_image_options, ratio, 56);
LEAT_AT(leat_image_options, mirror, 72);
LEAT_AT(leat_image_options, max_pixels, 80);
LEAT_AT(leat_image_options, scaled_decoding, 88);
LEAT_AT(leat_image_options, accept_corrupt, 92);
LEAT_AT(leat_image_options, antialias, 96);
LEAT_AT(leat_image_options, reserved, 100);

static_assert(sizeof(leat_web_part) == 56);
LEAT_AT(leat_web_part, field, 0);
LEAT_AT(leat_web_part, kind, 32);
LEAT_AT(leat_web_part, reserved, 36);
LEAT_AT(leat_web_part, extensions, 40);
LEAT_AT(leat_web_part, image, 48);

static_assert(sizeof(leat_web_options) >= 56);
LEAT_AT(leat_web_options, size, 0);
LEAT_AT(leat_web_options, parts, 8);
LEAT_AT(leat_web_options, part_count, 16);
LEAT_AT(leat_web_options, index_threads, 24);
LEAT_AT(leat_web_options, open_files, 32);
LEAT_AT(leat_web_options, skip_incomplete, 40);
LEAT_AT(leat_web_options, accept_short_shards, 44);
LEAT_AT(leat_web_options, name, 48);

static_assert(sizeof(leat_array) == 48);
LEAT_AT(leat_array, field, 0);
LEAT_AT(leat_array, values, 32);
LEAT_AT(leat_array, bytes, 40);

static_assert(sizeof(leat_array_dataset) >= 48);
LEAT_AT(leat_array_dataset, size, 0);
LEAT_AT(leat_array_dataset, name, 8);
LEAT_AT(leat_array_dataset, arrays, 16);
LEAT_AT(leat_array_dataset, array_count, 24);
LEAT_AT(leat_array_dataset, user, 32);
LEAT_AT(leat_array_dataset, close, 40);

static_assert(LEAT_OK == 0 && LEAT_END_OF_EPOCH == 1 && LEAT_ERROR_ARGUMENT == -1 &&
              LEAT_ERROR_ENVIRONMENT == -2 && LEAT_ERROR_DEVICE == -3 && LEAT_ERROR_MEMORY == -4 &&
              LEAT_ERROR_BUFFER == -5 && LEAT_ERROR_CANCELLED == -6 && LEAT_ERROR_INTERNAL == -7);
static_assert(LEAT_INT8 == 0 && LEAT_INT16 == 1 && LEAT_INT32 == 2 && LEAT_INT64 == 3 &&
              LEAT_UINT8 == 4 && LEAT_UINT16 == 5 && LEAT_UINT32 == 6 && LEAT_UINT64 == 7 &&
              LEAT_FLOAT16 == 8 && LEAT_BFLOAT16 == 9 && LEAT_FLOAT32 == 10 && LEAT_FLOAT64 == 11);
static_assert(LEAT_MNIST_TRAIN == 0 && LEAT_MNIST_TEST == 1);
static_assert(LEAT_ORDER_SEQUENTIAL == 0 && LEAT_ORDER_SHUFFLED == 1);
static_assert(LEAT_LAST_BATCH_PARTIAL == 0 && LEAT_LAST_BATCH_DROP == 1 &&
              LEAT_LAST_BATCH_PAD == 2 && LEAT_LAST_BATCH_WRAP == 3);
static_assert(LEAT_DELIVERY_IN_ORDER == 0 && LEAT_DELIVERY_AS_COMPLETED == 1);
static_assert(LEAT_CHECK_SLOTS_NO == 0 && LEAT_CHECK_SLOTS_YES == 1 &&
              LEAT_CHECK_SLOTS_READ_ONLY == 2);
static_assert(LEAT_SPLIT_TRAIN == 0 && LEAT_SPLIT_TEST == 1);
static_assert(LEAT_TOKEN_HEADER_AUTO == 0 && LEAT_TOKEN_HEADER_NONE == 1 &&
              LEAT_TOKEN_HEADER_LLM_C == 2);
static_assert(LEAT_FIT_STRETCH == 0 && LEAT_FIT_CENTER_CROP == 1 &&
              LEAT_FIT_RANDOM_RESIZED_CROP == 2 && LEAT_FIT_EXACT == 3);
static_assert(LEAT_WEB_IMAGE == 0 && LEAT_WEB_LABEL == 1 && LEAT_WEB_BYTES == 2);

#undef LEAT_AT

}  // namespace leat::feeder::c_api
