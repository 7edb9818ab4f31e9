// Arrow arrays made to order, good and bad, and the stream that gives them: so the tests need no
// Arrow, and can lie wherever they like.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "leat/feeder/sources/columns/arrow_abi.h"

namespace leat::feeder {

/// A buffer: memory of its own or the program's.
using ArrowBuffer = std::shared_ptr<const void>;

template <class T>
ArrowBuffer buffer_of(const std::vector<T>& values) {
  auto owner = std::make_shared<std::vector<T>>(values);
  return {owner, owner->data()};
}
inline ArrowBuffer text_of(const std::string& text) {
  auto owner = std::make_shared<std::string>(text);
  return {owner, owner->data()};
}
/// A bitmap: 1 for true, from bit `skip` on. The bits before are 0, those behind 1.
inline ArrowBuffer bits_of(const std::vector<bool>& bits, std::size_t skip = 0) {
  std::vector<std::uint8_t> bytes((skip + bits.size()) / 8 + 1, 0xff);
  for (std::size_t i = 0; i < skip + bits.size(); ++i) {
    if (i < skip || !bits[i - skip]) bytes[i / 8] &= static_cast<std::uint8_t>(~(1U << i % 8));
  }
  return buffer_of(bytes);
}

/// An array and its type. A value; copies share buffers.
struct Arrow {
  std::string format;
  std::int64_t length = 0;
  std::vector<ArrowBuffer> buffers = {};  // the first: which are valid; null: all
  std::vector<Arrow> children = {};
  std::int64_t offset = 0;
  std::int64_t null_count = -1;
  std::string name = "x";
  std::shared_ptr<const Arrow> dictionary = nullptr;
};

/// `values` as they are, of a format of numbers.
template <class T>
Arrow numbers(const std::string& format, const std::vector<T>& values) {
  return {format, static_cast<std::int64_t>(values.size()), {nullptr, buffer_of(values)}};
}
/// Strings or binary, "u" or "z"; "U" or "Z" with wide offsets.
inline Arrow strings(const std::string& format, const std::vector<std::string>& texts) {
  std::string all;
  std::vector<std::int32_t> ends{0};
  for (const std::string& text : texts) {
    all += text;
    ends.push_back(static_cast<std::int32_t>(all.size()));
  }
  const bool is_wide = format == "U" || format == "Z";
  const std::vector<std::int64_t> wide(ends.begin(), ends.end());
  return {format,
          static_cast<std::int64_t>(texts.size()),
          {nullptr, is_wide ? buffer_of(wide) : buffer_of(ends), text_of(all)}};
}
/// Strings as views. Long ones lie in two buffers, in turn.
inline Arrow views(const std::string& format, const std::vector<std::string>& texts) {
  std::string data[2];
  std::vector<std::int32_t> entries;
  int next = 0;
  for (const std::string& text : texts) {
    std::int32_t entry[4] = {static_cast<std::int32_t>(text.size()), 0, 0, 0};
    std::memcpy(entry + 1, text.data(), std::min<std::size_t>(text.size(), 4));
    if (text.size() <= 12) {
      std::memcpy(entry + 1, text.data(), text.size());
    } else {
      entry[2] = next;
      entry[3] = static_cast<std::int32_t>(data[next].size());
      data[next] += text;
      next = 1 - next;
    }
    entries.insert(entries.end(), entry, entry + 4);
  }
  const std::vector<std::int64_t> sizes{static_cast<std::int64_t>(data[0].size()),
                                        static_cast<std::int64_t>(data[1].size())};
  return {format,
          static_cast<std::int64_t>(texts.size()),
          {nullptr, buffer_of(entries), text_of(data[0]), text_of(data[1]), buffer_of(sizes)}};
}
/// Lists of `format` ("+l" or "+L") that end at `ends` in `values`.
inline Arrow lists(const std::string& format, std::vector<std::int64_t> ends, Arrow values) {
  ends.insert(ends.begin(), 0);
  const std::vector<std::int32_t> narrow(ends.begin(), ends.end());
  return {format,
          static_cast<std::int64_t>(ends.size()) - 1,
          {nullptr, format == "+L" ? buffer_of(ends) : buffer_of(narrow)},
          {std::move(values)}};
}
inline Arrow fixed_lists(std::int64_t extent, std::int64_t length, Arrow values) {
  return {"+w:" + std::to_string(extent), length, {nullptr}, {std::move(values)}};
}
/// Codes of the values of a dictionary.
inline Arrow codes(Arrow indices, Arrow dictionary) {
  indices.dictionary = std::make_shared<Arrow>(std::move(dictionary));
  return indices;
}
/// `array` from slot `begin` on, `length` of them.
inline Arrow slice(Arrow array, std::int64_t begin, std::int64_t length) {
  array.offset += begin;
  array.length = length;
  return array;
}
/// `array`, of which some slots are null, from its offset on.
inline Arrow with_nulls(Arrow array, const std::vector<bool>& is_valid) {
  array.buffers[0] = bits_of(is_valid, static_cast<std::size_t>(array.offset));
  return array;
}
inline Arrow named(std::string name, Arrow array) {
  array.name = std::move(name);
  return array;
}
/// A chunk of a table.
inline Arrow table_of(std::vector<Arrow> columns) {
  const std::int64_t rows = columns.empty() ? 0 : columns[0].length;
  return {"+s", rows, {nullptr}, std::move(columns), 0, 0};
}

/// A stream of chunks, by the schema of the first, or of `schema`. Counts what is not released.
class ArrowProducer {
 public:
  explicit ArrowProducer(std::vector<Arrow> chunks, std::optional<Arrow> schema = {})
      : schema_(schema ? *schema : chunks.at(0)), chunks_(std::move(chunks)) {
    stream.get_schema = [](ArrowArrayStream* self, ArrowSchema* out) {
      ArrowProducer& producer = of(self);
      if (producer.fails_at_schema) return 5;
      producer.fill(*out, producer.schema_);
      if (producer.spoil_schema) producer.spoil_schema(*out);
      return 0;
    };
    stream.get_next = [](ArrowArrayStream* self, ArrowArray* out) {
      ArrowProducer& producer = of(self);
      if (producer.fails_at == producer.next_) return 5;
      *out = {};
      if (producer.next_ == producer.chunks_.size()) return 0;
      producer.fill(*out, producer.chunks_[producer.next_++]);
      if (producer.spoil) producer.spoil(*out);
      return 0;
    };
    stream.get_last_error = [](ArrowArrayStream* self) { return of(self).error; };
    stream.release = [](ArrowArrayStream* self) {
      --of(self).alive;
      self->release = nullptr;
    };
    stream.private_data = this;
  }
  ArrowProducer(const ArrowProducer&) = delete;
  ArrowProducer& operator=(const ArrowProducer&) = delete;

  ArrowArrayStream stream = {};
  std::optional<std::size_t> fails_at = std::nullopt;  // the chunk that an error comes in place of
  bool fails_at_schema = false;
  const char* error = "the disk is gone";
  std::function<void(ArrowSchema&)> spoil_schema;  // changes what is given
  std::function<void(ArrowArray&)> spoil;
  int alive = 1;  // structs that nobody has released: the stream, schemas and arrays

 private:
  static ArrowProducer& of(ArrowArrayStream* self) {
    return *static_cast<ArrowProducer*>(self->private_data);
  }
  // What a struct at the top owns, and the structs below it.
  template <class T>
  struct Owner {
    ArrowProducer& producer;
    std::vector<std::unique_ptr<T>> below;
    std::vector<std::unique_ptr<T*[]>> lists;
    std::vector<std::unique_ptr<const void*[]>> buffers;
    std::vector<ArrowBuffer> kept;
  };
  template <class T>
  void fill(T& out, const Arrow& array) {
    auto* const owner = new Owner<T>{*this, {}, {}, {}, {}};
    fill(out, array, *owner);
    ++alive;
    out.private_data = owner;
    out.release = [](T* self) {
      auto* const freed = static_cast<Owner<T>*>(self->private_data);
      --freed->producer.alive;
      delete freed;
      self->release = nullptr;
    };
  }
  template <class T>
  void fill(T& out, const Arrow& array, Owner<T>& owner) {
    out = {};
    const auto add = [&](const Arrow& one) {
      T* const made = owner.below.emplace_back(std::make_unique<T>()).get();
      fill(*made, one, owner);
      return made;
    };
    out.n_children = static_cast<std::int64_t>(array.children.size());
    auto list = std::make_unique<T*[]>(array.children.size());
    for (std::size_t i = 0; i < array.children.size(); ++i) list[i] = add(array.children[i]);
    out.children = owner.lists.emplace_back(std::move(list)).get();
    if (array.dictionary != nullptr) out.dictionary = add(*array.dictionary);
    set(out, array, owner);
  }
  static void set(ArrowSchema& out, const Arrow& array, Owner<ArrowSchema>& /*owner*/) {
    out.format = array.format.c_str();
    out.name = array.name.c_str();
    out.flags = ARROW_FLAG_NULLABLE;
  }
  static void set(ArrowArray& out, const Arrow& array, Owner<ArrowArray>& owner) {
    out.length = array.length;
    out.null_count = array.null_count;
    out.offset = array.offset;
    out.n_buffers = static_cast<std::int64_t>(array.buffers.size());
    auto pointers = std::make_unique<const void*[]>(array.buffers.size());
    for (std::size_t i = 0; i < array.buffers.size(); ++i) {
      pointers[i] = array.buffers[i].get();
      owner.kept.push_back(array.buffers[i]);
    }
    out.buffers = owner.buffers.emplace_back(std::move(pointers)).get();
  }

  Arrow schema_;
  std::vector<Arrow> chunks_;
  std::size_t next_ = 0;
};

}  // namespace leat::feeder
